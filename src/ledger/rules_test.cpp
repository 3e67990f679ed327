// The rules of the ledger as tables: given × command × time -> answer and what is remembered then.
//
// Times are seconds after the claim. The policy everywhere: lease 30s, effect deadline 30s, dedup window 100s (retry),
// answers kept for 1000s, identities for 5000s. `mine` is the attempt that holds the record, under token 7; the store's next
// token is 8.
#include "ledger/rules.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

namespace semel {
namespace {

// ---- the words the tables are written in -------------------------------------------------------------------------

constexpr TimePoint at(int seconds) { return time_from_micros(1'700'000'000'000'000) + std::chrono::seconds{seconds}; }
int seconds(TimePoint time) {
    return static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(time - at(0)).count());
}

const Operation payment{Scope::make("acme", "payments").value(), Key::parse("k1").value()};
const Attempt mine{{1}};
const Attempt other{{2}};
const Outcome paid{200, "paid", true};
const Outcome declined{402, "declined", true};

using enum OnUnknown;

Policy policy(OnUnknown on_unknown) {
    return {.on_unknown = on_unknown,
            .dedup_window = std::chrono::seconds{on_unknown == retry ? 100 : 0},
            .lease = std::chrono::seconds{30},
            .effect_deadline = std::chrono::seconds{30},
            .retention = {std::chrono::seconds{5000}, std::chrono::seconds{1000}}};
}

Claim claim(Attempt attempt, OnUnknown on_unknown = refuse) {
    return {.operation = payment,
            .fingerprint = Fingerprint{{1}, 1},
            .attempt = attempt,
            .policy = policy(on_unknown),
            .key_time = std::nullopt,
            .correlation = "order-1"};
}
Claim with(Claim claim, Fingerprint fingerprint) {
    claim.fingerprint = fingerprint;
    return claim;
}
Claim until(Claim claim, int not_after) {
    claim.not_after = at(not_after);
    return claim;
}
Claim key_of(Claim claim, int key_time) {
    claim.key_time = at(key_time);
    return claim;
}
Claim in_transaction(Claim claim) {
    claim.in_transaction = true;
    return claim;
}

Holder holder(std::uint64_t token = 7, Attempt attempt = mine) { return {payment.id(), Token{token}, attempt}; }
Settle inconclusive(Outcome outcome) { return {holder(), std::move(outcome), false}; }
SaveCheckpoint step(std::string value) { return {holder(), {"step", std::move(value)}}; }
Resolve resolve(std::optional<Outcome> outcome, std::uint64_t token = 7) {
    return {payment.id(), Token{token}, std::move(outcome), "ops", "asked the bank"};
}

constexpr Epoch this_run{3};
using Held = std::optional<Record>;

Decision decide_at(int now, Held held, const Command& command, std::uint64_t fresh = 8) {
    return decide(std::move(held), command, Moment{at(now), Token{fresh}, this_run});
}

const Held absent;
Held running(OnUnknown on_unknown = refuse) { return decide_at(0, absent, claim(mine, on_unknown), 7).next; }
Held in_doubt(Held held) {
    held->doubt = true;
    return held;
}
/// What `held` becomes when these commands arrive one after the other.
template <class... Commands>
Held after(int now, Held held, const Commands&... commands) {
    ((held = decide_at(now, std::move(held), commands).next), ...);
    return held;
}
Held abandoned(OnUnknown on_unknown = refuse) { return after(10, running(on_unknown), Abandon{holder()}); }
Held settled() { return after(10, running(), Settle{holder(), paid}); }
Held tombstone() { return sweep(settled(), at(2000)).next; }
Held unfilled() { return decide_at(0, absent, in_transaction(claim(mine)), 7).next; }

std::string show(const Outcome& outcome) {
    return fmt::format("{} {}", outcome.status, outcome.kept ? outcome.body : "(no body)");
}

std::string show(const Answer& answer) {
    const auto plain = [](const char* word) { return std::string{word}; };
    return std::visit(
        match{[](const Claimed& a) {
                  return fmt::format("Claimed {}{}{}{}", a.token.value, a.doubt ? " in doubt" : "",
                                     a.checkpoints.empty() ? "" : " after " + a.checkpoints[0].value,
                                     a.request.empty() ? "" : " to ask " + a.request);
              },
              [](const Replay& a) { return "Replay " + show(a.outcome); },
              [](const Busy& a) { return fmt::format("Busy {}s", a.retry_after / std::chrono::seconds{1}); },
              [&](const Mismatch&) { return plain("Mismatch"); },
              [](const Unknown& a) { return fmt::format("Unknown {}s", seconds(a.since)); },
              [&](const Expired&) { return plain("Expired"); },
              [](const Ok& a) { return a.checkpoint ? "Ok " + a.checkpoint->value : std::string{"Ok"}; },
              [](const Settled& a) { return "Settled " + show(a.outcome); },
              [&](const Fenced&) { return plain("Fenced"); },
              [](const TooEarly& a) { return fmt::format("TooEarly until {}s", seconds(a.not_before)); },
              [&](const Late&) { return plain("Late"); }, [&](const Withheld&) { return plain("Withheld"); }},
        answer);
}

std::string show(const Held& held) {
    if (!held) return "absent";
    const char* doubt = held->doubt ? ", doubt" : "";
    switch (held->state) {
        case State::running: return fmt::format("running until {}s{}", seconds(held->lease_until), doubt);
        case State::unknown: return fmt::format("unknown {}s{}", seconds(*held->unknown_since), doubt);
        case State::settled: return "settled " + show(held->outcome);
    }
    return "?";
}

/// `then` empty: nothing changed.
struct Row {
    const char* why;
    Held given;
    int now;
    Command command;
    const char* answer;
    const char* then = "";
};

void expect(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
        SCOPED_TRACE(fmt::format("{}: given {} at {}s", row.why, show(row.given), row.now));
        const Decision decision = decide_at(row.now, row.given, row.command);
        EXPECT_EQ(show(decision.answer), row.answer);
        const bool same = std::string_view{row.then}.empty();
        EXPECT_EQ(show(decision.next), same ? show(row.given) : row.then);
        EXPECT_EQ(decision.next == row.given, same);
        EXPECT_EQ(decision.changed, !same);
    }
}

// ---- claim ---------------------------------------------------------------------------------------------------------

TEST(Claim, OfAnAbsentOperationIsGranted) {
    expect({
        {"I1 the first", absent, 0, claim(mine), "Claimed 8", "running until 30s"},
        {"I6 in time", absent, 5, until(claim(mine), 5), "Claimed 8", "running until 35s"},
        {"I6 nobody waits any more", absent, 6, until(claim(mine), 5), "Late"},
        {"I8 done unless rolled back", absent, 0, in_transaction(claim(mine)), "Claimed 8", "settled 0 (no body)"},
        {"a young key", absent, 4999, key_of(claim(mine), 0), "Claimed 8", "running until 5029s"},
        {"it may have been swept", absent, 5000, key_of(claim(mine), 0), "Expired"},
        {"a key from before", absent, 0, key_of(claim(mine), -6000), "Expired"},
    });
}

TEST(Claim, OfARunningOperationIsBusyUntilTheLeaseEnds) {
    expect({
        {"I1 one live holder", running(), 10, claim(other), "Busy 20s"},
        {"I1 whatever the policy", running(retry), 10, claim(other, retry), "Busy 20s"},
        {"I1 a transaction has to wait too", running(), 10, in_transaction(claim(other)), "Busy 20s"},
        {"I1 the last second", running(resume), 29, claim(other, resume), "Busy 1s"},
        {"I1 renewed", after(20, running(resume), Renew{holder()}), 40, claim(other, resume), "Busy 10s"},
    });
}

TEST(Claim, RepeatedGetsTheSameAnswerUntilItsHolderUsedTheToken) {
    const Held taken_over = after(40, after(10, running(resume), step("one")), claim(other, resume));
    const Holder second = holder(8, other);
    expect({
        {"I6 the reply was lost", running(), 10, claim(mine), "Claimed 7"},
        {"I6 also when it is late", running(), 10, until(claim(mine), 5), "Claimed 7"},
        {"I6 in doubt as before", in_doubt(running()), 10, claim(mine), "Claimed 7 in doubt"},
        {"I6 renewed since", after(5, running(), Renew{holder()}), 10, claim(mine), "Busy 25s"},
        {"I6 a step done since", after(5, running(), step("one")), 10, claim(mine), "Busy 20s"},
        {"I6 a step found since", after(45, taken_over, SaveCheckpoint{second, {"step", "two"}}), 50, claim(other),
         "Busy 20s"},
        {"I6 a settled one", settled(), 20, claim(mine), "Replay 200 paid"},
    });
}

TEST(Claim, AfterTheLeaseEndedFollowsThePolicyOfTheFirstClaim) {
    expect({
        {"I12 refuse", running(refuse), 30, claim(other, refuse), "Unknown 30s", "unknown 30s"},
        {"I12 the first claim said refuse", running(refuse), 30, claim(other, resume), "Unknown 30s", "unknown 30s"},
        {"I12 the first said resume", running(resume), 30, claim(other, refuse), "Claimed 8 in doubt",
         "running until 60s, doubt"},
        {"I12 retry", running(retry), 99, claim(other, retry), "Claimed 8 in doubt", "running until 129s, doubt"},
        {"I12 retry, its window over", running(retry), 100, claim(other, retry), "Unknown 30s", "unknown 30s"},
        {"I12 joined", running(joined), 30, claim(other, joined), "Claimed 8 in doubt", "running until 60s, doubt"},
        {"I11 its own claim again", running(resume), 30, claim(mine, resume), "Claimed 8 in doubt",
         "running until 60s, doubt"},
        {"I6 nobody waits any more", running(resume), 30, until(claim(other, resume), 29), "Late"},
        {"no lease to hold it with", running(resume), 30, in_transaction(claim(other)), "Unknown 30s", "unknown 30s"},
    });
}

TEST(Claim, OfAnUnknownOutcomeFollowsThePolicyToo) {
    expect({
        {"I12 refuse", abandoned(refuse), 20, claim(other), "Unknown 10s"},
        {"I12 retry", abandoned(retry), 20, claim(other, retry), "Claimed 8 in doubt", "running until 50s, doubt"},
        {"I12 retry, its window over", abandoned(retry), 100, claim(other, retry), "Unknown 10s"},
        {"I12 resume", abandoned(resume), 20, claim(other, resume), "Claimed 8 in doubt", "running until 50s, doubt"},
        {"I12 joined", abandoned(joined), 20, claim(other, joined), "Claimed 8 in doubt", "running until 50s, doubt"},
        {"where it got to", after(5, running(resume), step("one"), Abandon{holder()}), 20, claim(other, resume),
         "Claimed 8 in doubt after one", "running until 50s, doubt"},
        {"I6 nobody waits any more", abandoned(resume), 20, until(claim(other, resume), 19), "Late"},
    });
}

TEST(Claim, TakenOverGetsTheRequestOfTheFirst) {
    const auto asking = [](Claim made, std::string request) {
        made.request = std::move(request);
        return made;
    };
    const Held first = decide_at(0, absent, asking(claim(mine, retry), "this"), 7).next;
    const Held left = after(10, first, Abandon{holder()});
    const Held second = after(20, left, asking(claim(other, retry), "that"));
    expect({
        {"the first knows what it asks", absent, 0, asking(claim(mine, retry), "this"), "Claimed 8",
         "running until 30s"},
        {"nor is it told when its reply was lost", first, 5, asking(claim(mine, retry), "this"), "Claimed 7"},
        {"lease over", first, 30, asking(claim(other, retry), "that"), "Claimed 8 in doubt to ask this",
         "running until 60s, doubt"},
        {"abandoned", left, 20, asking(claim(other, retry), "that"), "Claimed 8 in doubt to ask this",
         "running until 50s, doubt"},
        {"I6 the reply was lost", second, 25, asking(claim(other, retry), "that"), "Claimed 8 in doubt to ask this"},
        {"and the next", second, 50, claim(mine, retry), "Claimed 8 in doubt to ask this", "running until 80s, doubt"},
        {"it is no step", first, 10, Release{holder()}, "Ok", "absent"},
    });
    EXPECT_FALSE(first->touched);
    EXPECT_EQ(second->request, "this");
    EXPECT_EQ(after(21, second, Settle{holder(8, other), paid})->request, "");
    EXPECT_EQ(after(100, left, resolve(paid))->request, "");
    EXPECT_EQ(decide_at(0, absent, in_transaction(asking(claim(mine), "this"))).next->request, "");
}

TEST(Claim, OfASettledOperationReplaysItsOutcome) {
    expect({
        {"I2 byte for byte", settled(), 20, claim(other), "Replay 200 paid"},
        {"I2 however late", settled(), 100'000, claim(other), "Replay 200 paid"},
        {"I2 its key is old, but it is here", settled(), 6000, key_of(claim(other), 0), "Replay 200 paid"},
        {"I2 the status outlives the body", tombstone(), 2000, claim(other), "Replay 200 (no body)"},
        {"I8 never kept", after(10, running(), Settle{holder(), Outcome::tombstone(200)}), 20, claim(other),
         "Replay 200 (no body)"},
        {"I8 forgotten in its transaction", unfilled(), 20, in_transaction(claim(other)), "Replay 0 (no body)"},
    });
}

TEST(Claim, WithAnotherFingerprintIsAMismatchOnEveryPath) {
    const Claim bug = with(claim(other, resume), Fingerprint{{2}, 1});
    const Claim other_rules = with(claim(other, resume), Fingerprint{{1}, 2});
    expect({
        {"I7 running", running(resume), 10, bug, "Mismatch"},
        {"I7 its own attempt", running(), 10, with(claim(mine), Fingerprint{{2}, 1}), "Mismatch"},
        {"I7 lease over", running(resume), 40, bug, "Mismatch"},
        {"I7 unknown", abandoned(resume), 20, bug, "Mismatch"},
        {"I7 settled", settled(), 20, bug, "Mismatch"},
        {"I7 tombstone", tombstone(), 2000, bug, "Mismatch"},
        {"I7 late", running(resume), 40, until(bug, 39), "Mismatch"},
        {"I7 the version is part of it", running(resume), 10, other_rules, "Mismatch"},
    });
}

// ---- the holder -------------------------------------------------------------------------------------------------------

TEST(HolderCommand, OfASupersededHolderIsFencedAndChangesNothing) {
    std::vector<Row> rows;
    for (const Holder& stale : {holder(6), holder(8), holder(7, other), holder(6, other)}) {
        for (const Held& held : {running(), in_doubt(running()), abandoned(), settled(), unfilled(), tombstone()}) {
            rows.push_back({"I3 renew", held, 20, Renew{stale}, "Fenced"});
            rows.push_back({"I3 checkpoint", held, 20, SaveCheckpoint{stale, {"step", "one"}}, "Fenced"});
            rows.push_back({"I3 settle", held, 20, Settle{stale, declined}, "Fenced"});
            rows.push_back({"I3 release", held, 20, Release{stale}, "Fenced"});
            rows.push_back({"I3 abandon", held, 20, Abandon{stale}, "Fenced"});
        }
    }
    expect(rows);
}

TEST(HolderCommand, OnAnAbsentOperationIsFencedExceptThatItIsReleasedAlready) {
    expect({
        {"I3", absent, 20, Renew{holder()}, "Fenced"},
        {"I3", absent, 20, step("one"), "Fenced"},
        {"I3", absent, 20, Settle{holder(), paid}, "Fenced"},
        {"I3", absent, 20, Abandon{holder()}, "Fenced"},
        {"I6 said twice", absent, 20, Release{holder()}, "Ok"},
    });
}

TEST(Renew, ExtendsTheLeaseWhileNobodyWasToldOtherwise) {
    expect({
        {"I4", running(), 10, Renew{holder()}, "Ok", "running until 40s"},
        {"I3 late is not superseded", running(), 300, Renew{holder()}, "Ok", "running until 330s"},
        {"I11 doubt stays", in_doubt(running()), 10, Renew{holder()}, "Ok", "running until 40s, doubt"},
        {"told unknown", abandoned(), 20, Renew{holder()}, "Ok"},
        {"I2 settled", settled(), 20, Renew{holder()}, "Settled 200 paid"},
    });
}

TEST(SaveCheckpoint, KeepsTheFirstWrite) {
    const Held one = after(5, running(), step("one"));
    expect({
        {"written", running(), 5, step("one"), "Ok one", "running until 30s"},
        {"I6 said twice", one, 6, step("one"), "Ok one"},
        {"first write wins", one, 6, step("two"), "Ok one"},
        {"late", running(), 50, step("one"), "Ok one", "running until 30s"},
        {"unknown", abandoned(), 20, step("one"), "Ok one", "unknown 10s, doubt"},
        {"I2 settled", settled(), 20, step("one"), "Settled 200 paid"},
    });
}

TEST(Settle, GivesTheOutcomeOnce) {
    expect({
        {"I2", running(), 10, Settle{holder(), paid}, "Ok", "settled 200 paid"},
        {"I3 late is not superseded", running(), 300, Settle{holder(), paid}, "Ok", "settled 200 paid"},
        {"after unknown was told", abandoned(), 20, Settle{holder(), paid}, "Ok", "settled 200 paid"},
        {"I6 said twice", settled(), 20, Settle{holder(), paid}, "Ok"},
        {"I2 the first stays", settled(), 20, Settle{holder(), declined}, "Settled 200 paid"},
        {"I8 what cannot be kept", running(), 10, Settle{holder(), Outcome::tombstone(200)}, "Ok",
         "settled 200 (no body)"},
        {"filled in its transaction", unfilled(), 0, Settle{holder(), paid}, "Ok", "settled 200 paid"},
    });
}

TEST(Settle, InDoubtNeedsAConclusiveAnswer) {
    expect({
        {"no doubt, nothing to conclude", running(), 10, inconclusive(declined), "Ok", "settled 402 declined"},
        {"I11 inconclusive", in_doubt(running()), 10, inconclusive(declined), "Ok", "unknown 10s, doubt"},
        {"I11 unknown already", abandoned(), 20, inconclusive(declined), "Ok"},
        {"I11 conclusive", in_doubt(running()), 10, Settle{holder(), paid}, "Ok", "settled 200 paid"},
    });
}

TEST(Release, ForgetsOnlyWhatSurelyNeverBegan) {
    const Held lost = after(30, running(), claim(other));
    expect({
        {"never began", running(), 10, Release{holder()}, "Ok", "absent"},
        {"late, but nobody took over", running(), 300, Release{holder()}, "Ok", "absent"},
        {"told unknown, now known", lost, 40, Release{holder()}, "Ok", "absent"},
        {"I11 the one before may have", in_doubt(running()), 10, Release{holder()}, "Ok", "unknown 10s, doubt"},
        {"I11 a step was done", after(5, running(), step("one")), 10, Release{holder()}, "Ok", "unknown 10s"},
        {"I11 abandoned before", abandoned(), 20, Release{holder()}, "Ok"},
        {"I2 settled", settled(), 20, Release{holder()}, "Settled 200 paid"},
    });
}

TEST(Abandon, MakesTheOutcomeUnknownAtOnce) {
    const Held lost = after(30, running(), claim(other));
    expect({
        {"I11", running(), 10, Abandon{holder()}, "Ok", "unknown 10s, doubt"},
        {"I11 after unknown was told", lost, 40, Abandon{holder()}, "Ok", "unknown 30s, doubt"},
        {"I6 said twice", abandoned(), 20, Abandon{holder()}, "Ok"},
        {"I2 settled", settled(), 20, Abandon{holder()}, "Settled 200 paid"},
    });
}

// ---- a person ------------------------------------------------------------------------------------------------------------

TEST(Resolve, EndsAnOutcomeNobodyKnowsWhenTheLastEffectMustHaveEnded) {
    expect({
        {"its effect may still run", abandoned(), 59, resolve(paid), "TooEarly until 60s"},
        {"it happened", abandoned(), 60, resolve(paid), "Ok", "settled 200 paid"},
        {"it did not", abandoned(), 60, resolve({}), "Ok", "absent"},
        {"nobody asked since the lease ended", running(), 60, resolve(paid), "Ok", "settled 200 paid"},
        {"a live holder", running(), 10, resolve({}), "TooEarly until 60s"},
        {"I3 another try than the one seen", abandoned(), 60, resolve({}, 6), "Fenced"},
        {"I6 it happened, said twice", settled(), 60, resolve(paid), "Ok"},
        {"I2 settled otherwise", settled(), 60, resolve(declined), "Settled 200 paid"},
        {"I2 settled after all", settled(), 60, resolve({}), "Settled 200 paid"},
        {"I6 it did not, said twice", absent, 60, resolve({}), "Ok"},
        {"nothing there", absent, 60, resolve(paid), "Fenced"},
    });
}

TEST(Resolve, RemembersWhoAndWhy) {
    const Held held = after(60, abandoned(), resolve(paid));
    EXPECT_EQ(held->resolved_by, "ops");
    EXPECT_EQ(held->resolved_why, "asked the bank");
    EXPECT_EQ(held->history.at(held->history.size() - 2).what, Transition::resolved);
}

// ---- the store's own commands -----------------------------------------------------------------------------------------------

TEST(ExpireOwner, MakesTheDeadProcessesLeasesUnknownAtOnce) {
    const auto restart = [](const Held& held, Epoch dead) { return show(expire_owner(held, dead, at(5)).next); };
    EXPECT_EQ(restart(running(), this_run), "unknown 5s, doubt") << "I5";
    EXPECT_EQ(restart(running(resume), this_run), "unknown 5s, doubt") << "I5, whatever the policy";
    EXPECT_EQ(restart(running(), Epoch{4}), "unknown 5s, doubt") << "I5, of any earlier run";
    EXPECT_EQ(restart(running(), Epoch{2}), "running until 30s") << "a living one";
    EXPECT_EQ(restart(abandoned(), this_run), "unknown 10s, doubt");
    EXPECT_EQ(restart(settled(), this_run), "settled 200 paid") << "I2";
    EXPECT_EQ(restart(absent, this_run), "absent");
}

TEST(Sweep, ForgetsOnlyWhatIsSettledAndExpired) {
    const Held young_key = after(10, decide_at(0, absent, key_of(claim(mine), 300), 7).next, Settle{holder(), paid});
    const auto swept = [](const Held& held, int now) { return show(sweep(held, at(now)).next); };
    EXPECT_EQ(swept(settled(), 1009), "settled 200 paid") << "I2";
    EXPECT_EQ(swept(settled(), 1010), "settled 200 (no body)") << "I2, after response_retention";
    EXPECT_EQ(swept(settled(), 5009), "settled 200 (no body)") << "I2";
    EXPECT_EQ(swept(settled(), 5010), "absent") << "after retention";
    EXPECT_EQ(swept(tombstone(), 5009), "settled 200 (no body)") << "I2, a tombstone lives as long";
    EXPECT_EQ(swept(tombstone(), 5010), "absent") << "after retention";
    EXPECT_EQ(swept(young_key, 5299), "settled 200 (no body)") << "counted from the key's time if that is later";
    EXPECT_EQ(swept(young_key, 5300), "absent");
    EXPECT_EQ(swept(running(), 100'000), "running until 30s") << "I9";
    EXPECT_EQ(swept(abandoned(), 100'000), "unknown 10s, doubt") << "I9";
}

TEST(Sweep, NeverTakesWhatIsKeptForEver) {
    Held held = settled();
    held->policy.retention = {std::nullopt, std::nullopt};
    EXPECT_EQ(sweep(held, at(1'000'000'000)).next, held);
}

// ---- longer stories ---------------------------------------------------------------------------------------------------------

TEST(Story, AReleasedOperationIsGrantedUnderALargerTokenAndTheOldHolderIsFenced) {
    const Held released = after(5, running(), Release{holder()});
    const Decision second = decide_at(6, released, claim(other));
    EXPECT_EQ(show(second.answer), "Claimed 8") << "I3";
    expect({{"I3 a release that comes again, late", second.next, 7, Release{holder()}, "Fenced"}});
}

TEST(Story, DoubtOutlivesEveryTakeoverUntilSomebodyKnows) {
    const Held taken_over = after(30, running(resume), claim(other, resume));
    const Held released = after(40, taken_over, Release{holder(8, other)});
    EXPECT_EQ(show(released), "unknown 40s, doubt") << "I11";
    const Decision third = decide_at(50, released, claim(mine, resume), 9);
    EXPECT_EQ(show(third.answer), "Claimed 9 in doubt") << "I11";
    EXPECT_EQ(third.next->tries, 3u);
    EXPECT_EQ(show(after(60, third.next, Settle{holder(9), paid})), "settled 200 paid");
}

TEST(Story, TheHistoryKeepsTheFirstEventAndTheLastFew) {
    Held held = running(resume);
    for (std::uint64_t token = 8; token < 30; ++token) {
        const int now = static_cast<int>(token) * 100;
        held = decide_at(now, held, claim(other, resume), token).next;
    }
    EXPECT_EQ(held->history.size(), Record::history_max);
    EXPECT_EQ(held->history.front().what, Transition::claimed);
    EXPECT_EQ(held->history.back().token, Token{29});
}

TEST(Group, StandsIfEveryCommandGotWhatItCameFor) {
    EXPECT_TRUE(stands(Claimed{}));
    EXPECT_TRUE(stands(Replay{}));
    EXPECT_TRUE(stands(Ok{}));
    for (const Answer& refused : std::initializer_list<Answer>{Busy{}, Mismatch{}, Unknown{}, Expired{}, Settled{},
                                                               Fenced{}, TooEarly{}, Late{}, Withheld{}})
        EXPECT_FALSE(stands(refused)) << show(refused);
}

}  // namespace
}  // namespace semel
