// The simulated store: rows, row locks, transactions in flight and a clock of its own; the deciding is the real one
// (plan, decide, to_row, from_row).
//
// Shared, like PostgreSQL: many sessions, a transaction may outlive its client and still commit. Embedded, like SQLite:
// one owner, whose death ends its transactions at once and whose restart expires its leases.
//
// A batch: on its way -> locking its rows, perhaps waiting -> decided (clock and tokens read after locking) -> committed or
// rolled back -> replied to.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "judge.hpp"
#include "ledger/plan.hpp"
#include "ledger/row.hpp"

namespace semel::sim {

enum class StoreKind { shared, embedded };

/// How a client hears from the store: called at most once, on the client's own time.
using Replied = std::move_only_function<void(Result<Executed>)>;

/// What a caller's own transaction does beside the ledger's command.
struct OwnWork {
    const Subject* subject;
    std::string effect;   ///< the row it writes
    bool settles = true;  ///< after a claim: gives its outcome
};

class SimStore {
public:
    SimStore(Stage& stage, World& world, Judge& judge, StoreKind kind);

    [[nodiscard]] StoreKind kind() const { return kind_; }
    [[nodiscard]] TimePoint clock() const { return time_from_micros(1'700'000'000'000'000) + stage_.now() + offset_; }

    /// One batch of a session. `process` is whose death ends the conversation.
    void execute(ProcessId process, std::vector<Group> groups, Replied reply);
    /// A caller's own transaction: one claim (in_transaction) or one settle, with an effect row that commits with it.
    void execute_own(ProcessId process, Command command, OwnWork work, Replied reply);

    // ---- a caller's own transaction, statement by statement
    struct Transaction;
    using Tx = std::shared_ptr<Transaction>;
    /// Empty: the store is down.
    Tx begin(ProcessId process);
    /// `then` is told whether the row is locked; if not, the transaction is over.
    void lock(const Tx& tx, const OperationId& id, std::move_only_function<void(bool)> then);
    /// As the transaction sees it, locked.
    [[nodiscard]] Found see(const Tx& tx, const OperationId& id) const;
    GroupAnswer decide(const Tx& tx, Command command);
    /// What commits with it: the workflow it is a step of, held by this token; and the effect row.
    void commit(const Tx& tx, const Subject& whole, Token token, std::optional<OwnWork> work, Replied reply);
    void give_up(const Tx& tx);
    [[nodiscard]] static bool is_over(const Tx& tx);
    [[nodiscard]] bool down() const { return stage_.now() < down_until_; }
    [[nodiscard]] bool damaged(const OperationId& id) const { return undamaged_.contains(id); }

    /// What is committed about an operation, for people: empty if absent, locked away or damaged.
    [[nodiscard]] std::optional<Record> find(const OperationId& id) const;
    [[nodiscard]] std::map<OperationId, std::optional<Record>> records() const;
    void sweep();

    // ---- faults
    void client_died(ProcessId process);
    /// Embedded: a new owner opens the store.
    void owner_restarts();
    void outage(Duration how_long);
    void full(bool for_claims_only, Duration how_long);
    void clock_jumps(Duration by);
    void damage_a_row();
    /// Everything heals: transactions end, damage is repaired, room is made.
    void heal();
    void drop_everything() {
        transactions_.clear();
        waiting_.clear();
    }

    struct Transaction {
        std::uint64_t number;
        ProcessId process;
        std::vector<Group> groups;
        std::optional<OwnWork> own;
        bool again = false;  ///< waits long for locks
        bool echo = false;   ///< nobody waits for it
        bool replied = false;
        std::vector<OperationId> wanted;
        std::size_t locked = 0;  ///< how many of `wanted` are dealt with
        std::set<OperationId> skipped;
        bool waiting = false;
        bool is_decided = false;
        bool over = false;
        std::uint64_t end = 0;  ///< the last planned end counts
        TimePoint now{};
        std::vector<GroupAnswer> answers;
        std::vector<Decided> decided;
        bool writes_effect = false;
        bool by_statement = false;
        std::move_only_function<void(bool)> locked_then;
        const Subject* whole = nullptr;
        Token whole_token{};
        Replied reply;
    };

private:
    void arrive(const Tx& tx);
    void lock(const Tx& tx);
    void lock_timed_out(const Tx& tx);
    void decide(const Tx& tx);
    void decide_own(Transaction& tx, Plan& planned);
    std::vector<Found> read(const Transaction& tx) const;
    void plan_end(const Tx& tx);
    void end_after(const Tx& tx, Duration delay, bool commit, std::optional<Failure> instead);
    void commit(const Tx& tx);
    void roll_back(const Tx& tx);
    void unlock(const Tx& tx);
    void reply(const Tx& tx, Result<Executed> result);
    void reply_answers(const Tx& tx);
    [[nodiscard]] Duration trip() const { return stage_.between(milliseconds{1}, milliseconds{10}); }
    [[nodiscard]] std::vector<Tx> living() const;

    Stage& stage_;
    World& world_;
    Judge& judge_;
    StoreKind kind_;
    std::map<OperationId, Row> rows_;
    std::map<OperationId, std::vector<std::string>> effect_rows_;
    std::map<OperationId, std::uint64_t> locks_;
    std::map<std::uint64_t, Tx> transactions_;
    std::vector<Tx> waiting_;
    std::map<OperationId, Row> undamaged_;
    std::uint64_t next_transaction_ = 1;
    Token next_token_{1};
    Epoch owner_{0};
    Duration offset_{0};
    Duration down_until_{0};
    Duration full_until_{0};
    Duration claims_full_until_{0};
    std::optional<TimePoint> last_sweep_;
};

}  // namespace semel::sim
