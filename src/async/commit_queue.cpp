#include "async/commit_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "ledger/mutation.hpp"

namespace semel {
namespace {

bool has_claim(const Group& group) {
    return std::ranges::any_of(group.commands, [](const Command& c) { return std::holds_alternative<Claim>(c); });
}

bool is_lone_claim(const Group& group) { return group.commands.size() == 1 && has_claim(group); }

/// Each once, in the order in which everybody takes them.
std::vector<OperationId> operations_of(const Group& group) {
    std::vector<OperationId> ids;
    ids.reserve(group.commands.size());
    for (std::size_t i = 0; i < group.commands.size(); ++i) ids.push_back(group.id(i));
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());  // clang 14 cannot read ranges::unique
    return ids;
}

std::size_t bytes_of(const Group& group) {
    std::size_t bytes = 0;
    for (const Command& command : group.commands) {
        if (const auto* settle = std::get_if<Settle>(&command)) bytes += settle->outcome.body.size();
        if (const auto* claim = std::get_if<Claim>(&command)) bytes += claim->request.size();
        if (const auto* save = std::get_if<SaveCheckpoint>(&command)) bytes += save->checkpoint.value.size();
    }
    return bytes;
}

}  // namespace

// ---- coming in -------------------------------------------------------------------------------------------------

bool CommitQueue::push(Submission& submission) {
    if (waiting_ >= options_.queue_max) return false;
    ++waiting_;
    submission.needs = operations_of(submission.group);
    admit(std::move(submission));
    return true;
}

/// Takes its operations one after another; ready when it has them all, parked behind the first one that is taken. It
/// keeps what it has while it waits: everybody takes them in the same order, so nobody waits in a circle.
void CommitQueue::admit(Submission submission) {
    for (; submission.taken < submission.needs.size(); ++submission.taken) {
        const auto [line, free] = lines_.try_emplace(submission.needs[submission.taken]);
        if (SEMEL_MUTATION(operation_taken_twice, free, true)) continue;
        line->second.push_back(std::move(submission));
        return;
    }
    (SEMEL_MUTATION(renewals_queue_up, submission.urgent, false) ? ready_urgent_ : ready_)
        .push_back(std::move(submission));
}

/// The group is done with: each of its operations goes to the first that waits for it.
void CommitQueue::free_operations(const Group& group) {
    for (const OperationId& id : operations_of(group)) {
        const auto line = lines_.find(id);
        if (line == lines_.end()) continue;
        if (SEMEL_MUTATION(parked_are_forgotten, false, true)) line->second.clear();
        if (line->second.empty()) {
            lines_.erase(line);
            continue;
        }
        Submission next = std::move(line->second.front());
        line->second.pop_front();
        ++next.taken;
        admit(std::move(next));
    }
}

// ---- batches ---------------------------------------------------------------------------------------------------

std::optional<CommitQueue::Batch> CommitQueue::gather(Lane lane, Steady now, std::vector<Completion>& completed) {
    const auto fits = [&](bool urgent) { return lane == Lane::only || urgent == (lane == Lane::urgent); };
    const auto due =
        std::ranges::find_if(again_, [&](const Batch& b) { return b.not_before <= now && fits(b.urgent); });
    if (due != again_.end()) {
        Batch batch = std::move(*due);
        again_.erase(due);
        ++batches_out_;
        return batch;
    }
    Batch batch;
    std::size_t bytes = 0;
    const auto take_from = [&](std::deque<Submission>& queue, std::size_t groups_max) {
        while (!queue.empty() && batch.groups.size() < groups_max) {
            const std::size_t size = bytes_of(queue.front().group);
            if (!batch.groups.empty() && bytes + size > options_.batch_bytes_max) return;
            Submission submission = std::move(queue.front());
            queue.pop_front();
            --waiting_;
            Group group = std::move(submission.group);
            // Never executed yet, so nothing can have happened.
            const bool gone = submission.waiting && submission.waiting->given_up() && has_claim(group);
            if (gone || submission.deadline <= now) {
                const Failure failure{Code::unavailable,
                                      "waited too long for its turn (committer.timeout); nothing was done"};
                complete(std::move(submission), std::move(group), failure, completed);
                continue;
            }
            bytes += size;
            batch.submissions.push_back(std::move(submission));
            batch.groups.push_back(std::move(group));
        }
    };
    if (fits(true)) take_from(ready_urgent_, options_.batch_max);
    batch.urgent = lane == Lane::urgent;
    if (lane == Lane::only) take_from(ready_, options_.batch_max);
    if (lane == Lane::general && may_begin(now)) take_from(ready_, share());
    if (batch.groups.empty()) return std::nullopt;
    ++batches_out_;
    if (!batch.urgent) {
        batch.counted = now;
        count_out(batch.groups.size(), now);
    }
    return batch;
}

