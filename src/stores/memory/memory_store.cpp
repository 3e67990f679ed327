#include "stores/memory/memory_store.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"
#include "ledger/keeping.hpp"
#include "ledger/plan.hpp"

namespace semel {

class MemorySession final : public Session {
public:
    explicit MemorySession(MemoryStore& store) : store_(store) {}
    Result<Executed> execute(std::span<const Group> groups) override { return store_.execute(groups); }

private:
    MemoryStore& store_;
};

MemoryStore::MemoryStore(std::function<TimePoint()> clock) : clock_(std::move(clock)) {}

Result<std::unique_ptr<Session>> MemoryStore::session() {
    return std::unique_ptr<Session>(std::make_unique<MemorySession>(*this));
}

Executed MemoryStore::execute(std::span<const Group> groups) {
    const std::lock_guard lock(mutex_);
    std::vector<Found> found;
    for (const Group& group : groups) {
        for (std::size_t i = 0; i < group.commands.size(); ++i) {
            const auto at = records_.find(group.id(i));
            found.emplace_back(at == records_.end() ? std::nullopt : std::optional<Record>(at->second));
        }
    }
    const TimePoint now = clock_();
    Plan planned = plan(groups, std::move(found), {now, next_token_, owner_, std::nullopt});
    next_token_.value += planned.tokens_used;
    for (Write& write : planned.writes) {
        if (write.next)
            records_.insert_or_assign(write.id, std::move(*write.next));
        else
            records_.erase(write.id);
    }
    return {now, std::move(planned.answers)};
}

Result<std::optional<Record>> MemoryStore::find(const OperationId& id) {
    const std::lock_guard lock(mutex_);
    const auto at = records_.find(id);
    if (at == records_.end()) return std::optional<Record>{};
    return std::optional<Record>(at->second);
}

Result<Page> MemoryStore::list(const Filter& filter, const std::string& cursor, std::size_t limit) {
    const std::lock_guard lock(mutex_);
    Page page;
    const auto after = from_hex(cursor);
    if (!after || (!after->empty() && after->size() != 16))
        return Failure{Code::invalid, "list: `" + cursor + "` is not a cursor of this store"};
    auto at = records_.begin();
    if (!after->empty()) {
        OperationId id;
        std::ranges::copy(*after, id.bytes.begin());
        at = records_.upper_bound(id);
    }
    const TimePoint now = clock_();
    for (; at != records_.end(); ++at) {
        if (!matches(filter, at->second, now)) continue;
        if (page.records.size() == limit) {
            page.next = to_hex(page.records.back().id.bytes);
            break;
        }
        page.records.push_back(at->second);
    }
    return page;
}

Result<Swept> MemoryStore::sweep(std::size_t limit, bool accept_clock) {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_();
    if (auto trusted = check_sweep_clock(last_sweep_, now, accept_clock); !trusted) return trusted.failure();
    last_sweep_ = now;
    Swept swept;
    for (auto at = records_.begin(); at != records_.end();) {
        const auto due = due_at(at->second);
        if (at->second.state != State::settled || !due || *due > now) {
            ++at;
            continue;
        }
        if (swept.bodies_dropped + swept.removed == limit) {
            swept.more = true;
            break;
        }
        Decision decision = semel::sweep(at->second, now);
        if (decision.next) {
            at->second = std::move(*decision.next);
            ++swept.bodies_dropped;
            ++at;
        } else {
            at = records_.erase(at);
            ++swept.removed;
        }
    }
    return swept;
}

void MemoryStore::restart() {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_();
    for (auto& [id, record] : records_) {
        Decision decision = expire_owner(record, owner_, now);
        if (decision.changed) record = std::move(*decision.next);
    }
    ++owner_.value;
}

}  // namespace semel
