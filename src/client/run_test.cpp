#include "client/run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

namespace semel::client {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

const HttpEnd not_sent = HttpNotSent{"not sent: nobody is there"};
const HttpEnd reset = HttpNoAnswer{HttpNoAnswer::Why::broken, "no answer: reset"};
HttpEnd answer(int status, std::vector<HttpField> fields = {}) {
    return HttpAnswer{.status = status, .fields = std::move(fields)};
}

/// A server that ends tries as the script says, the last entry for ever; nobody sleeps.
struct Script {
    std::deque<HttpEnd> ends;
    RetryRules rules{};
    Duration each_takes{};
    std::uint32_t stop_after = 1'000'000;  ///< so many tries
    ManualClock clock{};
    SeededRandom random{1};
    std::vector<Duration> timeouts{};
    std::vector<Duration> waits{};

    Ran play(bool doubt = false) {
        const World world{.clock = clock,
                          .random = random,
                          .call =
                              [this](Duration timeout) {
                                  timeouts.push_back(timeout);
                                  clock.advance(std::min(each_takes, timeout));
                                  HttpEnd end = ends.front();
                                  if (ends.size() > 1) ends.pop_front();
                                  return end;
                              },
                          .wait =
                              [this](Duration wait) {
                                  waits.push_back(wait);
                                  clock.advance(wait);
                              },
                          .stopped = [this] { return timeouts.size() >= stop_after; }};
        return run(rules, seconds{30}, doubt, world);
    }
};

TEST(ClientRun, OneTryIsEnoughWhenItIsAnswered) {
    Script script{.ends = {answer(201)}};
    const Ran ran = script.play();
    EXPECT_EQ(std::get<Succeeded>(ran.outcome).answer.status, 201);
    EXPECT_EQ(ran.tries, 1u);
    EXPECT_TRUE(script.waits.empty());
    EXPECT_THAT(script.timeouts, ElementsAre(seconds{30}));
}

TEST(ClientRun, TriesUntilThereIsAFinalAnswer) {
    Script script{.ends = {not_sent, reset, answer(503), answer(429), answer(201)}};
    const Ran ran = script.play();
    EXPECT_TRUE(std::holds_alternative<Succeeded>(ran.outcome));
    EXPECT_EQ(ran.tries, 5u);
    EXPECT_EQ(script.waits.size(), 4u);
    for (std::size_t i = 0; i < script.waits.size(); ++i) EXPECT_LE(script.waits[i], milliseconds{500} * (1 << i));
}

TEST(ClientRun, WaitsAsLongAsTheServerAsks) {
    Script script{.ends = {answer(503, {{"Retry-After", "77"}}), answer(201)}};
    EXPECT_EQ(script.play().tries, 2u);
    EXPECT_THAT(script.waits, ElementsAre(seconds{77}));
}

TEST(ClientRun, GivesUpAtOnceIfItIsAskedToWaitBeyondTheBudget) {
    Script script{.ends = {answer(503, {{"Retry-After", "3600"}})}};
    const Ran ran = script.play();
    EXPECT_EQ(ran.tries, 1u);
    EXPECT_TRUE(script.waits.empty());
    EXPECT_EQ(std::get<GaveUp>(ran.outcome).why, "the server asks to wait 1h, beyond the budget of 10m");
    EXPECT_EQ(std::get<GaveUp>(ran.outcome).last, "answered 503");
}

TEST(ClientRun, TheBudgetEndsItAndIsNotExceeded) {
    for (const Duration takes : {Duration{seconds{0}}, Duration{seconds{25}}, Duration{hours{1}}}) {
        Script script{.ends = {reset}, .rules = {.budget = minutes{2}}, .each_takes = takes};
        const auto began = script.clock.steady();
        const Ran ran = script.play();
        EXPECT_LE(script.clock.steady() - began, minutes{2});
        EXPECT_GT(ran.tries, 1u);
        EXPECT_EQ(std::get<GaveUp>(ran.outcome).why, "the budget of 2m is used up");
    }
}

TEST(ClientRun, TheLastTryGetsWhatIsLeft) {
    Script script{.ends = {reset},
                  .rules = {.budget = seconds{50}, .backoff_first = {}, .backoff_max = {}},
                  .each_takes = hours{1}};
    script.play();
    EXPECT_THAT(script.timeouts, ElementsAre(seconds{30}, seconds{20}));
}

TEST(ClientRun, TriesAreCounted) {
    Script script{.ends = {reset}, .rules = {.tries_max = 3}};
    const Ran ran = script.play();
    EXPECT_EQ(ran.tries, 3u);
    EXPECT_EQ(std::get<GaveUp>(ran.outcome).why, "3 tries are used up");
    EXPECT_EQ(script.waits.size(), 2u);
}

TEST(ClientRun, SaysWhetherAnyTryMayHaveBeenExecuted) {
    const struct {
        std::deque<HttpEnd> ends;
        bool doubt_before;
        bool doubt;
    } rows[] = {
        {{not_sent}, false, false}, {{answer(429)}, false, false},    {{not_sent, answer(425)}, false, false},
        {{not_sent}, true, true},   {{reset, not_sent}, false, true}, {{answer(503), answer(429)}, false, true}};
    for (const auto& row : rows) {
        Script script{.ends = row.ends, .rules = {.tries_max = 2}};
        const Ran ran = script.play(row.doubt_before);
        EXPECT_EQ(std::get<GaveUp>(ran.outcome).may_have_executed, row.doubt);
        EXPECT_EQ(ran.doubt, row.doubt);
    }
}

TEST(ClientRun, ARefusalDoesNotSayWhatBecameOfEarlierTries) {
    const struct {
        std::deque<HttpEnd> ends;
        bool told;   // in the outcome
        bool doubt;  // afterwards
    } rows[] = {{{answer(400)}, false, true},
                {{answer(401)}, false, false},
                {{reset, answer(401)}, true, true},
                {{not_sent, answer(401)}, false, false},
                {{reset, answer(402, {{"Idempotent-Replayed", "true"}})}, false, true}};
    for (const auto& row : rows) {
        Script script{.ends = row.ends};
        const Ran ran = script.play();
        EXPECT_EQ(std::get<Refused>(ran.outcome).doubt, row.told);
        EXPECT_EQ(ran.doubt, row.doubt);
    }
}

TEST(ClientRun, StopsWhenAsked) {
    Script before{.ends = {answer(201)}, .stop_after = 0};
    const Ran none = before.play();
    EXPECT_EQ(none.tries, 0u);
    EXPECT_EQ(std::get<GaveUp>(none.outcome), (GaveUp{false, "it was asked to stop", ""}));

    Script during{.ends = {HttpNoAnswer{HttpNoAnswer::Why::stopped, "no answer: stopped"}}, .stop_after = 1};
    const Ran one = during.play();
    EXPECT_EQ(std::get<GaveUp>(one.outcome), (GaveUp{true, "it was asked to stop", "no answer: stopped"}));
    EXPECT_TRUE(during.waits.empty());

    Script answered{.ends = {answer(201)}, .stop_after = 1};
    EXPECT_TRUE(std::holds_alternative<Succeeded>(answered.play().outcome)) << "an answer that came is an answer";
}

}  // namespace
}  // namespace semel::client
