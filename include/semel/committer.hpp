// The committer: group commit for everybody who uses a store.
//
// It gathers whatever waits while the last commit runs, executes it as one batch, and gives each caller its own answer.
// There is no timer: a lone caller is served at once, and many share a commit.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "semel/store.hpp"

namespace semel {

struct CommitterOptions {
    std::size_t batch_max = Session::groups_max;  ///< groups in one commit
    std::size_t batch_bytes_max = 16U << 20;      ///< bodies, requests and checkpoints in one commit
    std::size_t queue_max = 65536;                ///< groups waiting; more are refused as `exhausted`
    Duration timeout = std::chrono::seconds{10};  ///< how long a command is tried when its caller names no limit
    Duration backoff_first = std::chrono::milliseconds{5};
    Duration backoff_max = std::chrono::milliseconds{500};
};

struct CommitterFigures {
    std::uint64_t batches = 0;    ///< commits that succeeded
    std::uint64_t groups = 0;     ///< answered by them
    std::uint64_t splits = 0;     ///< batches cut in two to find the one that fails
    std::uint64_t repeats = 0;    ///< executions again after a lost reply
    std::uint64_t unclaimed = 0;  ///< claims released because nobody waited any more
};

/// Answers and failures of one group, given on a thread of the committer. Must not block or throw.
using GroupDone = std::move_only_function<void(GroupAnswer)>;

/// Lets a caller stop waiting. A claim that is granted after that is released by the committer (I6). Thread safe.
class Waiting {
public:
    /// True: nobody waits any more, and a late grant is released. False: the answer was given already or is on its way.
    bool give_up() { return leave(State::given_up); }
    /// For the committer: true if the answer may be given; the caller can no longer give up.
    bool deliver() { return leave(State::delivered); }
    [[nodiscard]] bool given_up() const { return state_ == State::given_up; }

private:
    enum class State { waiting, given_up, delivered };
    bool leave(State to) {
        State expected = State::waiting;
        return state_.compare_exchange_strong(expected, to) || expected == to;
    }
    std::atomic<State> state_ = State::waiting;
};

/// The ledger as somebody sees it who waits for its answers: the committer, or a simulation of one. Thread safe.
class BlockingLedger {
public:
    virtual ~BlockingLedger() = default;

    /// `wait` zero: CommitterOptions::timeout. Each claim() mints its own attempt id; one given in the
    /// command is replaced. Failures besides those of the store: `unavailable` when a claim was not granted in time (a late
    /// grant is released), `indeterminate` when another command was not answered in time (it may still be done).
    Result<ClaimAnswer> claim(Claim command, Duration wait = Duration{0});
    Result<HolderAnswer> renew(const Holder& holder, Duration wait = Duration{0});
    Result<HolderAnswer> save(const Holder& holder, Checkpoint checkpoint, Duration wait = Duration{0});
    Result<HolderAnswer> settle(const Holder& holder, Outcome outcome, bool conclusive = true,
                                Duration wait = Duration{0});
    Result<HolderAnswer> release(const Holder& holder, Duration wait = Duration{0});
    Result<HolderAnswer> abandon(const Holder& holder, Duration wait = Duration{0});
    Result<HolderAnswer> resolve(Resolve command, Duration wait = Duration{0});
    /// Commands that stand or fall together, for callers that need more than one.
    virtual GroupAnswer execute(std::vector<Command> commands, Duration wait = Duration{0}) = 0;

    [[nodiscard]] virtual Store& store() const = 0;
};

/// Thread safe. The store must outlive it.
class Committer final : public BlockingLedger {
public:
    /// Opens the sessions and starts one thread for each.
    static Result<std::unique_ptr<Committer>> start(Store& store, CommitterOptions options = {});
    /// Finishes what was submitted, or fails it when its time is up.
    ~Committer() override;
    Committer(const Committer&) = delete;
    Committer& operator=(const Committer&) = delete;

    /// The blocking face.
    GroupAnswer execute(std::vector<Command> commands, Duration wait = Duration{0}) override;

    /// The face for coroutines and callbacks (semel/asio.hpp builds on it): returns at once; `done` is called exactly once.
    /// Bad commands are refused here, before anything waits.
    void submit(std::vector<Command> commands, Duration wait, std::shared_ptr<Waiting> waiting, GroupDone done);

    [[nodiscard]] CommitterFigures figures() const;
    [[nodiscard]] Store& store() const override;

private:
    class Threads;
    explicit Committer(std::unique_ptr<Threads> threads);
    std::unique_ptr<Threads> threads_;
};

/// Prepares a claim as Committer::claim does: a new attempt id.
void prepare(Claim& claim);

/// An answer to a lone claim, or to a lone command of a holder or a person.
Result<ClaimAnswer> claim_answer(GroupAnswer answer);
Result<HolderAnswer> holder_answer(GroupAnswer answer);

/// Whether the ledger can take this command at all; `invalid` names what is wrong. Nothing reaches the store before this.
Status validate(const Command& command);

/// I4: the last moment, by the holder's own steady clock, to begin an effect under a claim that was sent at `sent`.
inline std::chrono::steady_clock::time_point begin_before(std::chrono::steady_clock::time_point sent, Duration lease) {
    return sent + lease / 3 * 2;
}

}  // namespace semel
