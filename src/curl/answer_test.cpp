#include "curl/answer.hpp"

#include <gtest/gtest.h>

namespace semel {
namespace {

using std::chrono::seconds;

TEST(HttpAnswer, SaysWhetherItWasGivenBefore) {
    const struct {
        std::string_view name;
        std::string_view value;
        bool replayed;
    } rows[] = {{"Idempotent-Replayed", "true", true}, {"idempotent-replayed", "True", true},
                {"Idempotent-Replayed", "?1", true},   {"Idempotent-Replayed", "false", false},
                {"Idempotent-Replayed", "", false},    {"Idempotency-Replayed", "true", false}};
    for (const auto& row : rows)
        EXPECT_EQ(is_replayed({.fields = {{std::string(row.name), std::string(row.value)}}}), row.replayed)
            << row.name << ": " << row.value;
    EXPECT_FALSE(is_replayed({}));
}

TEST(HttpAnswer, RetryAfterIsSecondsOrADate) {
    const TimePoint now = time_from_micros(784'111'777'000'000);  // Sun, 06 Nov 1994 08:49:37 GMT
    const struct {
        std::string value;
        std::optional<Duration> wait;
    } rows[] = {{"120", seconds{120}},
                {"0", seconds{0}},
                {"Sun, 06 Nov 1994 08:50:07 GMT", seconds{30}},
                {"Sunday, 06-Nov-94 08:50:07 GMT", seconds{30}},
                {"Sun Nov  6 08:50:07 1994", seconds{30}},
                {"Sun, 06 Nov 1994 08:49:36 GMT", seconds{0}},
                {"99999999999999999999999", seconds{366L * 24 * 3600}},
                {"Fri, 31 Dec 9999 23:59:59 GMT", seconds{366L * 24 * 3600}},
                {"Fri, 31 Dec 1999999999 23:59:59 GMT", seconds{366L * 24 * 3600}},
                {"Fri, 31 Dec 586523 23:59:59 GMT", seconds{366L * 24 * 3600}},
                {"", std::nullopt},
                {"-5", std::nullopt},
                {"1.5", std::nullopt},
                {"soon", std::nullopt}};
    for (const auto& row : rows)
        EXPECT_EQ(retry_after({.fields = {{"retry-after", row.value}}}, now), row.wait) << row.value;
    EXPECT_EQ(retry_after({}, now), std::nullopt);
}

TEST(HttpAnswer, APieceOfAProblemIsNone) {
    HttpAnswer answer{.status = 409,
                      .fields = {{"Content-Type", "application/problem+json"}},
                      .body = R"({"type":"urn:semel:problem:in-progress"})"};
    EXPECT_TRUE(read_problem(answer).has_value());
    answer.whole = false;
    EXPECT_EQ(read_problem(answer), std::nullopt);
}

TEST(HttpAnswer, ReadsProblemsOfSemelsOnly) {
    const std::string_view json = "application/problem+json";
    EXPECT_EQ(read_problem(json, R"({"type":"urn:semel:problem:in-progress","retryable":true})"),
              (SemelProblem{"in-progress", true, {}}));
    EXPECT_EQ(read_problem("Application/Problem+JSON; charset=utf-8",
                           R"({"outcome_status":201,"type":"urn:semel:problem:outcome-not-retained"})"),
              (SemelProblem{"outcome-not-retained", false, 201}));
    EXPECT_EQ(read_problem(json, R"({"type":"urn:semel:problem:x","outcome_status":7,"retryable":"true"})"),
              (SemelProblem{"x", false, {}}));
    for (const std::string_view body : {"", "{", "[]", "{}", R"({"type":"about:blank"})", R"({"type":7})",
                                        R"({"type":"urn:semel:problem:"})", R"({"type":"urn:semel:problem:a b"})",
                                        R"({"type":"urn:semel:problem:in-progress","type":"urn:semel:problem:quota"})"})
        EXPECT_EQ(read_problem(json, body), std::nullopt) << body;
    EXPECT_EQ(read_problem("application/json", R"({"type":"urn:semel:problem:in-progress"})"), std::nullopt);
}

}  // namespace
}  // namespace semel