/// A commit costs about the same for one and for many, so what waits is not cut into small batches side by side: another
/// is begun only if it is as large as what is out. Below that it is the next commit's, the second at most for everyone.
bool CommitQueue::may_begin(Steady now) const {
    return out_since_.empty() || ready_.size() >= std::min(out_groups_, options_.batch_max) ||
           out_since_.front() + patience <= now;
}

/// Callers who were answered together come back together, and would share one batch for ever while the other session has
/// nothing to do. Of many the first batch takes half: the other half is executed while this one waits for the disk. Not
/// where that wait is known to be most of it: then two halves would take twice as long as the whole. (PostgreSQL does not
/// tell, and has two commits that wait share one sync.)
std::size_t CommitQueue::share() const {
    const bool worth_halving = out_since_.empty() && ready_.size() >= 2 * share_min && 2 * waited_ <= took_;
    return std::min(options_.batch_max, worth_halving ? (ready_.size() + 1) / 2 : ready_.size());
}

void CommitQueue::learn(Duration took, Duration waited) {
    constexpr int weight = 16;
    took_ += (took - took_) / weight;
    waited_ += (waited - waited_) / weight;
}

void CommitQueue::count_out(std::size_t groups, Steady now) {
    out_since_.push_back(now);
    out_groups_ += groups;
}

void CommitQueue::count_in(std::size_t groups, Steady since) {
    out_since_.erase(std::ranges::find(out_since_, since));
    out_groups_ -= groups;
}

bool CommitQueue::worth_waking(Lane lane, Steady now) const {
    if (lane != Lane::general && !ready_urgent_.empty()) return true;
    return lane != Lane::urgent && !ready_.empty() && (ready_.size() == 1 || may_begin(now));
}

std::optional<Steady> CommitQueue::wake_at(Lane lane) const {
    std::optional<Steady> first;
    for (const Batch& batch : again_) {
        if (lane != Lane::only && batch.urgent != (lane == Lane::urgent)) continue;
        if (!first || batch.not_before < *first) first = batch.not_before;
    }
    if (lane != Lane::urgent && !ready_.empty() && !out_since_.empty()) {
        const Steady impatient = out_since_.front() + patience;
        if (!first || impatient < *first) first = impatient;
    }
    return first;
}

// ---- results ---------------------------------------------------------------------------------------------------

void CommitQueue::complete(Submission submission, Group group, GroupAnswer answer, std::vector<Completion>& completed) {
    completed.push_back({std::move(submission.done), std::move(answer)});
    free_operations(group);
}

/// I6: a claim that was granted while nobody waited for it any more goes back. Its operations are still taken.
void CommitQueue::release_unclaimed(const std::vector<Answer>& answers, const Group& group, Steady now) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
        const auto* claimed = std::get_if<Claimed>(&answers[i]);
        if (claimed == nullptr) continue;
        ++figures_.unclaimed;
        Submission release{.group = {},
                           .deadline = now + options_.timeout,
                           .urgent = false,
                           .waiting = nullptr,
                           .done = [](GroupAnswer) {}};
        const OperationId id = group.id(i);
        release.group.commands.emplace_back(Release{{id, claimed->token, claimed->attempt}});
        release.needs.push_back(id);
        ++waiting_;
        // Ahead of the claims that wait for this operation: behind them it could outlive its own time while each of them
        // is told Busy, because of a grant that nobody has.
        auto& line = lines_[id];
        line.insert(SEMEL_MUTATION(release_is_last_in_line, line.begin(), line.end()), std::move(release));
    }
}

void CommitQueue::try_again(Submission submission, Group group, Steady now) {
    Duration backoff = options_.backoff_first;
    for (std::uint32_t i = 0; i < submission.tries && backoff < options_.backoff_max; ++i) backoff *= 2;
    ++submission.tries;
    Batch batch;
    batch.urgent = submission.urgent;
    const Steady last = SEMEL_MUTATION(tried_for_ever, submission.deadline, Steady::max());
    batch.not_before = std::min(now + std::min(backoff, options_.backoff_max), last);
    batch.submissions.push_back(std::move(submission));
    batch.groups.push_back(std::move(group));
    // Those that failed together are tried together.
    const auto same = std::ranges::find_if(again_, [&](const Batch& b) {
        return b.not_before == batch.not_before && b.urgent == batch.urgent && b.groups.size() < options_.batch_max &&
               b.groups.front().again == batch.groups.front().again &&
               b.submissions.front().tries == batch.submissions.front().tries;
    });
    if (same == again_.end()) {
        again_.push_back(std::move(batch));
        return;
    }
    same->submissions.push_back(std::move(batch.submissions.front()));
    same->groups.push_back(std::move(batch.groups.front()));
}

