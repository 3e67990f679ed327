// A journal that forgets with the process.
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/quote.hpp"
#include "semel/client.hpp"

namespace semel::client {
namespace {

struct Shelf {
    std::mutex mutex{};
    std::map<std::string, IntentRecord, std::less<>> records{};  // guarded by mutex, as is the next
    std::set<std::string, std::less<>> held{};
};

class HeldInMemory final : public HeldIntent {
public:
    HeldInMemory(std::shared_ptr<Shelf> shelf, std::string intent, std::optional<IntentRecord> record)
        : shelf_(std::move(shelf)), intent_(std::move(intent)), record_(std::move(record)) {}
    HeldInMemory(const HeldInMemory&) = delete;
    HeldInMemory& operator=(const HeldInMemory&) = delete;
    ~HeldInMemory() override {
        const std::lock_guard lock(shelf_->mutex);
        shelf_->held.erase(intent_);
    }

    [[nodiscard]] const std::optional<IntentRecord>& record() const override { return record_; }
    Status save(const IntentRecord& record) override {
        const std::lock_guard lock(shelf_->mutex);
        shelf_->records.insert_or_assign(intent_, record);
        return Done{};
    }

private:
    std::shared_ptr<Shelf> shelf_;
    std::string intent_;
    std::optional<IntentRecord> record_;
};

class MemoryJournal final : public Journal {
public:
    Result<std::unique_ptr<HeldIntent>> hold(std::string_view intent) override {
        if (intent.empty() || intent.size() > intent_bytes_max)
            return Failure{Code::invalid, fmt::format("intent {}: its name must have 1 to {} bytes", in_quotes(intent),
                                                      intent_bytes_max)};
        const std::lock_guard lock(shelf_->mutex);
        if (!shelf_->held.emplace(intent).second) return under_way(intent);
        std::optional<IntentRecord> record;
        if (const auto found = shelf_->records.find(intent); found != shelf_->records.end()) record = found->second;
        return std::unique_ptr<HeldIntent>(
            std::make_unique<HeldInMemory>(shelf_, std::string(intent), std::move(record)));
    }

    Result<bool> forget(std::string_view intent) override {
        const std::lock_guard lock(shelf_->mutex);
        if (shelf_->held.contains(intent)) return under_way(intent);
        const auto found = shelf_->records.find(intent);
        if (found == shelf_->records.end()) return false;
        shelf_->records.erase(found);
        return true;
    }

private:
    static Failure under_way(std::string_view intent) {
        return {Code::contended, fmt::format("intent {}: another run of it is under way; nothing was sent by this one",
                                             in_quotes(intent))};
    }

    std::shared_ptr<Shelf> shelf_ = std::make_shared<Shelf>();
};

}  // namespace

std::unique_ptr<Journal> memory_journal() { return std::make_unique<MemoryJournal>(); }

}  // namespace semel::client
