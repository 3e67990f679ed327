#include "async/commit_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "semel/keys.hpp"

namespace semel {
namespace {

using namespace std::chrono_literals;

constexpr Steady start{100s};

Operation operation(const std::string& key) { return {Scope::parse("acme/payments").value(), Key::parse(key).value()}; }

Command claim(const std::string& key) {
    return Claim{.operation = operation(key), .fingerprint = {}, .attempt = mint_attempt()};
}

/// One that nobody waits for.
Submission lone(Command command) {
    std::vector<Command> commands;
    commands.push_back(std::move(command));
    return {.group = {std::move(commands), false},
            .deadline = start + 1s,
            .urgent = false,
            .waiting = nullptr,
            .done = [](GroupAnswer) {}};
}

Command renew(const std::string& key) { return Renew{{operation(key).id(), Token{1}, {}}}; }

/// A queue, what was completed, and a store that answers as told.
class CommitQueueTest : public testing::Test {
protected:
    void push(std::vector<Command> commands, std::shared_ptr<Waiting> waiting = nullptr, Duration wait = 10s) {
        const bool urgent = std::holds_alternative<Renew>(commands[0]);
        const std::size_t number = answers_.size();
        answers_.emplace_back();
        Submission submission{.group = {std::move(commands), false},
                              .deadline = start + wait,
                              .urgent = urgent,
                              .waiting = std::move(waiting),
                              .done = [this, number](GroupAnswer answer) {
                                  ASSERT_FALSE(answers_[number]) << "completed twice";
                                  answers_[number] = std::move(answer);
                              }};
        ASSERT_TRUE(queue_.push(submission));
    }
    void push(Command command) {
        std::vector<Command> commands;
        commands.push_back(std::move(command));
        push(std::move(commands));
    }
    std::optional<CommitQueue::Batch> gather(Lane lane = Lane::only, Steady now = start) {
        std::vector<Completion> completed;
        auto batch = queue_.gather(lane, now, completed);
        for (Completion& each : completed) each();
        return batch;
    }
    void finish(CommitQueue::Batch batch, Result<Executed> result, Steady now = start) {
        std::vector<Completion> completed;
        queue_.finish(std::move(batch), std::move(result), now, completed);
        for (Completion& each : completed) each();
    }
    /// Every group answered with Ok.
    static Executed all_ok(const CommitQueue::Batch& batch) {
        Executed executed;
        for (const Group& group : batch.groups)
            executed.answers.emplace_back(std::vector<Answer>(group.commands.size(), Ok{}));
        return executed;
    }
    bool answered(std::size_t number) { return answers_[number].has_value(); }