/// One group failed by itself.
void CommitQueue::fail(Submission submission, Group group, const Failure& failure, Steady now,
                       std::vector<Completion>& completed) {
    const bool contended_claim = failure.code == Code::contended && is_lone_claim(group);
    const bool in_doubt = SEMEL_MUTATION(busy_while_in_doubt, group.again, group.again && !contended_claim) ||
                          failure.code == Code::indeterminate;
    const bool time_left = SEMEL_MUTATION(tried_for_ever, now < submission.deadline, true);
    // Once a reply was lost only an answer ends the doubt: whatever keeps us from one is tried again.
    if (in_doubt && failure.code != Code::corrupt && failure.code != Code::invalid) {
        group.again = SEMEL_MUTATION(again_not_said, true, false);
        if (SEMEL_MUTATION(lost_reply_is_unavailable, false, true))
            return complete(std::move(submission), std::move(group), Failure{Code::unavailable, failure.message},
                            completed);
        if (time_left) {
            ++figures_.repeats;
            try_again(std::move(submission), std::move(group), now);
            return;
        }
        complete(std::move(submission), std::move(group), Failure{Code::indeterminate, failure.message}, completed);
        return;
    }
    if (contended_claim) {
        // Somebody's own transaction has the operation: that is what Busy means.
        std::vector<Answer> answer;
        answer.emplace_back(Busy{std::chrono::milliseconds{500}});
        complete(std::move(submission), std::move(group), std::move(answer), completed);
        return;
    }
    // A holder's command is worth a wait; a claim is better refused at once.
    const bool passing = failure.code == Code::contended || failure.code == Code::unavailable;
    if (passing && time_left && !is_lone_claim(group)) {
        try_again(std::move(submission), std::move(group), now);
        return;
    }
    complete(std::move(submission), std::move(group), failure, completed);
}

/// Cut in two, so that the command that fails the transaction is found and fails alone.
void CommitQueue::split(Batch batch) {
    ++figures_.splits;
    const auto half = static_cast<std::ptrdiff_t>(batch.groups.size() / 2);
    Batch second;
    second.urgent = batch.urgent;
    std::move(batch.submissions.begin() + half, batch.submissions.end(), std::back_inserter(second.submissions));
    std::move(batch.groups.begin() + half, batch.groups.end(), std::back_inserter(second.groups));
    batch.submissions.erase(batch.submissions.begin() + half, batch.submissions.end());
    batch.groups.erase(batch.groups.begin() + half, batch.groups.end());
    batch.not_before = {};
    again_.push_back(std::move(batch));
    again_.push_back(std::move(second));
}

void CommitQueue::finish(Batch batch, Result<Executed> result, Steady now, std::vector<Completion>& completed) {
    --batches_out_;
    // A batch that is executed again is not counted: it may wait for somebody's lock.
    if (const auto since = std::exchange(batch.counted, std::nullopt)) {
        count_in(batch.groups.size(), *since);
        if (result) learn(std::chrono::duration_cast<Duration>(now - *since), result->waited);
    }
    if (!result) {
        const Failure& failure = result.failure();
        const bool one_is_to_blame =
            failure.code == Code::contended || failure.code == Code::invalid || failure.code == Code::exhausted;
        if (one_is_to_blame && SEMEL_MUTATION(batch_fails_whole, batch.groups.size() > 1, false))
            return split(std::move(batch));
        for (std::size_t i = 0; i < batch.groups.size(); ++i)
            fail(std::move(batch.submissions[i]), std::move(batch.groups[i]), failure, now, completed);
        return;
    }
    SEMEL_ASSERT(result->answers.size() == batch.groups.size(), "a store answers every group");
    ++figures_.batches;
    for (std::size_t i = 0; i < batch.groups.size(); ++i) {
        Submission& submission = batch.submissions[i];
        Group& group = batch.groups[i];
        GroupAnswer& answer = result->answers[i];
        if (!answer) {
            const Failure failure = answer.failure();
            fail(std::move(submission), std::move(group), failure, now, completed);
            continue;
        }
        ++figures_.groups;
        if (answer->size() == 1 && std::holds_alternative<Late>(answer->front())) {
            // After a lost reply the first execution may have been granted, and its lease may have run out since.
            answer = SEMEL_MUTATION(late_repeat_is_unavailable, group.again, false)
                         ? Failure{Code::indeterminate,
                                   "claim: repeated after its not_after; the first try may have been granted"}
                         : Failure{Code::unavailable,
                                   "claim: it reached the store after its not_after; nothing was claimed"};
        }
        const bool nobody_waits = answer && submission.waiting && !submission.waiting->deliver();
        if (SEMEL_MUTATION(unclaimed_is_kept, nobody_waits, false)) release_unclaimed(*answer, group, now);
        complete(std::move(submission), std::move(group), std::move(answer), completed);
    }
}

}  // namespace semel
