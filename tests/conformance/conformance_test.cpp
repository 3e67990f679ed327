// What a store is. One suite, run on every driver and every mode of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "support/commands.hpp"
#include "support/stores.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

class StoreConformance : public testing::TestWithParam<StoreKind> {
protected:
    void SetUp() override {
        world_ = GetParam().make();
        open_session();
    }
    void open_session() { session_ = world_->store().session().value(); }

    Answer execute(Command command) { return test::execute(*session_, std::move(command)); }
    Claimed claimed(const Claim& command) { return as<Claimed>(execute(command)); }
    std::optional<Record> find(const Claim& command) { return world_->store().find(command.operation.id()).value(); }
    void restart() {
        session_.reset();
        world_->restart();
        open_session();
    }

    std::unique_ptr<StoreUnderTest> world_;
    std::unique_ptr<Session> session_;
};

// ---- claim -----------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, AnAbsentOperationIsClaimedAndThenBusy) {
    const Claim first = claim("k1");
    const Claimed mine = claimed(first);
    EXPECT_GT(mine.token.value, 0U);
    EXPECT_FALSE(mine.doubt);
    const Busy busy = as<Busy>(execute(claim("k1")));
    EXPECT_GT(busy.retry_after, 0us);
    EXPECT_LE(busy.retry_after, 30s);
}

TEST_P(StoreConformance, ASettledOutcomeIsReplayedByteForByte) {  // I2
    const std::string bodies[] = {"", "plain", std::string("\0\xff\x80 '\"\\", 7), std::string(1 << 20, 'x')};
    int number = 0;
    for (const std::string& body : bodies) {
        const std::string key = "k" + std::to_string(number++);
        const Claim first = claim(key);
        const Claimed mine = claimed(first);
        as<Ok>(execute(Settle{holder(first, mine), {201, body, true}}));
        for (int i = 0; i < 2; ++i) EXPECT_EQ(as<Replay>(execute(claim(key))).outcome, (Outcome{201, body, true}));
    }
}

TEST_P(StoreConformance, ATombstoneSaysDoneWithItsStatus) {  // I8
    const Claim first = claim("k1");
    as<Ok>(execute(Settle{holder(first, claimed(first)), Outcome::tombstone(200)}));
    EXPECT_EQ(as<Replay>(execute(claim("k1"))).outcome, Outcome::tombstone(200));
}

TEST_P(StoreConformance, AnotherFingerprintIsAMismatchWhateverTheState) {  // I7
    const Claim first = claim("k1");
    const Claimed mine = claimed(first);
    EXPECT_TRUE(is<Mismatch>(execute(claim("k1", "other body"))));
    as<Ok>(execute(Abandon{holder(first, mine)}));
    EXPECT_TRUE(is<Mismatch>(execute(claim("k1", "other body"))));
    as<Ok>(execute(Settle{holder(first, mine), {200, "done", true}}));
    EXPECT_TRUE(is<Mismatch>(execute(claim("k1", "other body"))));
    Claim other_version = claim("k1");
    other_version.fingerprint.version = 2;
    EXPECT_TRUE(is<Mismatch>(execute(other_version)));
}

TEST_P(StoreConformance, OperationsOfOtherTenantsNamesAndGenerationsAreOthers) {
    for (const char* scope : {"acme/payments", "globex/payments", "acme/refunds", "acme/payments#1", "payments"}) {
        Claim command = claim("k1");
        command.operation = operation("k1", scope);
        EXPECT_TRUE(is<Claimed>(execute(command))) << scope;
    }
}

TEST_P(StoreConformance, ARepeatedClaimGetsTheSameTokenUntilTheHolderUsesIt) {  // I6
    const Claim command = claim("k1");
    const Claimed mine = claimed(command);
    EXPECT_EQ(as<Claimed>(test::execute(*session_, command, true)).token, mine.token);
    EXPECT_EQ(claimed(command).token, mine.token);
    as<Ok>(execute(SaveCheckpoint{holder(command, mine), {"step", "1"}}));
    EXPECT_TRUE(is<Busy>(execute(command)));
}

