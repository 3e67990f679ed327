#include "relay/verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace semel::relay {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using How = DeliveryEnd::How;

enum class Is { settle, retry_surely_not_executed, retry_in_doubt, pause, dead_letter, park };

Is kind(const Verdict& verdict) {
    if (const auto* retry = std::get_if<Retry>(&verdict))
        return retry->surely_not_executed ? Is::retry_surely_not_executed : Is::retry_in_doubt;
    if (std::holds_alternative<Settle>(verdict)) return Is::settle;
    if (std::holds_alternative<Pause>(verdict)) return Is::pause;
    if (std::holds_alternative<DeadLetter>(verdict)) return Is::dead_letter;
    return Is::park;
}

std::string why(const Verdict& verdict) {
    if (const auto* retry = std::get_if<Retry>(&verdict)) return retry->why;
    if (const auto* pause = std::get_if<Pause>(&verdict)) return pause->why;
    if (const auto* dead = std::get_if<DeadLetter>(&verdict)) return dead->why;
    if (const auto* park = std::get_if<Park>(&verdict)) return park->why;
    return "";
}

DeliveryEnd answered(int status) { return {.how = How::answered, .status = status}; }

DeliveryEnd with_problem(int status, std::string slug, bool retryable, std::optional<int> outcome = {}) {
    return {.how = How::answered, .status = status, .problem = SemelProblem{std::move(slug), retryable, outcome}};
}

/// The design's rule for an endpoint that declares nothing, by enumeration of what differs.
Is expected(int status, bool doubt) {
    if (status < 300) return Is::settle;
    for (const int each : {425, 429})
        if (status == each) return Is::retry_surely_not_executed;
    if (status == 408) return Is::retry_in_doubt;
    for (const int each : {401, 403, 404, 301, 307, 308})
        if (status == each) return Is::pause;
    if (status >= 400 && status < 500) return doubt ? Is::park : Is::dead_letter;
    return Is::park;
}

TEST(RelayVerdict, OfEveryStatusWithAndWithoutDoubt) {
    for (const bool doubt : {false, true})
        for (int status = 200; status <= 599; ++status)
            EXPECT_EQ(kind(verdict({}, {.doubt = doubt}, answered(status))), expected(status, doubt))
                << status << (doubt ? " under doubt" : "");
}

TEST(RelayVerdict, SettlesWithTheStatus) {
    EXPECT_EQ(verdict({}, {}, answered(202)), Verdict(Settle{202}));
    EXPECT_EQ(std::get<DeadLetter>(verdict({}, {}, answered(422))).status, 422);
}

TEST(RelayVerdict, WithoutAnAnswerOnlyWhatWasNotSentIsSurelyNotExecuted) {
    for (const bool doubt : {false, true}) {
        const Before before{.doubt = doubt};
        EXPECT_EQ(kind(verdict({}, before, {.how = How::not_sent})), Is::retry_surely_not_executed);
        EXPECT_EQ(kind(verdict({}, before, {.how = How::timeout})), Is::park);
        EXPECT_EQ(kind(verdict({}, before, {.how = How::broken})), Is::park);
    }
}

TEST(RelayVerdict, UnknownRepeatsOnlyWithinTheDeclaredWindow) {
    const EndpointRules rules{.deduplicates = hours{24}};
    const DeliveryEnd ends[] = {{.how = How::timeout}, {.how = How::broken}, answered(500), answered(502),
                                answered(503),         answered(302),        answered(303), answered(599)};
    for (const DeliveryEnd& end : ends) {
        for (const bool doubt : {false, true}) {
            EXPECT_EQ(kind(verdict({}, {.doubt = doubt}, end)), Is::park);
            EXPECT_EQ(kind(verdict(rules, {.doubt = doubt}, end)), Is::retry_in_doubt);
            EXPECT_EQ(kind(verdict(rules, {doubt, hours{24} - seconds{1}}, end)), Is::retry_in_doubt);
            EXPECT_EQ(kind(verdict(rules, {doubt, hours{24}}, end)), Is::park);
        }
    }
    EXPECT_THAT(why(verdict({}, {}, answered(500))), HasSubstr("to.deduplicates"));
    EXPECT_THAT(why(verdict(rules, {false, hours{25}}, answered(500))), HasSubstr("is over"));
}

