#include "client/decision.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "semel/ledger.hpp"

namespace semel::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint now = time_from_micros(784'111'777'000'000);  // Sun, 06 Nov 1994 08:49:37 GMT

HttpAnswer answer(int status, std::string_view slug = {}, std::vector<HttpField> more = {}) {
    HttpAnswer made{.status = status, .fields = std::move(more)};
    if (slug.empty()) return made;
    made.fields.push_back({"Content-Type", "application/problem+json"});
    made.body = R"({"type":"urn:semel:problem:)" + std::string(slug) + R"(","outcome_status":201})";
    return made;
}

HttpAnswer replayed(int status) { return answer(status, {}, {{"Idempotent-Replayed", "true"}}); }

/// `again`, `again, not executed`, `succeeded`…
std::string told(const Decision& decision) {
    return std::visit(
        match{[](const Again& again) -> std::string {
                  return again.surely_not_executed ? "again, not executed" : "again";
              },
              [](const Succeeded& end) -> std::string { return end.replayed ? "succeeded before" : "succeeded"; },
              [](const NotRetained& end) -> std::string {
                  return "not retained " + std::to_string(end.status.value_or(0));
              },
              [](const Refused& end) -> std::string { return end.replayed ? "refused before" : "refused"; },
              [](const OutcomeUnknown&) -> std::string { return "unknown"; }},
        decision);
}

TEST(ClientDecision, IsATable) {
    using Why = HttpNoAnswer::Why;
    const struct {
        HttpEnd end;
        std::string_view decision;
    } rows[] = {{HttpNotSent{"refused"}, "again, not executed"},
                {HttpNoAnswer{Why::timeout, "late"}, "again"},
                {HttpNoAnswer{Why::broken, "reset"}, "again"},
                {answer(200), "succeeded"},
                {answer(201), "succeeded"},
                {answer(204), "succeeded"},
                {answer(301), "refused"},
                {answer(304), "refused"},
                {answer(400), "refused"},
                {answer(400, "key-missing"), "refused"},
                {answer(401), "refused"},
                {answer(404), "refused"},
                {answer(408), "again"},
                {answer(409), "again"},
                {answer(409, "", {{"Retry-After", "1"}}), "again"},
                {answer(409, "other"), "refused"},
                {answer(409, "in-progress"), "again"},
                {answer(409, "outcome-unknown"), "unknown"},
                {answer(409, "outcome-not-retained"), "not retained 201"},
                {answer(410, "key-expired"), "refused"},
                {answer(422, "key-reused"), "refused"},
                {answer(425), "again, not executed"},
                {answer(429), "again, not executed"},
                {answer(429, "quota"), "again, not executed"},
                {answer(500), "again"},
                {answer(502), "again"},
                {answer(502, "upstream-unreachable"), "again, not executed"},
                {answer(502, "upstream-failed"), "again"},
                {answer(503), "again"},
                {answer(503, "overloaded"), "again, not executed"},
                {answer(503, "store-unavailable"), "again"},
                {answer(504), "again"},
                {replayed(201), "succeeded before"},
                {replayed(402), "refused before"},
                {replayed(429), "refused before"},
                {replayed(500), "refused before"},
                {replayed(503), "refused before"}};
    for (const auto& row : rows) {
        const auto* const given = std::get_if<HttpAnswer>(&row.end);
        EXPECT_EQ(told(decide(row.end, now)), row.decision) << (given == nullptr ? 0 : given->status);
    }
}

TEST(ClientDecision, AnAnswerComesWhole) {
    const HttpAnswer given{.status = 201, .fields = {{"Location", "/p/1"}}, .body = "made", .whole = false};
    EXPECT_EQ(std::get<Succeeded>(decide(given, now)).answer, given);
}

TEST(ClientDecision, RetryAfterIsPassedOn) {
    const struct {
        std::string value;
        std::optional<Duration> after;
    } rows[] = {{"7", seconds{7}}, {"Sun, 06 Nov 1994 08:49:47 GMT", seconds{10}}, {"soon", std::nullopt}};
    for (const auto& row : rows)
        for (const HttpAnswer& each :
             {answer(503, {}, {{"Retry-After", row.value}}), answer(409, {}, {{"Retry-After", row.value}}),
              answer(409, "in-progress", {{"Retry-After", row.value}})})
            EXPECT_EQ(std::get<Again>(decide(each, now)).after, row.after) << row.value;
}

TEST(ClientDecision, SaysWhatTheLastTryCameTo) {
    EXPECT_EQ(std::get<Again>(decide(answer(503), now)).why, "answered 503");
    EXPECT_EQ(std::get<Again>(decide(answer(409, "in-progress"), now)).why, "answered 409 in-progress");
    EXPECT_EQ(std::get<Again>(decide(HttpNotSent{"not sent: x"}, now)).why, "not sent: x");
}

TEST(ClientDecision, WhatTheWorldCanStillChangeIsNotTheEnd) {
    const struct {
        Outcome outcome;
        bool settled;
    } rows[] = {{Succeeded{answer(200)}, true},
                {NotRetained{}, true},
                {Refused{answer(400)}, true},
                {Refused{answer(402)}, true},
                {Refused{answer(409, "other")}, true},
                {Refused{answer(410)}, true},
                {Refused{answer(422)}, true},
                {Refused{answer(301)}, false},
                {Refused{answer(401)}, false},
                {Refused{answer(403)}, false},
                {Refused{answer(404)}, false},
                {Refused{answer(407)}, false},
                {Refused{answer(400), false, true}, false},
                {Refused{answer(422, "key-reused"), false, true}, false},
                {Refused{answer(401), true}, true},
                {Refused{answer(500), true}, true},
                {OutcomeUnknown{answer(409)}, false},
                {GaveUp{.may_have_executed = false}, false}};
    for (const auto& row : rows) EXPECT_EQ(is_settled(row.outcome), row.settled) << row.outcome.index();
}

TEST(ClientDecision, WaitsAreRandomUpToALimitThatDoubles) {
    const RetryRules rules{.backoff_first = milliseconds{500}, .backoff_max = seconds{30}};
    const struct {
        std::uint32_t tries;
        Duration limit;
    } rows[] = {{1, milliseconds{500}}, {2, seconds{1}},  {3, seconds{2}},    {6, seconds{16}},
                {7, seconds{30}},       {8, seconds{30}}, {100, seconds{30}}, {4'000'000'000, seconds{30}}};
    for (const auto& row : rows) {
        SeededRandom random(row.tries);
        Duration least = Duration::max();
        Duration most = Duration::zero();
        for (int i = 0; i < 1000; ++i) {
            const Duration wait = wait_after(rules, row.tries, {}, random);
            least = std::min(least, wait);
            most = std::max(most, wait);
        }
        EXPECT_LE(most, row.limit) << row.tries;
        EXPECT_GT(most, row.limit * 9 / 10) << row.tries;
        EXPECT_LT(least, row.limit / 10) << row.tries;
    }
    SeededRandom random(1);
    EXPECT_EQ(wait_after({.backoff_first = {}, .backoff_max = {}}, 5, {}, random), Duration::zero());
}

TEST(ClientDecision, AWaitIsNeverShorterThanTheServerAskedFor) {
    SeededRandom random(1);
    EXPECT_EQ(wait_after({}, 1, seconds{7}, random), seconds{7});
    EXPECT_EQ(wait_after({}, 1, std::chrono::hours{7}, random), std::chrono::hours{7});
    EXPECT_GE(wait_after({}, 20, milliseconds{1}, random), milliseconds{1});
}

}  // namespace
}  // namespace semel::client
