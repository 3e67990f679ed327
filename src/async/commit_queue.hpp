// The committer's thinking, without threads or clocks of its own: which groups form the next batch, and what becomes of
// them when its result is known. The threads of Committer and the simulator drive the same code.
//
// A submission is parked (its operation is taken by an earlier one), ready, in a batch, or waiting in a batch to be
// executed again. One submission per operation is ready or in a batch at any time.
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
};

/// A caller to be told, outside of any lock.
struct Completion {
    GroupDone done;
    GroupAnswer answer;
    void operator()() { done(std::move(answer)); }
};

enum class Lane {
    only,     ///< the one session of an embedded store: renewals first, then everything
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
    };

    /// False: the queue is full and the submission was not taken.
    [[nodiscard]] bool push(Submission& submission);
    /// The next batch for a lane, if there is work now. Submissions whose time was up or whose caller has gone are completed.
    std::optional<Batch> gather(Lane lane, Steady now, std::vector<Completion>& completed);
    /// What the store said about the batch. Callers with an answer are completed; the others are tried again.
    void finish(Batch batch, Result<Executed> result, Steady now, std::vector<Completion>& completed);
    /// Whether there is something new to do on this lane now.
    [[nodiscard]] bool ready(Lane lane) const;
    /// When a batch that waits to be executed again becomes due on this lane.
    [[nodiscard]] std::optional<Steady> wake_at(Lane lane) const;
    [[nodiscard]] bool idle() const { return waiting_ == 0 && batches_out_ == 0 && again_.empty(); }
    [[nodiscard]] const CommitterFigures& figures() const { return figures_; }

private:
    void admit(Submission submission);
    void free_operations(const Group& group);
    void complete(Submission submission, Group group, GroupAnswer answer, std::vector<Completion>& completed);
    void fail(Submission submission, Group group, const Failure& failure, Steady now, std::vector<Completion>& completed);
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
    std::size_t waiting_ = 0;  // parked and ready
    std::size_t batches_out_ = 0;
};

}  // namespace semel