    CommitQueue queue_{CommitterOptions{.batch_max = 4, .queue_max = 100}};
    std::deque<std::optional<GroupAnswer>> answers_;
};

TEST_F(CommitQueueTest, TakesWhateverWaitsUpToItsLimit) {
    EXPECT_FALSE(gather());
    for (int i = 0; i < 6; ++i) push(claim("k" + std::to_string(i)));
    EXPECT_EQ(gather()->groups.size(), 4U);
    EXPECT_EQ(gather()->groups.size(), 2U);
    EXPECT_FALSE(gather());
}

TEST_F(CommitQueueTest, OneCommandPerOperationPerBatchInTheOrderTheyCame) {
    push(claim("a"));
    push(claim("a"));
    push(claim("b"));
    push(claim("a"));
    auto first = gather();
    ASSERT_EQ(first->groups.size(), 2U);
    EXPECT_FALSE(gather()) << "the others wait for the operation in the batch";
    const Executed ok = all_ok(*first);
    finish(std::move(*first), ok);
    EXPECT_TRUE(answered(0) && answered(2) && !answered(1) && !answered(3));
    auto second = gather();
    ASSERT_EQ(second->groups.size(), 1U);
    finish(std::move(*second), all_ok(CommitQueue::Batch{{}, std::vector<Group>(1, Group{{claim("a")}, false})}));
    EXPECT_TRUE(answered(1) && !answered(3));
    EXPECT_TRUE(gather());
}

TEST_F(CommitQueueTest, AGroupWaitsForAllItsOperations) {
    push(claim("a"));
    std::vector<Command> both;
    both.push_back(claim("a"));
    both.push_back(claim("b"));
    push(std::move(both));
    auto first = gather();
    ASSERT_EQ(first->groups.size(), 1U);
    EXPECT_FALSE(gather());
    const Executed ok = all_ok(*first);
    finish(std::move(*first), ok);
    auto second = gather();
    ASSERT_EQ(second->groups.size(), 1U);
    EXPECT_EQ(second->groups[0].commands.size(), 2U);
    EXPECT_TRUE(answered(0) && !answered(1));
}

TEST_F(CommitQueueTest, AGroupGetsItsTurnHoweverBusyItsOperationsAre) {
    push(claim("a"));
    auto of_a = gather();
    push(claim("b"));
    auto of_b = gather();
    std::vector<Command> both;
    both.push_back(claim("b"));
    both.push_back(claim("a"));
    push(std::move(both));
    // Whenever one of the two is free the other one is not, and somebody else wants it as well.
    const auto serve = [&](std::optional<CommitQueue::Batch>& out, const std::string& key) {
        push(claim(key));
        if (out) {
            const Executed ok = all_ok(*out);
            finish(std::move(*out), ok);
        }
        out = gather();
        return out && out->groups[0].commands.size() == 2;
    };
    for (int i = 0; i < 3; ++i)
        if (serve(of_a, "a") || serve(of_b, "b")) return;
    FAIL() << "the group never got its turn";
}

TEST_F(CommitQueueTest, RenewalsNeverWaitBehindClaims) {  // I4
    for (int i = 0; i < 8; ++i) push(claim("k" + std::to_string(i)));
    push(renew("r"));
    // With one session they come first, with several they have their own.
    auto batch = gather(Lane::only);
    EXPECT_TRUE(std::holds_alternative<Renew>(batch->groups[0].commands[0]));
    push(renew("r2"));
    EXPECT_EQ(gather(Lane::general)->groups.size(), 4U);
    EXPECT_EQ(gather(Lane::urgent)->groups.size(), 1U);
    EXPECT_FALSE(gather(Lane::urgent));
}

TEST_F(CommitQueueTest, WhatWaitsIsNotCutIntoSmallBatchesSideBySide) {
    for (int i = 0; i < 3; ++i) push(claim("k" + std::to_string(i)));
    auto first = gather(Lane::general);
    ASSERT_EQ(first->groups.size(), 3U);
    push(claim("a"));
    EXPECT_TRUE(queue_.worth_waking(Lane::general, start)) << "somebody has to watch the time";
    push(claim("b"));
    EXPECT_FALSE(queue_.worth_waking(Lane::general, start));
    EXPECT_FALSE(gather(Lane::general)) << "the commit that is out takes more than these";
    push(claim("c"));
    EXPECT_TRUE(queue_.worth_waking(Lane::general, start));
    EXPECT_EQ(gather(Lane::general)->groups.size(), 3U) << "as many as are out are worth a commit of their own";
    push(claim("d"));
    const Executed ok = all_ok(*first);
    finish(std::move(*first), ok);
    EXPECT_FALSE(gather(Lane::general)) << "the second is still out";
    EXPECT_EQ(queue_.wake_at(Lane::general), start + CommitQueue::patience);
    EXPECT_TRUE(gather(Lane::general, start + CommitQueue::patience))
        << "a hanging connection holds nobody up for long";
}

TEST_F(CommitQueueTest, OfManyTheFirstBatchLeavesHalfToTheNext) {
    CommitQueue queue{CommitterOptions{}};
    std::size_t keys = 0;
    const auto push_many = [&](std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            Submission submission = lone(claim(std::to_string(++keys)));
            ASSERT_TRUE(queue.push(submission));
        }
    };
    std::vector<Completion> completed;
    const auto next = [&](Lane lane) {
        auto batch = queue.gather(lane, start, completed);
        return batch ? batch->groups.size() : 0;
    };
    push_many(2 * CommitQueue::share_min);
    EXPECT_EQ(next(Lane::general), CommitQueue::share_min);
    EXPECT_EQ(next(Lane::general), CommitQueue::share_min) << "the other session, at the same time";
    push_many(2 * CommitQueue::share_min);
    EXPECT_EQ(next(Lane::only), 2 * CommitQueue::share_min) << "a lone session leaves nothing to nobody";
}

TEST_F(CommitQueueTest, WhereTheDiskTakesMostOfTheTimeNothingIsHalved) {
    CommitQueue queue{CommitterOptions{}};
    std::vector<Completion> completed;
    std::size_t keys = 0;
    const auto commit = [&](Duration took, Duration waited) {
        for (std::size_t i = 0; i < 2 * CommitQueue::share_min; ++i) {
            Submission submission = lone(claim(std::to_string(++keys)));
            EXPECT_TRUE(queue.push(submission));
        }
        std::size_t first = 0;
        while (auto batch = queue.gather(Lane::general, start, completed)) {
            if (first == 0) first = batch->groups.size();
            Executed executed = all_ok(*batch);
            executed.waited = waited;
            queue.finish(std::move(*batch), std::move(executed), start + took, completed);
        }
        return first;
    };
    for (int i = 0; i < 8; ++i) commit(2ms, 1500us);
    EXPECT_EQ(commit(2ms, 100us), 2 * CommitQueue::share_min);
    for (int i = 0; i < 32; ++i) commit(2ms, 100us);
    EXPECT_EQ(commit(2ms, 100us), CommitQueue::share_min) << "the disk is fast again";
}

TEST_F(CommitQueueTest, CallersWhoAreBeingToldCountAsOut) {
    const Steady since = queue_.telling(3, start);
    push(claim("a"));
    EXPECT_FALSE(gather(Lane::general));
    queue_.told(3, since);
    EXPECT_TRUE(gather(Lane::general));
}

TEST_F(CommitQueueTest, APoisonCommandIsFoundBySplittingAndFailsAlone) {
    for (int i = 0; i < 4; ++i) push(claim(i == 2 ? "poison" : "k" + std::to_string(i)));
    const OperationId poison = operation("poison").id();
    while (auto batch = gather()) {
        const bool bad =
            std::ranges::any_of(batch->groups, [&](const Group& g) { return id_of(g.commands[0]) == poison; });
        const Executed ok = all_ok(*batch);
        if (bad)
            finish(std::move(*batch), Failure{Code::invalid, "bad data"});
        else
            finish(std::move(*batch), ok);
    }
    for (std::size_t i = 0; i < 4; ++i) {
        ASSERT_TRUE(answered(i));
        EXPECT_EQ(answers_[i]->ok(), i != 2) << i;
    }
    EXPECT_TRUE(queue_.idle());
}

TEST_F(CommitQueueTest, AfterALostReplyTheSameIdsAreExecutedAgainUntilTheTimeIsUp) {  // I6
    push(claim("a"));
    const auto attempt_of = [](const CommitQueue::Batch& batch) {
        return std::get<Claim>(batch.groups[0].commands[0]).attempt;
    };
    auto batch = gather();
    const Attempt attempt = attempt_of(*batch);
    EXPECT_FALSE(batch->groups[0].again);
    Steady now = start;
    for (int i = 0; i < 5; ++i) {
        // Once in doubt, being unavailable or contended does not end it.
        finish(std::move(*batch),
               Failure{i == 0       ? Code::indeterminate
                       : i % 2 == 0 ? Code::unavailable
                                    : Code::contended,
                       "lost"},
               now);
        EXPECT_FALSE(answered(0));
        EXPECT_FALSE(gather(Lane::only, now)) << "it waits a little";
        now = *queue_.wake_at(Lane::only);
        batch = gather(Lane::only, now);
        ASSERT_TRUE(batch);
        EXPECT_TRUE(batch->groups[0].again);
        EXPECT_EQ(attempt_of(*batch), attempt);
    }
    finish(std::move(*batch), Failure{Code::unavailable, "still down"}, start + 11s);
    ASSERT_TRUE(answered(0));
    EXPECT_EQ(answers_[0]->failure().code, Code::indeterminate);
}

TEST_F(CommitQueueTest, WithTheStoreDownAClaimFailsAtOnceAndAHoldersCommandIsTriedAgain) {
    push(claim("a"));
    push(Settle{{operation("b").id(), Token{1}, {}}, {200, "x", true}});
    finish(*gather(), Failure{Code::unavailable, "connection refused"});
    EXPECT_EQ(answers_[0]->failure().code, Code::unavailable);
    EXPECT_FALSE(answered(1));
    auto again = gather(Lane::only, start + 1s);
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->groups[0].again) << "nothing happened: there is no doubt";
    const Executed ok = all_ok(*again);
    finish(std::move(*again), ok);
    EXPECT_TRUE(answers_[1]->ok());
}

