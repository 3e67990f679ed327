// The committer's thinking, without threads or clocks of its own: which groups form the next batch, and what becomes of
// them when its result is known. The threads of Committer and the simulator drive the same code.
//
// A submission is parked (one of its operations is taken by an earlier one), ready, in a batch, or waiting in a batch to be
// executed again. One submission per operation is ready or in a batch at any time; the others stand in its line.
#pragma once

#include <chrono>
#include <deque>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "semel/committer.hpp"

namespace semel {

using Steady = std::chrono::steady_clock::time_point;

struct Submission {
    Group group;
    Steady deadline;
    bool urgent = false;  ///< a renewal: never behind claims
    std::shared_ptr<Waiting> waiting;
    GroupDone done;
    std::uint32_t tries = 0;
    std::vector<OperationId> needs = {};  ///< for the queue: its operations, in the order in which they are taken
    std::size_t taken = 0;                ///< for the queue: how many of them it has
};

/// A caller to be told, outside of any lock.
struct Completion {
    GroupDone done;
    GroupAnswer answer;
    void operator()() { done(std::move(answer)); }
};

enum class Lane {
    only,     ///< the one session that there is: renewals first, then everything
    urgent,   ///< renewals only
    general,  ///< everything but renewals
};

class CommitQueue {
public:
    explicit CommitQueue(CommitterOptions options) : options_(options) {}

    struct Batch {
        std::vector<Submission> submissions;  // their groups are in `groups`
        std::vector<Group> groups;
        Steady not_before{};
        bool urgent = false;
        std::optional<Steady> counted{};  // as out, since when
    };
    /// How long a batch may be out before a smaller one is begun beside it: longer than a commit takes, shorter than a
    /// caller minds, for when a connection hangs.
    static constexpr Duration patience = std::chrono::milliseconds{20};
    /// The fewest groups that are worth a commit of their own while others wait: see `share`.
    static constexpr std::size_t share_min = 16;

    /// False: the queue is full and the submission was not taken.
    [[nodiscard]] bool push(Submission& submission);
    /// The next batch for a lane, if there is work now. Submissions whose time was up or whose caller has gone are completed.
    std::optional<Batch> gather(Lane lane, Steady now, std::vector<Completion>& completed);
    /// What the store said about the batch. Callers with an answer are completed; the others are tried again.
    void finish(Batch batch, Result<Executed> result, Steady now, std::vector<Completion>& completed);
    /// Callers are being told their answers; most will be back with their next command at once, and are worth waiting for
    /// as if their batch were still out. Returns what `told` needs.
    [[nodiscard]] Steady telling(std::size_t callers, Steady now) {
        count_out(callers, now);
        return now;
    }
    void told(std::size_t callers, Steady since) { count_in(callers, since); }
    /// Whether an idle thread of this lane should look now: there is work to begin, or a moment to wait for.
    [[nodiscard]] bool worth_waking(Lane lane, Steady now) const;
    /// When there may be something to do on this lane that there is not yet.
    [[nodiscard]] std::optional<Steady> wake_at(Lane lane) const;
    [[nodiscard]] bool idle() const { return waiting_ == 0 && batches_out_ == 0 && again_.empty(); }
    [[nodiscard]] const CommitterFigures& figures() const { return figures_; }

private:
    void admit(Submission submission);
    [[nodiscard]] bool may_begin(Steady now) const;
    [[nodiscard]] std::size_t share() const;
    void learn(Duration took, Duration waited);
    void count_out(std::size_t groups, Steady now);
    void count_in(std::size_t groups, Steady since);
    void free_operations(const Group& group);
    void complete(Submission submission, Group group, GroupAnswer answer, std::vector<Completion>& completed);
    void fail(Submission submission, Group group, const Failure& failure, Steady now,
              std::vector<Completion>& completed);
    void try_again(Submission submission, Group group, Steady now);
    void split(Batch batch);
    void release_unclaimed(const std::vector<Answer>& answers, const Group& group, Steady now);

    CommitterOptions options_;
    CommitterFigures figures_;
    std::deque<Submission> ready_;
    std::deque<Submission> ready_urgent_;
    /// Who waits for an operation that is taken. An entry exists as long as the operation is taken.
    std::unordered_map<OperationId, std::list<Submission>> lines_;
    std::vector<Batch> again_;
    /// When the batches that are out for the first time were gathered, renewals apart, and how many groups they hold.
    std::vector<Steady> out_since_;
    std::size_t out_groups_ = 0;
    /// Of the last batches, by weights that fade: how long each took, and how long of that it waited for the disk.
    Duration took_{0};
    Duration waited_{0};
    std::size_t waiting_ = 0;  // parked and ready
    std::size_t batches_out_ = 0;
};

}  // namespace semel