TEST_P(StoreConformance, OfConcurrentClaimsExactlyOneIsClaimed) {  // I1
    constexpr int rounds = 20;
    constexpr int claimants = 8;
    std::vector<std::unique_ptr<Session>> sessions;
    for (int i = 0; i < claimants; ++i) sessions.push_back(world_->store().session().value());
    std::atomic<int> granted = 0;
    std::atomic<int> busy = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < claimants; ++t) {
        threads.emplace_back([&, t] {
            for (int round = 0; round < rounds; ++round) {
                const Group group = lone(claim("round" + std::to_string(round)));
                while (true) {
                    auto executed = sessions[static_cast<std::size_t>(t)]->execute(std::span(&group, 1));
                    // Losing the race for a lock is not an answer: the committer tries again, and so do we.
                    if (!executed && executed.failure().code == Code::contended) continue;
                    if (executed && !executed->answers[0] && executed->answers[0].failure().code == Code::contended)
                        continue;
                    ASSERT_TRUE(executed) << executed.failure().message;
                    ASSERT_TRUE(executed->answers[0]) << executed->answers[0].failure().message;
                    const Answer& answer = executed->answers[0]->front();
                    granted += is<Claimed>(answer) ? 1 : 0;
                    busy += is<Busy>(answer) ? 1 : 0;
                    break;
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(granted, rounds);
    EXPECT_EQ(busy, rounds * (claimants - 1));
}

TEST_P(StoreConformance, AClaimAfterItsNotAfterIsNotGranted) {  // I6
    Claim late = claim("k1");
    late.not_after = world_->store().now().value() - 1s;
    EXPECT_TRUE(is<Late>(execute(late)));
    EXPECT_FALSE(find(late));
}

// ---- leases ----------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, AfterALostLeaseTheOutcomeIsUnknownAndStaysSo) {
    const Claim first = claim("k1");
    const Claimed mine = claimed(first);
    world_->pass(31s);
    EXPECT_TRUE(is<Unknown>(execute(claim("k1"))));
    EXPECT_EQ(find(first)->state, State::unknown);
    // Renewing does not take back what was said.
    EXPECT_EQ(as<Ok>(execute(Renew{holder(first, mine)})).state, State::unknown);
    EXPECT_TRUE(is<Unknown>(execute(claim("k1"))));
}

TEST_P(StoreConformance, TheSameHolderMaySettleAfterItsLeaseRanOut) {  // I3: superseded, not late
    const Claim first = claim("k1");
    const Claimed mine = claimed(first);
    world_->pass(1h);
    EXPECT_TRUE(is<Unknown>(execute(claim("k1"))));
    EXPECT_EQ(as<Ok>(execute(Settle{holder(first, mine), {200, "late", true}})).state, State::settled);
    EXPECT_EQ(as<Replay>(execute(claim("k1"))).outcome.body, "late");
}

TEST_P(StoreConformance, ARenewedLeaseHolds) {  // I4
    const Claim first = claim("k1");
    const Claimed mine = claimed(first);
    for (int i = 0; i < 10; ++i) {
        world_->pass(20s);
        EXPECT_EQ(as<Ok>(execute(Renew{holder(first, mine)})).state, State::running);
        EXPECT_TRUE(is<Busy>(execute(claim("k1"))));
    }
}

TEST_P(StoreConformance, ExpiredLeaseIsReclaimedUnderRetryAndTheOldHolderIsFenced) {  // I3, I11
    Claim first = claim("k1");
    first.policy = {.on_unknown = OnUnknown::retry, .dedup_window = 24h};
    const Claimed old = claimed(first);
    world_->pass(31s);
    Claim second = claim("k1");
    const Claimed mine = claimed(second);
    EXPECT_TRUE(mine.doubt);
    EXPECT_GT(mine.token, old.token);
    EXPECT_EQ(mine.tries, 2U);
    const Holder stale = holder(first, old);
    EXPECT_TRUE(is<Fenced>(execute(Renew{stale})));
    EXPECT_TRUE(is<Fenced>(execute(SaveCheckpoint{stale, {"a", "b"}})));
    EXPECT_TRUE(is<Fenced>(execute(Settle{stale, {500, "stale", true}})));
    EXPECT_TRUE(is<Fenced>(execute(Release{stale})));
    EXPECT_TRUE(is<Fenced>(execute(Abandon{stale})));
    // Under doubt an inconclusive answer does not settle.
    EXPECT_EQ(as<Ok>(execute(Settle{holder(second, mine), {500, "?", true}, false})).state, State::unknown);
    const Claim third = claim("k1");
    const Claimed again = claimed(third);
    EXPECT_EQ(as<Ok>(execute(Release{holder(third, again)})).state, State::unknown);
    const Claim fourth = claim("k1");
    as<Ok>(execute(Settle{holder(fourth, claimed(fourth)), {200, "sure", true}}));
    EXPECT_EQ(as<Replay>(execute(claim("k1"))).outcome.body, "sure");
}

TEST_P(StoreConformance, RetryEndsWithTheDedupWindow) {  // I12
    Claim first = claim("k1");
    first.policy = {.on_unknown = OnUnknown::retry, .dedup_window = 1h};
    claimed(first);
    world_->pass(59min);
    claimed(claim("k1"));
    world_->pass(2min);
    EXPECT_TRUE(is<Unknown>(execute(claim("k1"))));
}

TEST_P(StoreConformance, ThePolicyIsFixedByTheFirstClaim) {  // I12
    claimed(claim("k1"));
    world_->pass(31s);
    Claim second = claim("k1");
    second.policy = {.on_unknown = OnUnknown::retry, .dedup_window = 24h};
    EXPECT_TRUE(is<Unknown>(execute(second)));
}

TEST_P(StoreConformance, ARestartOfAnEmbeddedStoreMakesItsLeasesUnknownAtOnce) {  // I5
    const Claim first = claim("k1");
    claimed(first);
    Claim retried = claim("k2");
    retried.policy = {.on_unknown = OnUnknown::retry, .dedup_window = 24h};
    claimed(retried);
    restart();
    if (world_->embedded()) {
        EXPECT_TRUE(is<Unknown>(execute(claim("k1"))));
        EXPECT_TRUE(claimed(claim("k2")).doubt);
    } else {
        EXPECT_TRUE(is<Busy>(execute(claim("k1"))));
        EXPECT_TRUE(is<Busy>(execute(claim("k2"))));
    }
}

TEST_P(StoreConformance, WhatWasSettledSurvivesARestart) {  // I10
    const Claim first = claim("k1");
    as<Ok>(execute(Settle{holder(first, claimed(first)), {200, "kept", true}}));
    restart();
    EXPECT_EQ(as<Replay>(execute(claim("k1"))).outcome.body, "kept");
}

// ---- the holder's commands -------------------------------------------------------------------------------------

TEST_P(StoreConformance, ReleaseMakesTheOperationAbsentAndItsNextTokenIsLarger) {  // I3
    const Claim first = claim("k1");
    const Claimed mine = claimed(first);
    EXPECT_EQ(as<Ok>(execute(Release{holder(first, mine)})).state, std::nullopt);
    EXPECT_FALSE(find(first));
    EXPECT_EQ(as<Ok>(execute(Release{holder(first, mine)})).state, std::nullopt);
    EXPECT_TRUE(is<Fenced>(execute(Settle{holder(first, mine), {200, "late", true}})));
    const Claim second = claim("k1", "other body");
    EXPECT_GT(claimed(second).token, mine.token);
    EXPECT_EQ(world_->store().list({}, "", 10)->records.size(), 1U);
}

TEST_P(StoreConformance, AbandonMakesItUnknownAndOnlySettleOrResolveEndsIt) {  // I11
    const Claim first = claim("k1");
    const Holder mine = holder(first, claimed(first));
    EXPECT_EQ(as<Ok>(execute(Abandon{mine})).state, State::unknown);
    EXPECT_EQ(as<Ok>(execute(Release{mine})).state, State::unknown);
    EXPECT_TRUE(is<Unknown>(execute(claim("k1"))));
    EXPECT_EQ(as<Ok>(execute(Settle{mine, {200, "after all", true}})).state, State::settled);
}

TEST_P(StoreConformance, ASecondSettleChangesNothing) {  // I2, I6
    const Claim first = claim("k1");
    const Holder mine = holder(first, claimed(first));
    as<Ok>(execute(Settle{mine, {200, "first", true}}));
    EXPECT_TRUE(is<Ok>(execute(Settle{mine, {200, "first", true}})));
    EXPECT_EQ(as<Settled>(execute(Settle{mine, {500, "second", true}})).outcome.body, "first");
    EXPECT_EQ(as<Settled>(execute(Renew{mine})).outcome.body, "first");
    EXPECT_EQ(as<Settled>(execute(Release{mine})).outcome.body, "first");
    EXPECT_EQ(as<Settled>(execute(Abandon{mine})).outcome.body, "first");
    EXPECT_EQ(as<Replay>(execute(claim("k1"))).outcome.body, "first");
}

TEST_P(StoreConformance, TheFirstCheckpointOfANameWinsAndIsHandedOn) {
    Claim first = claim("k1");
    first.policy.on_unknown = OnUnknown::resume;
    const Holder mine = holder(first, claimed(first));
    as<Ok>(execute(SaveCheckpoint{mine, {"reserve", std::string("\0\1", 2)}}));
    EXPECT_EQ(as<Ok>(execute(SaveCheckpoint{mine, {"reserve", "again"}})).checkpoint->value, std::string("\0\1", 2));
    as<Ok>(execute(SaveCheckpoint{mine, {"charge", ""}}));
    world_->pass(31s);
    const Claimed resumed = claimed(claim("k1"));
    EXPECT_EQ(resumed.checkpoints, (std::vector<Checkpoint>{{"reserve", std::string("\0\1", 2)}, {"charge", ""}}));
    EXPECT_TRUE(resumed.doubt);
}

TEST_P(StoreConformance, TheRequestOfTheFirstClaimIsHandedOnUntilItIsSettled) {
    const auto asking = [&](std::string request) {
        Claim made = claim("k1");
        made.policy.on_unknown = OnUnknown::retry;
        made.policy.dedup_window = 24h;
        made.request = std::move(request);
        return made;
    };
    std::string bytes(Record::request_bytes_max, '\xfe');
    bytes[1] = '\0';
    const Claim first = asking(bytes);
    const Claimed mine = claimed(first);
    EXPECT_EQ(mine.request, "");
    EXPECT_EQ(find(first)->request, bytes);
    EXPECT_FALSE(find(first)->touched);
    as<Ok>(execute(Renew{holder(first, mine)}));
    world_->pass(31s);

    const Claim second = asking("other bytes");
    const Claimed taken_over = claimed(second);
    EXPECT_TRUE(taken_over.doubt);
    EXPECT_EQ(taken_over.request, bytes);
    as<Ok>(execute(Abandon{holder(second, taken_over)}));
    const Claim third = asking("");
    const Claimed again = claimed(third);
    EXPECT_EQ(again.request, bytes);
    as<Ok>(execute(Settle{holder(third, again), {200, "done", true}}));
    EXPECT_EQ(find(first)->request, "");
}

TEST_P(StoreConformance, ARequestIsNoStepSoThatItsReleaseLeavesNothing) {
    Claim first = claim("k1");
    first.request = "bytes";
    as<Ok>(execute(Release{holder(first, claimed(first))}));
    EXPECT_FALSE(find(first));
    Claim second = claim("k1");
    second.request = "others";
    claimed(second);
    EXPECT_EQ(find(second)->request, "others");
}

TEST_P(StoreConformance, CheckpointsOfAnOperationHaveALimit) {
    const Claim first = claim("k1");
    const Holder mine = holder(first, claimed(first));
    for (std::size_t i = 0; i < Record::checkpoints_max; ++i)
        as<Ok>(execute(SaveCheckpoint{mine, {"step" + std::to_string(i), "x"}}));
    const Group group = lone(SaveCheckpoint{mine, {"one more", "x"}});
    auto executed = session_->execute(std::span(&group, 1));
    ASSERT_TRUE(executed);
    ASSERT_FALSE(executed->answers[0]);
    EXPECT_EQ(executed->answers[0].failure().code, Code::exhausted);
    as<Ok>(execute(SaveCheckpoint{mine, {"step0", "again"}}));
}

// ---- people ----------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, APersonResolvesAnUnknownOutcomeOnceTheEffectCanHaveEnded) {
    const Claim first = claim("k1");
    const Claimed mine = claimed(first);
    as<Ok>(execute(Abandon{holder(first, mine)}));
    const OperationId id = first.operation.id();
    EXPECT_TRUE(
        is<TooEarly>(execute(Resolve{id, mine.token, Outcome{200, "found it", true}, "ann", "settlement file"})));
    world_->pass(61s);
    EXPECT_TRUE(is<Fenced>(execute(Resolve{id, {mine.token.value + 1}, std::nullopt, "ann", "no"})));
    EXPECT_EQ(as<Ok>(execute(Resolve{id, mine.token, Outcome{200, "found it", true}, "ann", "settlement file"})).state,
              State::settled);
    EXPECT_EQ(as<Replay>(execute(claim("k1"))).outcome.body, "found it");
    const auto record = find(first);
    EXPECT_EQ(record->resolved_by, "ann");
    EXPECT_EQ(record->resolved_why, "settlement file");
    EXPECT_TRUE(is<Settled>(execute(Resolve{id, mine.token, std::nullopt, "bob", "other view"})));
}

TEST_P(StoreConformance, ResolvedAsNotHappenedItMayRunAgain) {
    const Claim first = claim("k1");
    const Claimed mine = claimed(first);
    world_->pass(61s);
    const Resolve not_happened{first.operation.id(), mine.token, std::nullopt, "ann", "processor has no trace"};
    as<Ok>(execute(not_happened));
    as<Ok>(execute(not_happened));
    const Claim second = claim("k1");
    EXPECT_GT(claimed(second).token, mine.token);
    EXPECT_TRUE(is<Fenced>(execute(Settle{holder(first, mine), {200, "zombie", true}})));
}

// ---- batches and groups ----------------------------------------------------------------------------------------

TEST_P(StoreConformance, AFullBatchAnswersEveryCommand) {
    std::vector<Claim> claims;
    std::vector<Group> batch;
    for (std::size_t i = 0; i < Session::groups_max; ++i) {
        claims.push_back(claim("k" + std::to_string(i)));
        batch.push_back(lone(claims.back()));
    }
    auto executed = session_->execute(batch);
    ASSERT_TRUE(executed) << executed.failure().message;
    std::set<std::uint64_t> tokens;
    std::vector<Group> mixed;
    for (std::size_t i = 0; i < batch.size(); ++i) {
        const Claimed mine = as<Claimed>(executed->answers[i]->front());
        tokens.insert(mine.token.value);
        // Settle one half, claim the other half again, and some new ones.
        if (i % 2 == 0)
            mixed.push_back(lone(Settle{holder(claims[i], mine), {200, "body" + std::to_string(i), true}}));
        else if (i % 4 == 1)
            mixed.push_back(lone(claim("k" + std::to_string(i))));
        else
            mixed.push_back(lone(claim("new" + std::to_string(i))));
    }
    EXPECT_EQ(tokens.size(), Session::groups_max);
    executed = session_->execute(mixed);
    ASSERT_TRUE(executed) << executed.failure().message;
    for (std::size_t i = 0; i < mixed.size(); ++i) {
        const Answer& answer = executed->answers[i]->front();
        if (i % 2 == 0)
            EXPECT_TRUE(is<Ok>(answer)) << i;
        else if (i % 4 == 1)
            EXPECT_TRUE(is<Busy>(answer)) << i;
        else
            EXPECT_TRUE(is<Claimed>(answer)) << i;
    }
    std::vector<Group> replays;
    for (std::size_t i = 0; i < batch.size(); i += 2) replays.push_back(lone(claim("k" + std::to_string(i))));
    executed = session_->execute(replays);
    ASSERT_TRUE(executed);
    for (std::size_t i = 0; i < replays.size(); ++i)
        EXPECT_EQ(as<Replay>(executed->answers[i]->front()).outcome.body, "body" + std::to_string(i * 2));
}

TEST_P(StoreConformance, AGroupStandsOrFallsTogether) {
    const Claim parent = claim("parent");
    const Claimed mine = claimed(parent);
    const Claim child = claim("child");

    Group stale;
    stale.commands.push_back(
        SaveCheckpoint{{parent.operation.id(), {mine.token.value + 1}, mine.attempt}, {"step", "1"}});
    stale.commands.push_back(child);
    auto executed = session_->execute(std::span(&stale, 1));
    ASSERT_TRUE(executed);
    EXPECT_TRUE(is<Fenced>((*executed->answers[0])[0]));
    EXPECT_TRUE(is<Withheld>((*executed->answers[0])[1]));
    EXPECT_FALSE(find(child));

    Group good;
    good.commands.push_back(SaveCheckpoint{holder(parent, mine), {"step", "1"}});
    good.commands.push_back(child);
    executed = session_->execute(std::span(&good, 1));
    ASSERT_TRUE(executed);
    EXPECT_TRUE(is<Ok>((*executed->answers[0])[0]));
    EXPECT_TRUE(is<Claimed>((*executed->answers[0])[1]));
    EXPECT_EQ(find(parent)->checkpoints.size(), 1U);
    EXPECT_TRUE(find(child));
}

// ---- retention -------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, TheSweepDropsBodiesAndThenIdentitiesAndNothingElse) {
    Claim kept = claim("permanent");
    Claim finite = claim("finite");
    finite.policy.retention = {.identity = 48h, .response = 24h};
    Claim running = claim("running");
    running.policy.retention = {.identity = 1h, .response = 1h};
    Claim unknown = claim("unknown");
    unknown.policy.retention = {.identity = 1h, .response = 1h};
    as<Ok>(execute(Settle{holder(kept, claimed(kept)), {201, "body", true}}));
    const Claimed finite_holder = claimed(finite);
    as<Ok>(execute(Settle{holder(finite, finite_holder), {202, "body", true}}));
    claimed(running);
    as<Ok>(execute(Abandon{holder(unknown, claimed(unknown))}));

    Store& store = world_->store();
    Swept swept = store.sweep(100).value();
    EXPECT_EQ(swept.bodies_dropped + swept.removed, 0U);

    world_->pass(25h);
    swept = store.sweep(100).value();
    EXPECT_EQ(swept.bodies_dropped, 2U);
    EXPECT_EQ(swept.removed, 0U);
    EXPECT_EQ(as<Replay>(execute(claim("permanent"))).outcome, Outcome::tombstone(201));
    EXPECT_EQ(as<Replay>(execute(claim("finite"))).outcome, Outcome::tombstone(202));
    EXPECT_TRUE(is<Mismatch>(execute(claim("permanent", "other"))));

    world_->pass(24h);
    swept = store.sweep(100).value();
    EXPECT_EQ(swept.removed, 1U);
    EXPECT_EQ(as<Replay>(execute(claim("permanent"))).outcome, Outcome::tombstone(201));
    EXPECT_TRUE(is<Unknown>(execute(claim("running"))));
    EXPECT_TRUE(is<Unknown>(execute(claim("unknown"))));
    EXPECT_GT(claimed(claim("finite")).token, finite_holder.token);  // I3
}

TEST_P(StoreConformance, TheSweepWorksInSmallBatches) {
    std::vector<Group> settles;
    for (int i = 0; i < 25; ++i) {
        Claim command = claim("k" + std::to_string(i));
        command.policy.retention = {.identity = 1h, .response = 1h};
        settles.push_back(lone(Settle{holder(command, claimed(command)), {200, "x", true}}));
    }
    ASSERT_TRUE(session_->execute(settles));
    world_->pass(2h);
    std::uint64_t removed = 0;
    int rounds = 0;
    for (bool more = true; more; ++rounds) {
        const Swept swept = world_->store().sweep(10).value();
        EXPECT_LE(swept.removed, 10U);
        removed += swept.removed;
        more = swept.more;
    }
    EXPECT_EQ(removed, 25U);
    EXPECT_EQ(rounds, 3);
}

TEST_P(StoreConformance, TheSweepHaltsWhenTheClockHasJumped) {
    Claim command = claim("k1");
    command.policy.retention = {.identity = 24h, .response = 1h};
    as<Ok>(execute(Settle{holder(command, claimed(command)), {200, "x", true}}));
    ASSERT_TRUE(world_->store().sweep(10));
    world_->pass(24h * 400);
    const auto halted = world_->store().sweep(10);
    ASSERT_FALSE(halted);
    EXPECT_NE(halted.failure().message.find("--accept-clock"), std::string::npos) << halted.failure().message;
    EXPECT_TRUE(is<Replay>(execute(claim("k1"))));
    EXPECT_EQ(world_->store().sweep(10, true)->removed, 1U);
    EXPECT_TRUE(world_->store().sweep(10));
}

TEST_P(StoreConformance, ATimeOrderedKeyThatMayHaveBeenSweptIsExpired) {
    const TimePoint now = world_->store().now().value();
    Claim old = claim("k1");
    old.policy.retention.identity = 24h;
    old.key_time = now - 25h;
    EXPECT_TRUE(is<Expired>(execute(old)));
    EXPECT_FALSE(find(old));
    old.key_time = now - 23h;
    const Claimed mine = claimed(old);
    as<Ok>(execute(Settle{holder(old, mine), {200, "x", true}}));
    // As long as its record is there it is replayed, however old the key.
    Claim retry = claim("k1");
    retry.policy.retention.identity = 24h;
    retry.key_time = now - 25h;
    EXPECT_TRUE(is<Replay>(execute(retry)));
}

// ---- reading ---------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, ListFindsByStateScopeAgeAndCorrelationInPages) {
    std::set<std::string> expected;
    for (int i = 0; i < 25; ++i) {
        Claim command = claim("k" + std::to_string(i));
        if (i % 5 == 0) command.operation = operation("k" + std::to_string(i), "globex/refunds#3");
        if (i == 7) command.correlation = "order-7";
        const Claimed mine = claimed(command);
        if (i % 2 == 0) as<Ok>(execute(Settle{holder(command, mine), {200, "x", true}}));
        expected.insert("k" + std::to_string(i));
    }
    Store& store = world_->store();
    std::set<std::string> seen;
    std::string cursor;
    do {
        const Page page = store.list({}, cursor, 10).value();
        EXPECT_LE(page.records.size(), 10U);
        for (const Record& record : page.records) EXPECT_TRUE(seen.insert(record.operation->key.text()).second);
        cursor = page.next;
    } while (!cursor.empty());
    EXPECT_EQ(seen, expected);

    const auto count = [&](const Filter& filter) { return store.list(filter, "", 100)->records.size(); };
    EXPECT_EQ(count({.state = State::running}), 12U);
    EXPECT_EQ(count({.state = State::settled}), 13U);
    EXPECT_EQ(count({.tenant = "globex"}), 5U);
    EXPECT_EQ(count({.scope_name = "payments"}), 20U);
    EXPECT_EQ(count({.generation = 3}), 5U);
    EXPECT_EQ(count({.correlation = "order-7"}), 1U);
    EXPECT_EQ(count({.older_than = 1h}), 0U);
    world_->pass(2h);
    EXPECT_EQ(count({.older_than = 1h}), 25U);
    EXPECT_EQ(count({.newer_than = 1h}), 0U);
    EXPECT_FALSE(store.list({}, "not a cursor", 10));
}