TEST_F(CommitQueueTest, AContendedClaimIsBusyUnlessItsOwnEarlierTryMayHoldTheLock) {
    push(claim("a"));
    finish(*gather(), Failure{Code::contended, "locked"});
    EXPECT_TRUE(std::holds_alternative<Busy>((*answers_[0])->front()));
    push(claim("b"));
    finish(*gather(), Failure{Code::indeterminate, "lost"});
    finish(*gather(Lane::only, start + 1s), Failure{Code::contended, "locked"}, start + 1s);
    EXPECT_FALSE(answered(1));
}

TEST_F(CommitQueueTest, AClaimThatNobodyWaitsForIsNotSentOrIsReleased) {  // I6
    auto gone = std::make_shared<Waiting>();
    std::vector<Command> group;
    group.push_back(claim("early"));
    push(std::move(group), gone);
    EXPECT_TRUE(gone->give_up());
    EXPECT_FALSE(gather()) << "never executed";
    EXPECT_EQ(answers_[0]->failure().code, Code::unavailable);

    auto late = std::make_shared<Waiting>();
    group.clear();
    group.push_back(claim("late"));
    push(std::move(group), late);
    auto batch = gather();
    EXPECT_TRUE(late->give_up());
    Executed granted;
    granted.answers.emplace_back(std::vector<Answer>{Claimed{.token = Token{7}}});
    finish(std::move(*batch), std::move(granted));
    auto release = gather();
    ASSERT_TRUE(release);
    EXPECT_EQ(std::get<Release>(release->groups[0].commands[0]).holder.token, Token{7});
    EXPECT_EQ(queue_.figures().unclaimed, 1U);
}

