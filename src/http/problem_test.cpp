#include "http/problem.hpp"

#include "base/json.hpp"

#include <gtest/gtest.h>

#include <set>

namespace semel::http {
namespace {

using std::chrono::milliseconds;

std::string json(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

TEST(Problem, IsADocumentWithAStableType) {
    const auto busy =
        answer(Problem::in_progress, {.detail = "claimed 2 s ago", .key = "k1", .retry_after = milliseconds(1200)});
    EXPECT_EQ(busy.status, 409);
    EXPECT_EQ(
        busy.body,
        "{\"type\":\"urn:semel:problem:in-progress\",\"title\":\"A request with this key is still being processed\","
        "\"status\":409,\"detail\":\"claimed 2 s ago\",\"retryable\":true,\"key\":\"k1\"}\n");
    EXPECT_EQ(busy.retry_after, "2");
    const auto bare = answer(Problem::key_missing);
    EXPECT_EQ(bare.body,
              "{\"type\":\"urn:semel:problem:key-missing\",\"title\":\"This operation needs an idempotency key\","
              "\"status\":400,\"retryable\":false}\n");
    EXPECT_EQ(bare.retry_after, "");
}

TEST(Problem, MayHaveMembersOfItsOwn) {
    EXPECT_EQ(
        answer(Problem::fenced, {.more = "\"answer\":\"fenced\""}).body,
        "{\"type\":\"urn:semel:problem:fenced\",\"title\":\"Somebody else holds the operation by now; nothing was "
        "changed\",\"status\":409,\"retryable\":false,\"answer\":\"fenced\"}\n");
}

TEST(Problem, HasTheStatusAndTheRetryableThatClientsBuildOn) {
    const struct {
        Problem problem;
        std::string_view slug;
        int status;
        bool retryable;
    } rows[] = {{Problem::key_missing, "key-missing", 400, false},
                {Problem::key_invalid, "key-invalid", 400, false},
                {Problem::in_progress, "in-progress", 409, true},
                {Problem::outcome_unknown, "outcome-unknown", 409, false},
                {Problem::outcome_not_retained, "outcome-not-retained", 409, false},
                {Problem::fenced, "fenced", 409, false},
                {Problem::already_settled, "already-settled", 409, false},
                {Problem::too_early, "too-early", 409, true},
                {Problem::key_expired, "key-expired", 410, false},
                {Problem::request_too_large, "request-too-large", 413, false},
                {Problem::key_reused, "key-reused", 422, false},
                {Problem::withheld, "withheld", 424, false},
                {Problem::quota, "quota", 429, true},
                {Problem::upstream_unreachable, "upstream-unreachable", 502, true},
                {Problem::upstream_failed, "upstream-failed", 502, false},
                {Problem::upstream_timeout, "upstream-timeout", 504, false},
                {Problem::store_unavailable, "store-unavailable", 503, true}};
    for (const auto& row : rows) {
        EXPECT_EQ(kind(row.problem).slug, row.slug);
        EXPECT_EQ(kind(row.problem).status, row.status) << row.slug;
        EXPECT_EQ(kind(row.problem).retryable, row.retryable) << row.slug;
    }
    std::set<std::string_view> slugs;
    for (int i = 0; i < problems; ++i) {
        EXPECT_TRUE(slugs.insert(kind(static_cast<Problem>(i)).slug).second);
        EXPECT_FALSE(kind(static_cast<Problem>(i)).title.empty());
    }
}

TEST(Problem, AnOccurrenceMaySayOtherThanItsTable) {
    const auto refused = answer(Problem::request_malformed, {.status = 431});
    EXPECT_EQ(refused.status, 431);
    EXPECT_NE(refused.body.find("\"status\":431"), std::string::npos);
    const auto tombstone = answer(Problem::outcome_not_retained, {.key = "k", .outcome_status = 201});
    EXPECT_TRUE(tombstone.body.ends_with("\"key\":\"k\",\"outcome_status\":201}\n")) << tombstone.body;
    EXPECT_NE(answer(Problem::upstream_failed, {.retryable = true}).body.find("\"retryable\":true"), std::string::npos);
}

TEST(Problem, RetryAfterIsAtLeastASecond) {
    const auto after = [](int ms) { return answer(Problem::quota, {.retry_after = milliseconds(ms)}).retry_after; };
    EXPECT_EQ(after(0), "1");
    EXPECT_EQ(after(-5), "1");
    EXPECT_EQ(after(1000), "1");
    EXPECT_EQ(after(1001), "2");
    EXPECT_EQ(after(90000), "90");
}

TEST(Problem, AnyKeyIsEscaped) {
    EXPECT_EQ(json(R"(a"b\c)"), R"("a\"b\\c")");
    EXPECT_EQ(json(std::string_view("\0\n\x1f\x7f", 4)), R"("\u0000\u000a\u001f\u007f")");
    EXPECT_EQ(json("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    EXPECT_EQ(json("\xff|\xc3|\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80"),
              R"("\ufffd|\ufffd|\ufffd\ufffd|\ufffd\ufffd\ufffd|\ufffd\ufffd\ufffd\ufffd")");
    EXPECT_EQ(json("\xe2\x82"), R"("\ufffd\ufffd")");
    EXPECT_EQ(json("</script>"), "\"</script>\"");
}

}  // namespace
}  // namespace semel::http
