// The judge: hears of everything that is decided, committed, sent and answered, and knows the invariants.
//
// It keeps its own short history of each operation, written only from what became durable, and never asks the ledger.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "semel/committer.hpp"
#include "semel/store.hpp"
#include "world.hpp"

namespace semel::sim {

/// One command as a transaction decided it.
struct Decided {
    Command command;
    std::optional<Record> before;
    Answer answer;
    bool wrote = false;
    std::optional<Record> next;  ///< meaningful if it wrote
};

/// What an instance says when its queue is full.
inline constexpr std::string_view queue_full = "too many wait already";

using SubmissionId = std::uint64_t;
using ProcessId = std::uint64_t;  ///< one life of an instance

class Judge {
public:
    Judge(Stage& stage, const World& world) : stage_(stage), world_(world) {}
    /// The store's clock may jump in this run: what is promised by the clock alone is then not judged.
    void expect_clock_jumps() { clock_jumps_ = true; }

    // ---- the store
    /// Before anything is written. `alone`: its group holds no other command.
    void decided(const Decided& what, TimePoint now, bool alone);
    /// `echo`: delivered a second time by the network; nobody waits for it.
    void committed(const Decided& what, TimePoint now, bool echo);
    void swept(const Record& before, const std::optional<Record>& next, TimePoint now);
    void owner_died(const Record& before, const std::optional<Record>& next);
    /// How many effect rows stand beside the ledger's row after a commit.
    void effect_rows(const Subject& subject, std::size_t rows, const std::optional<Record>& record);

    /// A local step is committed, and the record of its workflow is this.
    void local_step(const Subject& workflow, Token token, const std::optional<Record>& record);

    /// There is no room at all until then.
    void store_is_full(Steady until) { full_until_ = until; }

    // ---- the committer
    void batch(ProcessId process, bool general, std::span<const Group> groups);
    void batch_over(ProcessId process, std::span<const Group> groups);
    SubmissionId submitted(ProcessId process, std::span<const Command> commands, Steady deadline, Duration paused);
    void completed(SubmissionId id, const GroupAnswer& answer, bool given_up, Duration paused);
    /// A grant that nobody waited for was handed back to the queue's care, and this is its release on the way out.
    void released_for(const Token& token) { unclaimed_.erase(token.value); }
    void process_died(ProcessId process);
    void process_paused(ProcessId process);

    // ---- holders and callers
    void sends(const Subject& subject, const Token& token, TimePoint store_now);
    void answered_stored(const Subject& subject, const Outcome& outcome);
    void answered_replay(const Subject& subject, const Fingerprint& asked, const Outcome& outcome);
    void request_begins(ProcessId process, std::uint64_t request) { requests_[request] = process; }
    void request_ends(std::uint64_t request) { requests_.erase(request); }

    // ---- the end
    void nobody_waits();
    void all_ended(const std::map<OperationId, std::optional<Record>>& records);

private:
    /// What became durable about an operation.
    struct History {
        std::uint64_t token_max = 0;
        std::set<std::uint64_t> granted;           ///< tokens
        std::map<std::uint64_t, TimePoint> lease;  ///< the end of each token's lease
        std::optional<Outcome> outcome;            ///< of the settled record
        std::optional<Fingerprint> fingerprint;
        bool body_dropped = false;
        bool swept = false;
        bool open = false;  ///< granted, and neither settled nor removed since
    };
    struct Pending {
        ProcessId process;
        std::vector<Command> commands;
        Steady submitted;
        Steady deadline;
        Duration paused;
    };
    struct Unclaimed {
        ProcessId process;
        OperationId id;
        Steady since;
    };

    void claim_decided(const Claim& claim, const Decided& what, TimePoint now);
    void holder_decided(const Holder& holder, const Decided& what);
    void grant_committed(const Subject& subject, const Claim& claim, const Record& next, bool echo);
    void removed(const Subject& subject, const Decided& what, TimePoint now);
    void stayed_open(const Subject& subject, const Decided& what);
    void settled(const Subject& subject, const Decided& what);
    // of a workflow that the engine runs
    void step_granted(const Subject& step, Token token, bool with_checkpoint);
    void workflow_settled(const Subject& workflow, const Outcome& outcome);
    [[nodiscard]] bool done(const Subject& subject);
    [[nodiscard]] bool failed(const Subject& subject);
    void check_failure(const Pending& pending, const Failure& failure);
    void check_claim_answer(const Claim& claim, const Answer& answer, const Pending& pending, bool given_up);

    Stage& stage_;
    const World& world_;
    bool clock_jumps_ = false;
    Steady full_until_{};
    std::unordered_map<OperationId, History> histories_;
    std::optional<OperationId> saved_;      ///< whose checkpoint was committed just before, in the same transaction
    std::set<std::uint64_t> under_guard_;   ///< tokens of steps that were granted together with that
    std::set<std::uint64_t> heard_;         ///< tokens whose holder has been heard of
    std::map<Attempt, Token> attempts_;     ///< grants that became durable
    std::set<Attempt> answered_;            ///< claims that have had their answer: no grant comes after it
    std::set<std::uint64_t> settles_done_;  ///< tokens that settled, echoes left out
    std::map<std::uint64_t, int> settles_said_;  ///< how often each token was settled by its holder
    std::map<SubmissionId, Pending> pending_;
    SubmissionId last_submission_ = 0;
    std::map<std::uint64_t, Unclaimed> unclaimed_;  ///< by token
    std::map<ProcessId, std::set<OperationId>> out_;
    std::map<std::uint64_t, ProcessId> requests_;
};

}  // namespace semel::sim
