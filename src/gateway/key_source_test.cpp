#include "gateway/key_source.hpp"

#include <gtest/gtest.h>

#include "semel/fingerprint.hpp"

namespace semel::gateway {
namespace {

JsonPointer pointer(std::string_view text) { return *JsonPointer::parse(text); }
KeySource header(std::string name) { return {.in = KeySource::In::header, .header = std::move(name)}; }
KeySource in_body(std::string_view at) { return {.in = KeySource::In::body, .pointer = pointer(at)}; }

http::Fields fields_of(std::initializer_list<http::Field> all) {
    http::Fields fields;
    for (const http::Field& each : all) fields.add(each);
    return fields;
}

/// The key's text, "(missing)" or "(invalid)".
std::string shown(const Route& route, const http::Fields& fields, std::string_view text = {}) {
    JsonBody body(text);
    const KeyFound found = find_key(route, fields, body);
    if (const Key* key = std::get_if<Key>(&found)) return key->text();
    if (const auto* invalid = std::get_if<KeyInvalid>(&found)) {
        EXPECT_FALSE(invalid->reason.empty());
        return "(invalid)";
    }
    return "(missing)";
}

TEST(KeySource, AHeaderIsReadQuotedAndBare) {
    const Route route;
    EXPECT_EQ(shown(route, fields_of({{"idempotency-key", "\"8e03\""}})), "8e03");
    EXPECT_EQ(shown(route, fields_of({{"Idempotency-Key", "8e03"}})), "8e03");
    EXPECT_EQ(shown(route, fields_of({{"Other", "8e03"}})), "(missing)");
    EXPECT_EQ(shown(route, fields_of({{"Idempotency-Key", ""}})), "(invalid)");
    EXPECT_EQ(shown(route, fields_of({{"Idempotency-Key", "a, b"}})), "(invalid)");
    EXPECT_EQ(shown(route, fields_of({{"Idempotency-Key", "a;b=1"}})), "(invalid)");
}

TEST(KeySource, AHeaderOnTwoLinesIsInvalidEvenIfTheyAgree) {
    EXPECT_EQ(shown({}, fields_of({{"Idempotency-Key", "a"}, {"idempotency-key", "a"}})), "(invalid)");
}

TEST(KeySource, AnotherHeaderCanBeTheKey) {
    Route route;
    route.key_from = {header("PayPal-Request-Id")};
    EXPECT_EQ(shown(route, fields_of({{"Paypal-Request-ID", "p1"}, {"Idempotency-Key", "k1"}})), "p1");
    EXPECT_EQ(shown(route, fields_of({{"Idempotency-Key", "k1"}})), "(missing)");
}

TEST(KeySource, ABodyHoldsAStringOrAnInteger) {
    Route route;
    route.key_from = {in_body("/order/key")};
    const struct {
        std::string_view body;
        std::string_view shown;
    } rows[] = {
        {R"({"order":{"key":"k 1"}})", "k 1"},
        {R"({"order":{"key":"k\u0031"}})", "k1"},
        {R"({"order":{"key":17}})", "17"},
        {R"({"order":{"key":-17}})", "-17"},
        {R"({"order":{"key":12345678901234567890123}})", "12345678901234567890123"},
        {R"({"order":{"key":1.0}})", "(invalid)"},
        {R"({"order":{"key":1e3}})", "(invalid)"},
        {R"({"order":{"key":-0}})", "(invalid)"},
        {R"({"order":{"key":null}})", "(invalid)"},
        {R"({"order":{"key":true}})", "(invalid)"},
        {R"({"order":{"key":["k"]}})", "(invalid)"},
        {R"({"order":{"key":{}}})", "(invalid)"},
        {R"({"order":{"key":""}})", "(invalid)"},
        {R"({"order":{"key":"é"}})", "(invalid)"},
        {R"({"order":{"key":"a\nb"}})", "(invalid)"},
        {R"({"order":{}})", "(missing)"},
        {R"({"order":"key"})", "(missing)"},
        {R"({"order":{"key":"a","key":"b"}})", "(missing)"},
        {R"({"order":)", "(missing)"},
        {"", "(missing)"},
    };
    for (const auto& row : rows) EXPECT_EQ(shown(route, {}, row.body), row.shown) << row.body;
}

TEST(KeySource, TheFirstPlaceInWhichThereIsSomethingDecides) {
    Route route;
    route.key_from = {header("Idempotency-Key"), in_body("/key"), header("X-Key")};
    const auto both = fields_of({{"Idempotency-Key", "h"}, {"X-Key", "x"}});
    const auto last = fields_of({{"X-Key", "x"}});
    EXPECT_EQ(shown(route, both, R"({"key":"b"})"), "h");
    EXPECT_EQ(shown(route, last, R"({"key":"b"})"), "b");
    EXPECT_EQ(shown(route, last, R"({})"), "x");
    EXPECT_EQ(shown(route, last, R"({"key":null})"), "(invalid)");  // not passed over
    EXPECT_EQ(shown(route, {}, R"({})"), "(missing)");
}

TEST(KeySource, TheFormatIsCheckedWhereverTheKeyWas) {
    Route route;
    route.key_from = {header("Idempotency-Key"), in_body("/key")};
    route.format = KeyFormat::uuidv7;
    constexpr std::string_view v7 = "018f4d2e-0000-7000-8000-000000000000";
    constexpr std::string_view v4 = "8e03978e-40d5-43e8-bc93-6894a57f9324";
    EXPECT_EQ(shown(route, fields_of({{"Idempotency-Key", v7}})), v7);
    EXPECT_EQ(shown(route, fields_of({{"Idempotency-Key", v4}})), "(invalid)");
    EXPECT_EQ(shown(route, {}, R"({"key":"018f4d2e-0000-7000-8000-000000000000"})"), v7);
    EXPECT_EQ(shown(route, {}, R"({"key":"8e03978e-40d5-43e8-bc93-6894a57f9324"})"), "(invalid)");
    route.format = KeyFormat::uuid;
    EXPECT_EQ(shown(route, fields_of({{"Idempotency-Key", v4}})), v4);
    EXPECT_EQ(shown(route, {}, R"({"key":5})"), "(invalid)");
}

Webhook stripe(std::optional<JsonPointer> type) {
    return {.provider = "stripe", .id = pointer("/id"), .type = std::move(type), .signature = {}};
}

TEST(KeySource, AWebhooksKeyIsItsEventsId) {
    Route route;
    route.webhook = stripe({});
    const auto fields = fields_of({{"Idempotency-Key", "h"}});
    EXPECT_EQ(shown(route, fields, R"({"id":"evt_1"})"), "evt_1");
    EXPECT_EQ(shown(route, fields, R"({})"), "(missing)");
}

TEST(KeySource, SaysWhereItLooks) {
    Route route;
    EXPECT_EQ(key_places(route), "the header Idempotency-Key");
    route.key_from.push_back(in_body("/idempotency_key"));
    EXPECT_EQ(key_places(route), "the header Idempotency-Key, or /idempotency_key in a JSON body");
    route.webhook = stripe({});
    EXPECT_EQ(key_places(route), "/id in a JSON body");
}

TEST(WebhookFingerprint, IsOfIdAndTypeAlone) {
    const Webhook webhook = stripe(pointer("/type"));
    const Key id = *Key::parse("evt_1");
    const auto of = [&](const Webhook& which, std::string_view text) {
        JsonBody body(text);
        return webhook_fingerprint(which, id, body);
    };
    const Fingerprint paid = of(webhook, R"({"id":"evt_1","type":"paid","sent":1})");
    EXPECT_EQ(paid, of(webhook, R"({"sent":2,"type":"p\u0061id","id":"evt_1"})"));
    EXPECT_EQ(paid, fingerprint_of_message("paid", "evt_1"));
    EXPECT_NE(paid, of(webhook, R"({"id":"evt_1","type":"void"})"));
    EXPECT_EQ(of(stripe({}), R"({"type":"paid"})"), of(stripe({}), R"({"type":"void"})"));
    EXPECT_EQ(of(webhook, R"({})"), fingerprint_of_message("", "evt_1"));
}

TEST(JsonBody, IsReadOnce) {
    const std::string text = R"({"a":1})";
    JsonBody body(text);
    const JsonDocument* const first = body.document();
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(body.document(), first);
    JsonBody bad("{");
    EXPECT_EQ(bad.document(), nullptr);
    EXPECT_EQ(bad.document(), nullptr);
}

}  // namespace
}  // namespace semel::gateway