// ---- damage ----------------------------------------------------------------------------------------------------

TEST_P(StoreConformance, AFlippedBitIsCorruptAndNeverAReplayOrARerun) {
    if (!world_->can_damage()) return;  // the memory store has no form outside of itself
    int number = 0;
    for (const char* column : {"record", "outcome", "scope", "key"}) {
        for (const std::size_t byte : {0, 1, 2, 5, 18, 25, 40}) {
            const std::string key = "k" + std::to_string(number++);
            const Claim first = claim(key);
            const Claimed mine = claimed(first);
            as<Ok>(execute(Settle{holder(first, mine), {200, "the outcome", true}}));
            world_->damage(first.operation.id(), column, byte);
            for (const Command& command :
                 {Command{claim(key)}, Command{Settle{holder(first, mine), {200, "x", true}}}}) {
                const Group group = lone(command);
                auto executed = session_->execute(std::span(&group, 1));
                ASSERT_TRUE(executed) << executed.failure().message;
                ASSERT_FALSE(executed->answers[0]) << column << " " << byte;
                EXPECT_EQ(executed->answers[0].failure().code, Code::corrupt);
            }
            EXPECT_EQ(world_->store().find(first.operation.id()).failure().code, Code::corrupt);
        }
    }
    const Page page = world_->store().list({}, "", 100).value();
    EXPECT_EQ(page.corrupt, 28U);
    EXPECT_TRUE(page.records.empty());
    // The others are not affected.
    EXPECT_TRUE(is<Claimed>(execute(claim("whole"))));
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance, testing::ValuesIn(all_stores()),
                         [](const testing::TestParamInfo<StoreKind>& kind) { return kind.param.name; });

}  // namespace
}  // namespace semel::test
