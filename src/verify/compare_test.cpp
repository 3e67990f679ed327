#include "verify/compare.hpp"

#include <gtest/gtest.h>

namespace semel::verify {
namespace {

Response response(int status, std::vector<Header> fields, std::string body) {
    return {.status = status, .fields = std::move(fields), .body = std::move(body)};
}

const Response first = response(201, {{"Date", "Mon"}, {"Content-Type", "text/plain"}, {"Set-Cookie", "a=1"}}, "body");

TEST(VerifyCompare, ReplaysMayDifferInWhatIsNotTheAnswer) {
    const auto again = response(201,
                                {{"date", "Tue"},
                                 {"content-type", "text/plain"},
                                 {"Idempotent-Replayed", "true"},
                                 {"X-Request-Id", "7"},
                                 {"Connection", "close"}},
                                "body");
    EXPECT_FALSE(differing_answer(first, again));
    EXPECT_FALSE(unclean_replay(first, again));
}

TEST(VerifyCompare, ReplaysAreTheAnswerByteForByte) {
    struct Row {
        Response again;
        std::string_view reason;
    };
    const std::vector<Header> plain{{"Content-Type", "text/plain"}};
    for (const Row& row : {
             Row{response(200, plain, "body"), "the first try was answered 201, its retry 200"},
             Row{response(201, plain, ""), "the replay's body is empty"},
             Row{response(201, plain, "boDy"), "the replay's body differs from byte 3 on"},
             Row{response(201, plain, "body "), "the replay's body differs from byte 5 on"},
             Row{response(201, {}, "body"), "the replay's Content-Type differs"},
         }) {
        const auto failed = differing_answer(first, row.again);
        ASSERT_TRUE(failed) << row.reason;
        EXPECT_EQ(failed->reason, row.reason);
    }
}

TEST(VerifyCompare, ReplaysHoldNothingPersonal) {
    struct Row {
        std::vector<Header> fields;
        std::string_view reason;
    };
    for (const Row& row : {
             Row{{{"Set-Cookie", "a=1"}}, "the replay sets the first caller's cookie again"},
             Row{{{"WWW-Authenticate", "Basic"}}, "the replay has WWW-Authenticate"},
             Row{{{"authorization", "Bearer x"}}, "the replay has Authorization"},
             Row{{{"TE", "trailers"}}, "the replay has the hop-by-hop field TE"},
             Row{{{"Date", "Mon"}, {"date", "Tue"}}, "the replay has Date 2 times"},
         }) {
        const auto failed = unclean_replay(first, response(201, row.fields, "body"));
        ASSERT_TRUE(failed) << row.reason;
        EXPECT_EQ(failed->reason, row.reason);
    }
    EXPECT_FALSE(unclean_replay(first, response(201, {{"Set-Cookie", "a=2"}}, "body")))
        << "a cookie made for the retry";
}

}  // namespace
}  // namespace semel::verify
