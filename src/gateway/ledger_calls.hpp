// The ledger as one I/O thread of the gateway uses it: a call ends when the ledger answers or its time is up, whichever
// comes first, however stuck the store is. Answers of one commit reach the thread together.
//
// Also keeps the leases of what the thread holds: a lease is renewed every third of its length until it is let go (I4).
#pragma once

#include <boost/asio/async_result.hpp>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "gateway/deadlines.hpp"
#include "gateway/net.hpp"
#include "semel/committer.hpp"

namespace semel::gateway {

/// An operation that this process holds, from its claim until the ledger has heard of its end.
struct Held {
    Holder holder;
    Duration lease;
    SteadyTime renew_at;
    SteadyTime begin_before;  ///< I4: no effect begins later than this, by our own steady clock
    bool renewing = false;
    bool lost = false;       ///< superseded, or settled by somebody else
    bool abandoned = false;  ///< given up while draining

    /// Whether an effect may begin now.
    [[nodiscard]] bool may_begin() const {
        return !lost && !abandoned && std::chrono::steady_clock::now() <= begin_before;
    }
};

struct LeaseFigures {
    std::uint64_t renewed = 0;
    std::uint64_t lost = 0;
};

class LedgerCalls {
public:
    LedgerCalls(asio::io_context& context, Deadlines& deadlines, Committer& committer)
        : deadlines_(deadlines), committer_(committer), inbox_(std::make_shared<Inbox>(context)) {}
    ~LedgerCalls();
    LedgerCalls(const LedgerCalls&) = delete;
    LedgerCalls& operator=(const LedgerCalls&) = delete;

    /// `unavailable` when there was no answer in time; a late grant is released by the committer (I6).
    Task<Result<ClaimAnswer>> claim(Claim command, Duration within);
    /// `indeterminate` when there was no answer in time: it may still be done.
    Task<Result<HolderAnswer>> tell(Command command, Duration within);

    /// From here on the lease is renewed, until `let_go`.
    std::shared_ptr<Held> hold(const Claimed& claimed, const OperationId& id, Duration lease, SteadyTime claim_sent);
    void let_go(const std::shared_ptr<Held>& held) { held_.erase(held); }
    /// Renews what is due. Called every tick.
    void tick(SteadyTime now);
    /// Draining is over: whatever is still held becomes unknown. `then` is called when the ledger has answered, or not in
    /// time.
    void abandon_all(Duration within, std::move_only_function<void()> then);

    /// Destroys who waits for an answer. The committer has ended, and so has the thread.
    void forget();

    [[nodiscard]] std::size_t holding() const { return held_.size(); }
    [[nodiscard]] const LeaseFigures& figures() const { return figures_; }

private:
    struct Call;
    /// Where the committer's threads leave answers; outlives this, since an answer may come late.
    struct Inbox : std::enable_shared_from_this<Inbox> {
        explicit Inbox(asio::io_context& on) : context(on) {}
        void put(std::shared_ptr<Call> call, GroupAnswer answer);
        void wake();
        void empty();

        asio::io_context& context;
        std::mutex mutex;
        bool closed = false;                                                   // guarded by mutex
        std::vector<std::pair<std::shared_ptr<Call>, GroupAnswer>> answers{};  // guarded by mutex
        std::vector<std::pair<std::shared_ptr<Call>, GroupAnswer>> taken{};
    };

    void submit(Command command, Duration within, std::move_only_function<void(GroupAnswer)> done);
    Task<GroupAnswer> execute(Command command, Duration within);
    void renew(const std::shared_ptr<Held>& held, SteadyTime now);

    Deadlines& deadlines_;
    Committer& committer_;
    std::shared_ptr<Inbox> inbox_;
    std::unordered_set<std::shared_ptr<Held>> held_;
    LeaseFigures figures_;
};

}  // namespace semel::gateway