TEST(RelayVerdict, DeclaredStatusesRetryWhateverTheyAre) {
    const EndpointRules rules{.retry_on = {404, 503}};
    for (const bool doubt : {false, true})
        for (const int status : {404, 503})
            EXPECT_EQ(kind(verdict(rules, {.doubt = doubt}, answered(status))), Is::retry_surely_not_executed)
                << status;
    EXPECT_EQ(kind(verdict(rules, {}, answered(502))), Is::park);
    EXPECT_EQ(kind(verdict(rules, {}, answered(403))), Is::pause);
}

TEST(RelayVerdict, AReplayedAnswerIsFinal) {
    const EndpointRules rules{.retry_on = {503}, .deduplicates = hours{24}};
    for (const bool doubt : {false, true}) {
        for (int status = 200; status <= 599; ++status) {
            DeliveryEnd end = answered(status);
            end.replayed = true;
            end.retry_after = seconds{1};
            EXPECT_EQ(kind(verdict(rules, {.doubt = doubt}, end)), status < 300 ? Is::settle : Is::dead_letter)
                << status;
        }
    }
}

TEST(RelayVerdict, AConflictThatNamesATimeIsTriedAgain) {
    DeliveryEnd conflict = answered(409);
    EXPECT_EQ(kind(verdict({}, {}, conflict)), Is::dead_letter);
    conflict.retry_after = seconds{3};
    EXPECT_EQ(kind(verdict({}, {}, conflict)), Is::retry_in_doubt);
}

TEST(RelayVerdict, AProblemOfSemelsSaysMoreThanItsStatus) {
    const struct {
        DeliveryEnd end;
        Is wanted, under_doubt;
    } rows[] = {
        {with_problem(409, "in-progress", true), Is::retry_in_doubt, Is::retry_in_doubt},
        {with_problem(409, "outcome-unknown", false), Is::park, Is::park},
        {with_problem(409, "outcome-not-retained", false, 201), Is::settle, Is::settle},
        {with_problem(409, "outcome-not-retained", false, 422), Is::dead_letter, Is::dead_letter},
        {with_problem(409, "outcome-not-retained", false), Is::dead_letter, Is::park},
        {with_problem(410, "key-expired", false), Is::dead_letter, Is::park},
        {with_problem(422, "key-reused", false), Is::dead_letter, Is::park},
        {with_problem(429, "quota", true), Is::retry_surely_not_executed, Is::retry_surely_not_executed},
        {with_problem(503, "overloaded", true), Is::retry_surely_not_executed, Is::retry_surely_not_executed},
        {with_problem(503, "store-unavailable", true), Is::retry_in_doubt, Is::retry_in_doubt},
        {with_problem(502, "upstream-unreachable", true), Is::retry_surely_not_executed, Is::retry_surely_not_executed},
        {with_problem(502, "upstream-failed", false), Is::park, Is::park},
        {with_problem(401, "tenant-missing", false), Is::pause, Is::pause},
        {with_problem(200, "outcome-unknown", false), Is::settle, Is::settle},
    };
    for (const auto& row : rows) {
        EXPECT_EQ(kind(verdict({}, {}, row.end)), row.wanted) << row.end.problem->slug;
        EXPECT_EQ(kind(verdict({}, {.doubt = true}, row.end)), row.under_doubt) << row.end.problem->slug;
    }
}

TEST(RelayVerdict, RetryAfterIsHonouredWithinItsLimit) {
    const EndpointRules rules{.retry_after_max = minutes{2}};
    const struct {
        std::optional<Duration> asked, given;
    } rows[] = {{{}, {}},
                {seconds{0}, seconds{0}},
                {seconds{7}, seconds{7}},
                {hours{10000}, minutes{2}},
                {seconds{-5}, seconds{0}}};
    for (const auto& row : rows) {
        DeliveryEnd end = answered(429);
        end.retry_after = row.asked;
        EXPECT_EQ(std::get<Retry>(verdict(rules, {}, end)).after, row.given);
    }
}

}  // namespace
}  // namespace semel::relay
