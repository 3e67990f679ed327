#include "ledger/fingerprint.hpp"

#include <gtest/gtest.h>

#include <set>

#include "base/bytes.hpp"

namespace semel {
namespace {

std::vector<JsonPointer> pointers(std::initializer_list<std::string_view> texts) {
    std::vector<JsonPointer> all;
    for (const std::string_view text : texts) all.push_back(JsonPointer::parse(text).value());
    return all;
}

const Request charge{.method = "POST",
                     .path = "/v1/charges",
                     .content_type = "application/json",
                     .body = R"({"amount":100,"currency":"EUR"})"};

Request with_body(std::string_view body) {
    Request request = charge;
    request.body = body;
    return request;
}
Request with_type(std::string_view content_type) {
    Request request = charge;
    request.content_type = content_type;
    return request;
}

// docs/formats/fingerprint.md holds the same vectors.
TEST(Fingerprint, IsTheSameForEver) {
    const struct {
        Fingerprint fingerprint;
        std::string_view bytes;
    } rows[] = {{fingerprint_of(charge), "df98679252d247a96d9b0aa3a7e0e600"},
                {fingerprint_of(charge, {.raw = true}), "f0f483ee354b19b15ebe70391ccea916"},
                {fingerprint_of({.method = "POST", .path = "/"}), "80a8a474e6a0eea73fb142a1d7647907"},
                {fingerprint_of({.method = "PATCH",
                                 .path = "/v1/orders/7",
                                 .query = "notify=1&x=%20",
                                 .content_type = "Text/Plain; charset=UTF-8",
                                 .if_match = "\"v3\"",
                                 .body = "h\xc3\xa9llo"}),
                 "706e045f7e5ec2f4b0e6e2621e8b5de3"},
                {fingerprint_of({.method = "POST",
                                 .path = "/hook",
                                 .content_type = "application/json",
                                 .body = R"({"type":"paid","data":{"n":1},"id":"evt_1"})"},
                                {.parts = {.include = pointers({"/type", "/id"})}}),
                 "d95eb36478d5a9b43aaa0024f7c2a70e"},
                {fingerprint_of_bytes(""), "a87b79114e18d47388be0609a3058298"},
                {fingerprint_of_bytes("hello"), "f30632df902117979b3a6d040a615766"},
                {fingerprint_of_message("order.paid", R"({"id":7})"), "62afb582351d4eae1e66f68356a1824d"},
                {fingerprint_of_message("", ""), "a6e28539a6a0cf104d946640dfd0d7d1"}};
    for (const auto& row : rows) {
        EXPECT_EQ(to_hex(row.fingerprint.bytes), row.bytes);
        EXPECT_EQ(row.fingerprint.version, 1);
    }
}

TEST(Fingerprint, ARetryMaySpellTheSameJsonInAnotherWay) {
    for (const std::string_view body :
         {R"({"currency":"EUR","amount":100})", R"( { "amount" : 100.0 , "currency" : "EUR" } )",
          R"({"amount":1e2,"currency":"\u0045UR"})"})
        EXPECT_EQ(fingerprint_of(with_body(body)), fingerprint_of(charge)) << body;
}

TEST(Fingerprint, TellsWhetherEveryByteOfTheBodyCounts) {
    const auto whole = [](const Request& request, const FingerprintOptions& options = {}) {
        const RequestPrint print = print_of(request, options);
        EXPECT_EQ(print.fingerprint, fingerprint_of(request, options));
        return print.of_every_byte;
    };
    EXPECT_FALSE(whole(charge));
    EXPECT_FALSE(whole(charge, {.parts = {.exclude = pointers({"/currency"})}}));
    EXPECT_TRUE(whole(charge, {.raw = true}));
    EXPECT_TRUE(whole(with_body(R"({"a":1,"a":2})")));
    EXPECT_TRUE(whole(with_body("")));
    EXPECT_TRUE(whole(with_type("text/plain")));
}

TEST(Fingerprint, EveryPartOfTheRequestCounts) {
    std::set<Fingerprint> seen{fingerprint_of(charge)};
    const auto add = [&](Request request) { EXPECT_TRUE(seen.insert(fingerprint_of(request)).second); };
    Request other = charge;
    other.method = "PATCH";
    add(other);
    other = charge;
    other.path = "/v1/charges/";
    add(other);
    other = charge;
    other.path = "/v1/char";
    other.query = "ges";
    add(other);
    other = charge;
    other.query = "dry_run=1";
    add(other);
    other = charge;
    other.if_match = "\"v1\"";
    add(other);
    add(with_type("application/vnd.acme+json"));
    add(with_type("text/plain"));
    add(with_type(""));
    add(with_body(R"({"amount":101,"currency":"EUR"})"));
    add(with_body(R"({"amount":"100","currency":"EUR"})"));
    add(with_body(""));
}

TEST(Fingerprint, AmountsThatADoubleWouldConfuseAreTwo) {
    EXPECT_NE(fingerprint_of(with_body(R"({"amount":9007199254740993})")),
              fingerprint_of(with_body(R"({"amount":9007199254740992})")));
}

TEST(Fingerprint, ParametersAndLetterCaseOfTheContentTypeDoNotCount) {
    for (const std::string_view type : {"application/json; charset=utf-8", "application/json;charset=UTF-8",
                                        "Application/JSON", " application/json ", "application/json\t; a=\"b;c\""})
        EXPECT_EQ(fingerprint_of(with_type(type)), fingerprint_of(charge)) << type;
}

TEST(Fingerprint, ABodyIsJsonIfItsTypeSaysSoAndItIs) {
    const struct {
        std::string_view content_type, body;
        bool json;
    } rows[] = {{"application/json", "{}", true},
                {"application/problem+json; charset=utf-8", "{}", true},
                {"APPLICATION/VND.API+JSON", "{}", true},
                {"application/json", "", false},
                {"application/json", "{", false},
                {"application/json", R"({"a":1,"a":1})", false},
                {"text/plain", "{}", false},
                {"", "{}", false},
                {"application/jsonl", "{}", false},
                {"application/json, text/plain", "{}", false},
                {"text/plain; x=+json", "{}", false}};
    for (const auto& row : rows) {
        Request request = with_type(row.content_type);
        request.body = row.body;
        EXPECT_EQ(canonical_body(request).has_value(), row.json) << row.content_type << " " << row.body;
        EXPECT_FALSE(canonical_body(request, {.raw = true}).has_value());
    }
}

TEST(Fingerprint, WhatIsNotCanonicalIsComparedByteForByte) {
    EXPECT_EQ(fingerprint_of(with_body(R"({"a":1,"a":2})")), fingerprint_of(with_body(R"({"a":1,"a":2})")));
    EXPECT_NE(fingerprint_of(with_body(R"({"a":1,"a":2})")), fingerprint_of(with_body(R"({"a":1, "a":2})")));
    EXPECT_NE(fingerprint_of(with_body(R"({"a":1,"a":2})")), fingerprint_of(with_body(R"({"a":2})")));
}

TEST(Fingerprint, ARawBodyThatLooksCanonicalIsNotTheCanonicalOne) {
    const FingerprintOptions raw{.raw = true};
    ASSERT_EQ(canonical_body(charge), charge.body);
    EXPECT_NE(fingerprint_of(charge, raw), fingerprint_of(charge));
    EXPECT_EQ(fingerprint_of(charge, raw), fingerprint_of(charge, raw));
}

TEST(Fingerprint, ExcludedPartsMayChangeAndAllOthersNot) {
    const FingerprintOptions options{.parts = {.exclude = pointers({"/client_time"})}};
    const auto of = [&](std::string_view body) { return fingerprint_of(with_body(body), options); };
    EXPECT_EQ(of(R"({"a":1,"client_time":1})"), of(R"({"client_time":"later","a":1})"));
    EXPECT_EQ(of(R"({"a":1,"client_time":1})"), of(R"({"a":1})"));
    EXPECT_NE(of(R"({"a":1,"client_time":1})"), of(R"({"a":2,"client_time":1})"));
}

TEST(Fingerprint, OnlyIncludedPartsCount) {
    const FingerprintOptions options{.parts = {.include = pointers({"/id", "/type"})}};
    const auto of = [&](std::string_view body) { return fingerprint_of(with_body(body), options); };
    EXPECT_EQ(of(R"({"id":1,"type":"x","n":1})"), of(R"({"n":2,"type":"x","id":1.0})"));
    EXPECT_NE(of(R"({"id":1,"type":"x"})"), of(R"({"id":1,"type":"y"})"));
    EXPECT_NE(of(R"({"id":1})"), of(R"({"type":1})"));
}

TEST(Fingerprint, TypeAndDataOfAMessageDoNotRunTogether) {
    EXPECT_NE(fingerprint_of_message("ab", "c"), fingerprint_of_message("a", "bc"));
    EXPECT_NE(fingerprint_of_message("", "a"), fingerprint_of_bytes("a"));
}

}  // namespace
}  // namespace semel
