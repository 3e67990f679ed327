// The demo's payments API: claims durably, charges a provider that would charge twice if it were asked twice, settles.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "cli/demo_plan.hpp"
#include "semel/committer.hpp"

namespace semel::cli::demo {

/// Somebody else's payment service. It does not deduplicate: every call is money. Thread safe.
class Provider {
public:
    /// Returns a receipt.
    std::string charge(const Key& key, std::int64_t cents);
    [[nodiscard]] std::uint64_t charges() const;
    /// How often the call with this key was made.
    [[nodiscard]] std::uint64_t charges_of(const Key& key) const;

private:
    mutable std::mutex mutex_;
    std::map<Key, std::uint64_t> calls_;  // guarded by mutex_, as is the sum
    std::uint64_t charges_ = 0;
};

/// A store whose reply to COMMIT is lost now and then, after the commit was done.
class LossyStore final : public Store {
public:
    explicit LossyStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}

    void lose_next_reply() { lose_ = true; }
    /// How many were lost so far.
    [[nodiscard]] std::uint64_t replies_lost() const { return lost_; }

    Result<std::unique_ptr<Session>> session() override;
    [[nodiscard]] std::size_t sessions_max() const override { return store_->sessions_max(); }
    Result<std::optional<Record>> find(const OperationId& id) override { return store_->find(id); }
    Result<Page> list(const Filter& filter, const std::string& cursor, std::size_t limit) override {
        return store_->list(filter, cursor, limit);
    }
    Result<Swept> sweep(std::size_t limit, bool accept_clock) override { return store_->sweep(limit, accept_clock); }
    Result<TimePoint> now() override { return store_->now(); }
    [[nodiscard]] std::string text() const override { return store_->text(); }

private:
    class LossySession;
    std::unique_ptr<Store> store_;
    std::atomic<bool> lose_ = false;
    std::atomic<std::uint64_t> lost_ = 0;
};

/// Thread safe.
class PaymentsApi {
public:
    PaymentsApi(LossyStore& store, Committer& committer, Provider& provider)
        : store_(store), committer_(committer), provider_(provider) {}

    struct Response {
        Outcome outcome;
        bool replayed = false;
    };
    /// One request, as often as the client sends it. A retry that overtakes the first request waits for its answer.
    Result<Response> pay(const Step& step);

    static Operation operation(const Payment& payment);
    /// The key that the provider is called with.
    static Key charge_key(const Payment& payment);

private:
    Result<Response> charge_and_settle(const Step& step, const Claimed& claimed);
    LossyStore& store_;
    Committer& committer_;
    Provider& provider_;
};

}  // namespace semel::cli::demo