TEST_F(CommitQueueTest, AGrantThatNobodyWaitsForIsReleasedBeforeTheNextClaimIsAsked) {
    auto waiting = std::make_shared<Waiting>();
    std::vector<Command> group;
    group.push_back(claim("a"));
    push(std::move(group), waiting);
    push(claim("a"));
    auto batch = gather();
    EXPECT_TRUE(waiting->give_up());
    Executed granted;
    granted.answers.emplace_back(std::vector<Answer>{Claimed{.token = Token{7}}});
    finish(std::move(*batch), std::move(granted));
    auto release = gather();
    ASSERT_TRUE(release);
    EXPECT_TRUE(std::holds_alternative<Release>(release->groups[0].commands[0]));
    const Executed ok = all_ok(*release);
    finish(std::move(*release), ok);
    auto next = gather();
    ASSERT_TRUE(next);
    EXPECT_TRUE(std::holds_alternative<Claim>(next->groups[0].commands[0]));
}

TEST_F(CommitQueueTest, AClaimRepeatedTooLateIsInDoubt) {
    push(claim("a"));
    auto batch = gather();
    finish(std::move(*batch), Failure{Code::indeterminate, "no reply"});
    batch = gather(Lane::only, start + 5s);
    ASSERT_TRUE(batch && batch->groups[0].again);
    Executed late;
    late.answers.emplace_back(std::vector<Answer>{Late{}});
    finish(std::move(*batch), std::move(late), start + 5s);
    EXPECT_EQ(answers_[0]->failure().code, Code::indeterminate);
}

TEST_F(CommitQueueTest, ACallerThatGetsItsAnswerCanNoLongerGiveUp) {
    auto waiting = std::make_shared<Waiting>();
    std::vector<Command> group;
    group.push_back(claim("a"));
    push(std::move(group), waiting);
    auto batch = gather();
    Executed granted;
    granted.answers.emplace_back(std::vector<Answer>{Claimed{.token = Token{7}}});
    finish(std::move(*batch), std::move(granted));
    EXPECT_FALSE(waiting->give_up());
    EXPECT_FALSE(gather()) << "nothing is released";
}

TEST_F(CommitQueueTest, WhatWaitedTooLongForItsTurnIsTold) {
    push(claim("a"));
    EXPECT_FALSE(gather(Lane::only, start + 11s));
    EXPECT_EQ(answers_[0]->failure().code, Code::unavailable);
    EXPECT_TRUE(queue_.idle());
}

TEST_F(CommitQueueTest, AFullQueueRefuses) {
    for (int i = 0; i < 100; ++i) push(claim("k" + std::to_string(i)));
    Submission more = lone(claim("more"));
    EXPECT_FALSE(queue_.push(more));
}

TEST_F(CommitQueueTest, ManyBytesMakeASmallerBatch) {
    CommitQueue queue{CommitterOptions{.batch_max = 512, .batch_bytes_max = 1000, .queue_max = 100}};
    for (int i = 0; i < 5; ++i) {
        Submission submission =
            lone(Settle{{operation(std::to_string(i)).id(), Token{1}, {}}, {200, std::string(400, 'x'), true}});
        ASSERT_TRUE(queue.push(submission));
    }
    std::vector<Completion> completed;
    EXPECT_EQ(queue.gather(Lane::only, start, completed)->groups.size(), 2U);
}

TEST_F(CommitQueueTest, RequestsCountAmongTheBytesOfABatch) {
    CommitQueue queue{CommitterOptions{.batch_max = 512, .batch_bytes_max = 1000, .queue_max = 100}};
    for (int i = 0; i < 5; ++i) {
        Claim asking = std::get<Claim>(claim("k" + std::to_string(i)));
        asking.request = std::string(400, 'x');
        Submission submission = lone(std::move(asking));
        ASSERT_TRUE(queue.push(submission));
    }
    std::vector<Completion> completed;
    EXPECT_EQ(queue.gather(Lane::only, start, completed)->groups.size(), 2U);
}

}  // namespace
}  // namespace semel
