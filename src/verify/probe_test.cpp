#include "verify/probe.hpp"

#include <gtest/gtest.h>

namespace semel::verify {
namespace {

Answer answer(int status, std::vector<Header> fields = {}, std::string body = {}) {
    return {.response = Response{status, std::move(fields), std::move(body)}, .problem = {}, .received = {}};
}

TEST(VerifyProbe, KnowsWhichAnswersAreFinal) {
    struct Row {
        Answer answer;
        bool final, final_if_conflict_is_the_answer;
    };
    const Header later{"Retry-After", "1"};
    for (const Row& row : {
             Row{answer(201), true, true},
             Row{answer(422), true, true},
             Row{answer(500), true, true},
             Row{answer(409), false, true},
             Row{answer(409, {later}), false, false},
             Row{answer(409, {}, R"({"retryable": false})"), true, true},
             Row{answer(409, {}, R"({"retryable": true})"), false, true},
             Row{answer(425), false, false},
             Row{answer(429), false, false},
             Row{answer(503), true, true},
             Row{answer(503, {later}), false, false},
             Row{Answer{.response = std::nullopt, .problem = "reset", .received = {}}, false, false},
         }) {
        EXPECT_EQ(is_final(row.answer, Conflict::not_yet), row.final) << row.answer.text();
        EXPECT_EQ(is_final(row.answer, Conflict::answer), row.final_if_conflict_is_the_answer) << row.answer.text();
    }
}

TEST(VerifyProbe, HidesCredentials) {
    EXPECT_EQ(redacted("POST / HTTP/1.1\r\nauthorization: Bearer a\r\nX-Mine: b\r\nAccept: c\r\n\r\n", {"x-mine"}),
              "POST / HTTP/1.1\r\nauthorization: <redacted>\r\nX-Mine: <redacted>\r\nAccept: c\r\n\r\n");
    // Also in what no reader would accept.
    EXPECT_EQ(redacted("Cookie : a\n b\nX: c\n d", {}), "Cookie : <redacted>\r\nX: c\n d");
    EXPECT_EQ(redacted("", {}), "");
}

}  // namespace
}  // namespace semel::verify
