// What an intent does next: rows of (what was answered) -> (what is done), and what is known in the end.
#include "effects/intent_machine.hpp"

#include <gtest/gtest.h>

namespace semel::effects {
namespace {

using namespace std::chrono_literals;

class Machine : public testing::Test {
protected:
    IntentMachine machine(Repeating repeating, bool lookup = false) { return {repeating, lookup, limits_, random_}; }

    template <class Expected>
    static Expected expect(Act act) {
        auto* found = std::get_if<Expected>(&act);
        if (found == nullptr) throw std::runtime_error("act number " + std::to_string(act.index()));
        return std::move(*found);
    }
    template <class Expected>
    static Expected answer(Act act) {
        Over over = expect<Over>(std::move(act));
        if (!over.answer) throw std::runtime_error(over.answer.failure().message);
        auto* found = std::get_if<Expected>(&*over.answer);
        if (found == nullptr) throw std::runtime_error("answer number " + std::to_string(over.answer->index()));
        return std::move(*found);
    }
    static Claimed granted(bool doubt = false) { return {.token = {7}, .doubt = doubt}; }
    static Result<HolderAnswer> ok(std::optional<State> state = std::nullopt) {
        return HolderAnswer{Ok{.state = state}};
    }

    Limits limits_{.calls_max = 3, .total = 60s, .backoff_first = 1s, .backoff_max = 4s};
    SeededRandom random_{1};
};

TEST_F(Machine, ClaimsCallsAndSettles) {
    auto m = machine(Repeating::never);
    expect<DoClaim>(m.begin());
    EXPECT_EQ(expect<DoCall>(m.claim_answered(ClaimAnswer{granted()}, 0s)).claimed.token.value, 7U);
    const auto settle = expect<DoSettle>(m.call_answered(Answered{{201, "receipt", true}, true}));
    EXPECT_EQ(settle.outcome.body, "receipt");
    const auto done = answer<Performed>(m.settle_answered(ok(State::settled), 1s));
    EXPECT_EQ(done.outcome.status, 201);
    EXPECT_FALSE(done.replayed);
}

TEST_F(Machine, AnOutcomeOfFourHundredAndAboveHasFailed) {
    for (const auto& [status, fails] : {std::pair{0, false}, {200, false}, {399, false}, {400, true}, {402, true}}) {
        auto m = machine(Repeating::never);
        (void)m.claim_answered(ClaimAnswer{granted()}, 0s);
        (void)m.call_answered(Answered{{status, "", true}, true});
        EXPECT_EQ(std::holds_alternative<Failed>(*expect<Over>(m.settle_answered(ok(State::settled), 0s)).answer),
                  fails)
            << status;
        auto replay = machine(Repeating::never);
        const Over over = expect<Over>(replay.claim_answered(ClaimAnswer{Replay{{status, "", true}, {}}}, 0s));
        EXPECT_EQ(std::holds_alternative<Failed>(*over.answer), fails) << status;
    }
}

TEST_F(Machine, WhatWasNotSentIsReleasedAndTriedAgainUntilTheLimit) {
    auto m = machine(Repeating::never);
    for (int i = 0; i < 3; ++i) {
        expect<DoCall>(m.claim_answered(ClaimAnswer{granted()}, 0s));
        expect<DoRelease>(m.call_answered(NotSent{"no route", std::nullopt}));
        Act next = m.release_answered(ok(), 0s);
        if (i == 2) {
            EXPECT_EQ(answer<NotPerformed>(std::move(next)).error, "no route");
            return;
        }
        const Duration pause = expect<DoWait>(std::move(next)).how_long;
        EXPECT_GE(pause, 500ms);
        EXPECT_LE(pause, 2s);
        expect<DoClaim>(m.waited(false));
    }
}

TEST_F(Machine, WaitsAsLongAsTheOtherSideAsksForAndNotBeyondItsTime) {
    auto m = machine(Repeating::never);
    (void)m.claim_answered(ClaimAnswer{granted()}, 0s);
    (void)m.call_answered(NotSent{"later", 20s});
    EXPECT_EQ(expect<DoWait>(m.release_answered(ok(), 0s)).how_long, Duration{20s});
    (void)m.waited(false);
    (void)m.claim_answered(ClaimAnswer{granted()}, 50s);
    (void)m.call_answered(NotSent{"later", 20s});
    EXPECT_EQ(answer<NotPerformed>(m.release_answered(ok(), 50s)).error, "later");
}

TEST_F(Machine, AtMostOnceIsNeverRepeated) {
    auto m = machine(Repeating::never);
    (void)m.claim_answered(ClaimAnswer{granted()}, 0s);
    expect<DoAbandon>(m.call_answered(InDoubt{"no answer", std::nullopt}));
    EXPECT_EQ(answer<OutcomeUnknown>(m.abandon_answered(ok(State::unknown), 0s)).why, "no answer");

    auto found = machine(Repeating::never);
    EXPECT_EQ(answer<OutcomeUnknown>(found.claim_answered(ClaimAnswer{Unknown{time_from_micros(5)}}, 0s)).since,
              time_from_micros(5));

    // Even when the lookup finds nothing: it may be late.
    auto looked = machine(Repeating::never, true);
    expect<DoLookUp>(looked.claim_answered(ClaimAnswer{Unknown{}}, 0s));
    (void)answer<OutcomeUnknown>(looked.lookup_answered(LookupAnswer{DidNotHappen{}}, 0s));
}

TEST_F(Machine, AProviderThatDeduplicatesIsAskedAgain) {
    auto m = machine(Repeating::deduplicated);
    (void)m.claim_answered(ClaimAnswer{granted()}, 0s);
    expect<DoAbandon>(m.call_answered(InDoubt{"no answer", std::nullopt}));
    expect<DoWait>(m.abandon_answered(ok(State::unknown), 0s));
    expect<DoClaim>(m.waited(false));
    EXPECT_TRUE(expect<DoCall>(m.claim_answered(ClaimAnswer{granted(true)}, 1s)).claimed.doubt);
    expect<DoSettle>(m.call_answered(Answered{{200, "", true}, true}));
    (void)answer<Performed>(m.settle_answered(ok(State::settled), 1s));
}

TEST_F(Machine, AnInconclusiveAnswerUnderDoubtLeavesItUnknown) {
    auto m = machine(Repeating::deduplicated);
    for (int i = 0; i < 3; ++i) {
        (void)m.claim_answered(ClaimAnswer{granted(true)}, 0s);
        EXPECT_FALSE(expect<DoSettle>(m.call_answered(Answered{{409, "", true}, false})).conclusive);
        Act next = m.settle_answered(ok(State::unknown), 0s);
        if (i == 2)
            (void)answer<OutcomeUnknown>(std::move(next));
        else
            expect<DoWait>(std::move(next));
        (void)m.waited(false);
    }
}

TEST_F(Machine, AReleaseUnderDoubtIsStillUnknown) {
    limits_.calls_max = 1;
    auto m = machine(Repeating::deduplicated);
    (void)m.claim_answered(ClaimAnswer{granted(true)}, 0s);
    (void)m.call_answered(NotSent{"no route", std::nullopt});
    (void)answer<OutcomeUnknown>(m.release_answered(ok(State::unknown), 0s));
}

TEST_F(Machine, TheLookupDecides) {
    auto happened = machine(Repeating::after_lookup, true);
    expect<DoLookUp>(happened.claim_answered(ClaimAnswer{Unknown{}}, 0s));
    EXPECT_EQ(
        expect<DoResolve>(happened.lookup_answered(LookupAnswer{Happened{{200, "paid", true}}}, 0s)).outcome->body,
        "paid");
    EXPECT_EQ(answer<Performed>(happened.resolve_answered(ok(State::settled), 0s)).outcome.body, "paid");

    auto did_not = machine(Repeating::after_lookup, true);
    (void)did_not.claim_answered(ClaimAnswer{Unknown{}}, 0s);
    EXPECT_FALSE(expect<DoResolve>(did_not.lookup_answered(LookupAnswer{DidNotHappen{}}, 0s)).outcome);
    expect<DoWait>(did_not.resolve_answered(ok(), 0s));
    expect<DoClaim>(did_not.waited(false));

    auto cannot = machine(Repeating::after_lookup, true);
    (void)cannot.claim_answered(ClaimAnswer{Unknown{}}, 0s);
    EXPECT_NE(answer<OutcomeUnknown>(cannot.lookup_answered(LookupAnswer{CannotTell{"down"}}, 0s)).why.find("down"),
              std::string::npos);
}

TEST_F(Machine, TheLookupIsAskedOnlyWhenNoCallCanStillBeUnderWay) {
    auto m = machine(Repeating::after_lookup, true);
    (void)m.claim_answered(ClaimAnswer{Unknown{}}, 0s);
    EXPECT_EQ(expect<DoWait>(m.lookup_answered(LookUpEarly{30s}, 0s)).how_long, Duration{30s});
    expect<DoClaim>(m.waited(false));
    (void)m.claim_answered(ClaimAnswer{Unknown{}}, 31s);
    (void)answer<OutcomeUnknown>(m.lookup_answered(LookUpEarly{30s}, 31s));
}

TEST_F(Machine, AFencedHolderIsToldSo) {
    for (int which = 0; which < 3; ++which) {
        auto m = machine(Repeating::deduplicated);
        (void)m.claim_answered(ClaimAnswer{granted()}, 0s);
        const Result<HolderAnswer> fenced = HolderAnswer{Fenced{}};
        Act act = Over{Performance{NotPerformed{}}};
        if (which == 0) {
            (void)m.call_answered(Answered{{200, "", true}, true});
            act = m.settle_answered(fenced, 0s);
        } else if (which == 1) {
            (void)m.call_answered(NotSent{});
            act = m.release_answered(fenced, 0s);
        } else {
            (void)m.call_answered(InDoubt{});
            act = m.abandon_answered(fenced, 0s);
        }
        (void)answer<Superseded>(std::move(act));
    }
}

TEST_F(Machine, AnotherHolderIsWaitedForAsLongAsTheLimitSays) {
    limits_.busy_wait = 10s;
    auto m = machine(Repeating::never);
    expect<DoWait>(m.claim_answered(ClaimAnswer{Busy{5s}}, 9s));
    expect<DoClaim>(m.waited(false));
    EXPECT_EQ(answer<Busy>(m.claim_answered(ClaimAnswer{Busy{5s}}, 10s)).retry_after, Duration{5s});
}

TEST_F(Machine, StoppingSaysWhatIsKnown) {
    auto m = machine(Repeating::deduplicated);
    (void)m.claim_answered(ClaimAnswer{granted()}, 0s);
    (void)m.call_answered(InDoubt{"no answer", std::nullopt});
    (void)m.abandon_answered(ok(State::unknown), 0s);
    (void)answer<OutcomeUnknown>(m.waited(true));

    auto nothing = machine(Repeating::deduplicated);
    (void)nothing.claim_answered(ClaimAnswer{granted()}, 0s);
    (void)nothing.call_answered(NotSent{"no route", std::nullopt});
    (void)nothing.release_answered(ok(), 0s);
    (void)answer<NotPerformed>(nothing.waited(true));
}

TEST_F(Machine, WhatSomebodyElseResolvedIsNotCalledNotPerformed) {
    // It is settled by now, perhaps as happened: only the next claim would tell.
    for (const bool stopped : {true, false}) {
        auto m = machine(Repeating::after_lookup, true);
        (void)m.claim_answered(ClaimAnswer{Unknown{}}, 0s);
        expect<DoWait>(m.lookup_answered(LookUpNeedless{}, 0s));
        Act next = m.waited(stopped);
        if (!stopped) {
            expect<DoClaim>(std::move(next));
            next = m.claim_answered(Failure{Code::unavailable, "gone"}, 0s);
        }
        (void)answer<OutcomeUnknown>(std::move(next));
    }
}

TEST_F(Machine, AFailingStoreSaysWhetherSomethingWasSent) {
    auto before = machine(Repeating::never);
    EXPECT_EQ(expect<Over>(before.claim_answered(Failure{Code::unavailable, "gone"}, 0s)).answer.failure().code,
              Code::unavailable);
    auto after = machine(Repeating::never);
    (void)after.claim_answered(ClaimAnswer{granted()}, 0s);
    (void)after.call_answered(Answered{{200, "", true}, true});
    EXPECT_EQ(expect<Over>(after.settle_answered(Failure{Code::unavailable, "gone"}, 0s)).answer.failure().code,
              Code::indeterminate);
}

TEST(HttpReply, OnlySuccessIsAReceiptAndOnlyARefusalAFailure) {
    const auto judged = [](std::int32_t status) -> std::string {
        const Reply reply = http_reply(status, "");
        if (std::holds_alternative<NotSent>(reply)) return "not sent";
        if (std::holds_alternative<InDoubt>(reply)) return "in doubt";
        const auto& answered = std::get<Answered>(reply);
        return std::string(failed(answered.outcome) ? "failed" : "done") + (answered.conclusive ? ", conclusive" : "");
    };
    for (std::int32_t status = 100; status < 600; ++status) {
        std::string expected = "in doubt";
        if (status >= 200 && status < 300) expected = "done, conclusive";
        if (status >= 400 && status < 500 && status != 408) expected = "failed";
        if (status == 401 || status == 425 || status == 429) expected = "not sent";
        EXPECT_EQ(judged(status), expected) << status;
    }
}

}  // namespace
}  // namespace semel::effects
