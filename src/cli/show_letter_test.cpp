#include "cli/show_letter.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace semel::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

const TimePoint now = time_from_micros(1'700'000'000'000'000);

DeadLetter sample() {
    DeadLetter letter;
    letter.number = 17;
    letter.consumer = "orders";
    letter.generation = 2;
    letter.operation = Operation{Scope::parse("acme/orders#2").value(), Key::parse("evt 1").value()};
    letter.reason = name(DeadReason::outcome_unknown);
    letter.error = "no reply in 5s";
    letter.tries = 3;
    letter.at = now - std::chrono::minutes{5};
    letter.message.topic = "orders";
    letter.message.position = "orders/3@1042";
    letter.message.content_type = "application/json";
    letter.message.headers = {{"ce_type", "order.placed"}, {"odd", "\x1b[2J\xff"}};
    letter.message.body = "card 4242";
    return letter;
}

TEST(IsText, IsUtf8WithoutControlCharacters) {
    for (const char* text : {"", "{\"a\": 1}\n\tb", "Grüße €😀", "\u00a0"}) EXPECT_TRUE(is_text(text)) << text;
    for (const std::string_view bytes :
         {std::string_view("\0", 1), std::string_view("\x1b[2J"), std::string_view("a\rb"), std::string_view("\x7f"),
          std::string_view("\xff"), std::string_view("\xc3"), std::string_view("\xc0\x80"),
          std::string_view("\xed\xa0\x80"), std::string_view("\u009b2J")})
        EXPECT_FALSE(is_text(bytes)) << testing::PrintToString(bytes);
}

TEST(BodyText, IsTheTextOrHex) {
    EXPECT_EQ(body_text("plain"), "plain\n");
    EXPECT_EQ(body_text("line\n"), "line\n");
    EXPECT_EQ(body_text(std::string_view("\0\xff", 2)), "00ff\n");
    const std::string hex = body_text(std::string(33, '\0'));
    EXPECT_EQ(hex, std::string(64, '0') + "\n00\n");
}

TEST(LetterDetail, HasEverythingButTheBodyAndSaysWhatToDo) {
    const std::string text = letter_detail(sample(), now, "sqlite:a b.db");
    EXPECT_THAT(text, HasSubstr("orders, generation 2"));
    EXPECT_THAT(text, HasSubstr("2023-11-14T22:08:20.000Z (5m00s ago)"));
    EXPECT_THAT(text, HasSubstr("orders/3@1042"));
    EXPECT_THAT(text, HasSubstr("ce_type: order.placed"));
    EXPECT_THAT(text, HasSubstr("odd: \\x1b[2J\\xff"));
    EXPECT_THAT(text, HasSubstr("9 bytes"));
    EXPECT_THAT(text, Not(HasSubstr("4242")));
    EXPECT_THAT(text, HasSubstr("find out at the other side"));
    EXPECT_THAT(text, HasSubstr("semel ops show --store 'sqlite:a b.db' 'acme/orders#2' 'evt 1'"));
    EXPECT_THAT(text, HasSubstr("semel dead retry --store 'sqlite:a b.db' 17"));
}

TEST(LetterDetail, OfAMessageWithoutAKey) {
    DeadLetter letter = sample();
    letter.operation.reset();
    const std::string text = letter_detail(letter, now, "s");
    EXPECT_THAT(text, HasSubstr("none: no key was found"));
    EXPECT_THAT(text, Not(HasSubstr("ops show")));
}

TEST(LetterTable, ShowsNeitherBodyNorControlCharacters) {
    DeadLetter letter = sample();
    letter.message.topic = "a\u009bb";
    const std::string text = letter_table({letter}, now);
    EXPECT_THAT(text, HasSubstr("a\\xc2\\x9bb"));
    EXPECT_THAT(text, Not(HasSubstr("4242")));
}

TEST(LetterJson, HasTheBodyOnlyIfItIsAskedFor) {
    const auto json_of = [](const DeadLetter& letter, LetterParts parts) {
        JsonWriter json;
        write_letter(json, letter, parts);
        return json.text();
    };
    DeadLetter letter = sample();
    EXPECT_THAT(json_of(letter, LetterParts::summary), Not(HasSubstr("ce_type")));
    const std::string headers = json_of(letter, LetterParts::headers);
    EXPECT_THAT(headers, HasSubstr(R"({"name":"ce_type","value":"order.placed"})"));
    EXPECT_THAT(headers, HasSubstr(R"("ordering_key":null)"));
    EXPECT_THAT(headers, Not(HasSubstr("4242")));
    EXPECT_THAT(json_of(letter, LetterParts::headers_and_body), HasSubstr(R"("body_text":"card 4242")"));
    letter.message.body = std::string("\0\1", 2);
    EXPECT_THAT(json_of(letter, LetterParts::headers_and_body), HasSubstr(R"("body_hex":"0001")"));
}

TEST(WhatToDo, IsKnownForEveryReason) {
    for (int i = 0; i < 8; ++i) EXPECT_NE(what_to_do(name(static_cast<DeadReason>(i))), "") << i;
    EXPECT_EQ(what_to_do("of a newer program"), "");
}

}  // namespace
}  // namespace semel::cli
