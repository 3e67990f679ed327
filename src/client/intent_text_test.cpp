#include "client/intent_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.hpp"

namespace semel::client {
namespace {

using testing::HasSubstr;
using State = IntentRecord::State;

IntentRecord record(State state = State::begun, std::optional<Outcome> outcome = {}) {
    return {.key = Key::parse("k \"1\"").value(),
            .method = "POST",
            .url = "http://h/p?a=1",
            .content_type = "application/json",
            .body_sha256 = std::string(64, 'a'),
            .key_header = "PayPal-Request-Id",
            .bare_key = true,
            .created = time_from_micros(5),
            .changed = time_from_micros(7),
            .tries = 3,
            .state = state,
            .outcome = std::move(outcome)};
}

const HttpAnswer made{.status = 201, .fields = {{"Location", "/p/1"}, {"X", ""}}, .body = std::string("a\n\0\xff", 4)};

TEST(ClientIntentText, IsReadAsItWasWritten) {
    for (const IntentRecord& each :
         {record(), record(State::not_executed), record(State::settled, Succeeded{made, true}),
          record(State::settled, Succeeded{{.status = 204, .whole = false}}), record(State::settled, NotRetained{201}),
          record(State::settled, NotRetained{}), record(State::settled, Refused{made, false, true})}) {
        const auto read = intent_from_text(to_text(each));
        ASSERT_TRUE(read) << read.failure().message;
        EXPECT_EQ(*read, each);
    }
}

TEST(ClientIntentText, EveryByteThatChangesIsNoticed) {
    const std::string good = to_text(record(State::settled, Succeeded{made}));
    for (std::size_t i = 0; i < good.size(); ++i) {
        std::string bad = good;
        bad[i] = static_cast<char>(bad[i] ^ 1);
        const auto read = intent_from_text(bad);
        ASSERT_FALSE(read) << i;
        EXPECT_EQ(read.failure().code, Code::corrupt);
    }
}

TEST(ClientIntentText, EveryCutIsNoticed) {
    const std::string good = to_text(record(State::settled, Succeeded{made}));
    for (std::size_t i = 0; i < good.size(); ++i) EXPECT_FALSE(intent_from_text(good.substr(0, i))) << i;
    EXPECT_FALSE(intent_from_text(good + "x"));
}

/// With a checksum that fits.
std::string sealed(const std::string& content) { return "semel intent 1 " + to_hex(sha256(content)) + '\n' + content; }

TEST(ClientIntentText, WhatWasNeverWrittenSoIsRefused) {
    const std::string good = to_text(record());
    const std::string json = good.substr(good.find('\n') + 1);
    ASSERT_TRUE(intent_from_text(sealed(json)));
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string other = json;
        const std::size_t at = other.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return other.replace(at, from.size(), to);
    };
    for (const std::string& content :
         {std::string(), std::string("\n"), std::string("{}\n"), std::string("[]\n"), json.substr(0, json.size() - 1),
          with(R"("begun")", R"("other")"), with(R"("begun")", R"("settled")"), with(R"("tries":3)", R"("tries":"3")"),
          with(R"("tries":3)", R"("tries":3.5)"), with(R"("tries":3)", R"("tries":-3)"),
          with(R"("method":"POST")", R"("method":7)"), with(R"("method":"POST",)", ""),
          with(R"("bare_key":true)", R"("bare_key":1)"), with(R"("key_header":")", R"("key_header":7,"x":")"),
          with(R"("k \"1\"")", R"("")"),
          with("}\n", R"(,"outcome":{"end":"succeeded"}})"
                      "\n"),
          with("}\n", R"(,"outcome":{"end":"other"}})"
                      "\n"),
          with("}\n", R"(,"outcome":7})"
                      "\n")}) {
        const auto read = intent_from_text(sealed(content));
        ASSERT_FALSE(read) << content;
        EXPECT_EQ(read.failure().code, Code::corrupt);
        EXPECT_FALSE(read.failure().message.empty());
    }
    EXPECT_THAT(intent_from_text("").failure().message, HasSubstr("empty"));
    EXPECT_THAT(intent_from_text("semel intent 2 x").failure().message, HasSubstr("version"));
}

TEST(ClientIntentText, AKeyOfWhichNothingIsSaidIsWrittenAsUsual) {
    const std::string good = to_text(record());
    std::string json = good.substr(good.find('\n') + 1);
    for (const std::string_view member : {R"("key_header":"PayPal-Request-Id",)", R"("bare_key":true,)"}) {
        const std::size_t at = json.find(member);
        ASSERT_NE(at, std::string::npos) << json;
        json.erase(at, member.size());
    }
    const auto read = intent_from_text(sealed(json));
    ASSERT_TRUE(read) << read.failure().message;
    EXPECT_EQ(read->key_header, "Idempotency-Key");
    EXPECT_FALSE(read->bare_key);
}

}  // namespace
}  // namespace semel::client
