#include "gateway/stored_response.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace semel::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string key_a(64, 'a');
const std::string key_b(64, 'b');
constexpr OperationId operation{{1, 2, 3}};
constexpr OperationId another{{1, 2, 4}};

SeededRandom& seeded() {
    static SeededRandom random(7);
    return random;
}

ResponseCodec codec_of(const std::vector<std::string>& keys = {}) { return *ResponseCodec::make(keys, seeded()); }

http::ResponseHead head_of(int status, std::initializer_list<http::Field> fields, std::string_view reason = {}) {
    http::ResponseHead head;
    head.status = status;
    head.reason = reason;
    for (const http::Field& each : fields) {
        head.fields.add(each);
        if (!http::same_name(each.name, "connection")) continue;
        EXPECT_EQ(head.connection.add(each.value, http::Side::response), http::Fault::none);
    }
    return head;
}

Outcome encoded(std::string_view body, const Route& route = {}) {
    return codec_of().encode(route, operation, head_of(200, {{"Content-Type", "application/json"}}), body);
}

std::vector<std::string> names_of(const http::Fields& fields) {
    std::vector<std::string> names;
    for (const http::Field& each : fields) names.emplace_back(each.name);
    return names;
}

Code code_of(const ResponseCodec& codec, Outcome outcome, const OperationId& id = operation) {
    const auto decoded = codec.decode(id, outcome);
    EXPECT_FALSE(decoded.ok());
    return decoded.ok() ? Code::exhausted : decoded.failure().code;
}

Outcome stored(int status, std::string_view hex) { return {.status = status, .body = *from_hex(hex)}; }

// The examples of docs/formats/response.md.
constexpr std::string_view example =
    "f5534d01"
    "00"
    "01"
    "084c6f636174696f6e"
    "0d2f76312f636861726765732f37"
    "087b226964223a377d";
constexpr std::string_view example_with_reason =
    "f5534d01"
    "044d616465"
    "01"
    "084c6f636174696f6e"
    "0d2f76312f636861726765732f37"
    "087b226964223a377d";

TEST(StoredResponse, HasTheBytesOfItsPage) {
    const auto bytes = [](std::string_view reason) {
        const auto head = head_of(201, {{"Location", "/v1/charges/7"}}, reason);
        return to_hex(codec_of().encode({}, operation, head, R"({"id":7})").body);
    };
    EXPECT_EQ(bytes("Created"), example);
    EXPECT_EQ(bytes(""), example);
    EXPECT_EQ(bytes("Made"), example_with_reason);
}

TEST(StoredResponse, IsReadBackByteForByte) {
    const std::string body("\0\xff\r\n{}", 6);
    const auto head =
        head_of(404, {{"Date", "Tue, 14 Nov 2023 22:13:20 GMT"}, {"x-ODD", ""}, {"x-odd", "b\xe9"}}, "Nope");
    for (const auto& keys : {std::vector<std::string>{}, {key_a}}) {
        const ResponseCodec codec = codec_of(keys);
        Outcome outcome = codec.encode({}, operation, head, body);
        ASSERT_TRUE(outcome.kept);
        EXPECT_EQ(outcome.status, 404);
        for (int twice = 0; twice < 2; ++twice) {
            const auto decoded = codec.decode(operation, outcome);
            ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
            EXPECT_EQ(decoded->status, 404);
            EXPECT_EQ(decoded->reason, "Nope");
            EXPECT_EQ(decoded->body, body);
            EXPECT_TRUE(std::ranges::equal(decoded->fields, head.fields));
        }
    }
}

TEST(StoredResponse, LeavesOutWhatMayNotBeStored) {
    const auto head = head_of(200, {{"Connection", "close, X-Hop"},
                                    {"X-Hop", "1"},
                                    {"Content-Length", "2"},
                                    {"Transfer-Encoding", "chunked"},
                                    {"Keep-Alive", "timeout=5"},
                                    {"Proxy-Authenticate", "Basic"},
                                    {"Proxy-Anything", "x"},
                                    {"Trailer", "x"},
                                    {"Upgrade", "x"},
                                    {"set-cookie", "a=b"},
                                    {"Set_Cookie", "a=b"},
                                    {"Set-Cookie2", "a=b"},
                                    {"WWW-Authenticate", "Basic"},
                                    {"Authorization", "x"},
                                    {"Authentication-Info", "x"},
                                    {"Idempotent-Replayed", "true"},
                                    {"Semel-Token", "7"},
                                    {"SEMEL_Key-Expires", "7"},
                                    {"X-One-Time", "x"},
                                    {"Date", "x"},
                                    {"ETag", "\"v1\""},
                                    {"X-Kept", "x"}});
    Route route;
    route.drop_headers = {"x-one-time"};
    Outcome outcome = codec_of().encode(route, operation, head, "{}");
    const auto decoded = codec_of().decode(operation, outcome);
    ASSERT_TRUE(decoded.ok());
    EXPECT_THAT(names_of(decoded->fields), ElementsAre("Date", "ETag", "X-Kept"));
    EXPECT_THAT(outcome.body, Not(HasSubstr("a=b")));
}

TEST(StoredResponse, IsATombstoneWhenTheRouteKeepsTheStatusOnly) {
    Route route;
    route.keep = Keep::status;
    EXPECT_EQ(encoded("{}", route), Outcome::tombstone(200));
}

TEST(StoredResponse, IsATombstoneFromOneByteOverTheLimit) {
    for (const auto& keys : {std::vector<std::string>{}, {key_a}}) {
        const ResponseCodec codec = codec_of(keys);
        const auto head = head_of(200, {{"A", "b"}});
        const std::string body(1000, 'x');
        Route route;
        route.response_bytes_max = codec.encode(route, operation, head, body).body.size();
        EXPECT_TRUE(codec.encode(route, operation, head, body).kept);
        EXPECT_EQ(codec.encode(route, operation, head, body + "x"), Outcome::tombstone(200));
    }
    Route unlimited;
    unlimited.response_bytes_max = std::size_t{1} << 40;
    EXPECT_TRUE(encoded(std::string((64U << 20) - 100, 'x'), unlimited).kept);
    EXPECT_FALSE(encoded(std::string(64U << 20, 'x'), unlimited).kept);
}

TEST(StoredResponse, OfTheLedgersTooEarlyEndsIsCorruptAtEveryLength) {
    const std::string whole = *from_hex(example_with_reason);
    for (std::size_t size = 3; size < whole.size(); ++size)
        EXPECT_EQ(code_of(codec_of(), {.status = 201, .body = whole.substr(0, size)}), Code::corrupt) << size;
    EXPECT_EQ(code_of(codec_of(), {.status = 201, .body = whole + "x"}), Code::corrupt);
}

TEST(StoredResponse, ThatWouldBreakAHeadIsCorrupt) {
    const struct {
        std::string_view why;
        int status;
        std::string_view hex;
    } rows[] = {
        {"status 0", 0, "f5534d01000000"},
        {"status 199", 199, "f5534d01000000"},
        {"status 600", 600, "f5534d01000000"},
        {"an unknown form", 200, "f5534d03000000"},
        {"LF in the reason", 200, "f5534d01010a0000"},
        {"an empty name", 200, "f5534d0100010001780000"},
        {"a name with a space", 200, "f5534d01000103782079017800"},
        {"CR LF in a value", 200, "f5534d0100010178040d0a613a00"},
        {"NUL in a value", 200, "f5534d0100010178010000"},
        {"Content-Length", 200, "f5534d0100010e436f6e74656e742d4c656e677468013100"},
        {"Transfer-Encoding", 200, "f5534d010001115472616e736665722d456e636f64696e67016300"},
        {"Connection", 200, "f5534d0100010a436f6e6e656374696f6e016300"},
        {"more fields than bytes", 200, "f5534d0100ffffffffffffffffff0100"},
        {"a length without end", 200, "f5534d01ffffffffffffffffffffff"},
        {"204 with a body", 204, "f5534d0100000178"},
        {"304 with a body", 304, "f5534d0100000178"},
    };
    for (const auto& row : rows) EXPECT_EQ(code_of(codec_of(), stored(row.status, row.hex)), Code::corrupt) << row.why;
    Outcome fine = stored(204, "f5534d01000000");
    EXPECT_TRUE(codec_of().decode(operation, fine).ok());
}

TEST(StoredResponse, ACookieThatWasStoredAllTheSameIsNotReplayed) {
    Outcome outcome = stored(200,
                             "f5534d0100020a5365742d436f6f6b696503613d6201780179"
                             "00");
    const auto decoded = codec_of().decode(operation, outcome);
    ASSERT_TRUE(decoded.ok()) << decoded.failure().message;
    EXPECT_THAT(names_of(decoded->fields), ElementsAre("x"));
}

TEST(StoredResponse, OfAnApplicationIsAnsweredAsWhatItIs) {
    const struct {
        int status;
        std::string body;
        int answered;
        std::string_view type;
        std::string_view sent;
    } rows[] = {
        {201, R"({"id": 7})", 201, "application/json", R"({"id": 7})"},
        {0, "\"done\"", 200, "application/json", "\"done\""},
        {200, "done", 200, "text/plain; charset=utf-8", "done"},
        {200, "dön\xc3\xa9", 200, "text/plain; charset=utf-8", "dön\xc3\xa9"},
        {200, "\xff\xfe", 200, "application/octet-stream", "\xff\xfe"},
        {200, "", 200, "", ""},
        {204, "done", 204, "", ""},
    };
    for (const auto& row : rows) {
        Outcome outcome{.status = row.status, .body = row.body};
        const auto decoded = codec_of({key_a}).decode(operation, outcome);
        ASSERT_TRUE(decoded.ok()) << row.body;
        EXPECT_EQ(decoded->status, row.answered);
        EXPECT_EQ(decoded->fields.value("content-type").value_or(""), row.type) << row.body;
        EXPECT_EQ(decoded->body, row.sent);
    }
    EXPECT_EQ(code_of(codec_of(), {.status = 7, .body = "done"}), Code::corrupt);
}

// ---- sealing ---------------------------------------------------------------------------------------------------

TEST(SealedResponse, ShowsNothingAndIsNeverTheSameTwice) {
    const ResponseCodec codec = codec_of({key_a});
    const auto head = head_of(200, {{"X-Name", "visible"}});
    const Outcome first = codec.encode({}, operation, head, "visible");
    EXPECT_THAT(first.body, Not(HasSubstr("visible")));
    EXPECT_NE(first.body, codec.encode({}, operation, head, "visible").body);
}

TEST(SealedResponse, OpensWithAnyOfTheKeysAndOnlyWithThem) {
    const auto head = head_of(200, {});
    const Outcome by_a = codec_of({key_a}).encode({}, operation, head, "text");
    Outcome opened = by_a;
    const auto decoded = codec_of({key_b, key_a}).decode(operation, opened);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->body, "text");
    EXPECT_EQ(code_of(codec_of({key_b}), by_a), Code::unavailable);
    EXPECT_EQ(code_of(codec_of(), by_a), Code::unavailable);
}

TEST(SealedResponse, IsBoundToItsOperationAndStatus) {
    const ResponseCodec codec = codec_of({key_a});
    const Outcome outcome = codec.encode({}, operation, head_of(200, {}), "text");
    EXPECT_EQ(code_of(codec, outcome, another), Code::corrupt);
    Outcome other_status = outcome;
    other_status.status = 201;
    EXPECT_EQ(code_of(codec, other_status), Code::corrupt);
}

TEST(SealedResponse, WithAnyByteChangedIsRefused) {
    const ResponseCodec codec = codec_of({key_a});
    const Outcome outcome = codec.encode({}, operation, head_of(200, {{"A", "b"}}), "text");
    for (std::size_t i = 3; i < outcome.body.size(); ++i) {
        Outcome changed = outcome;
        changed.body[i] = static_cast<char>(changed.body[i] ^ 1);
        EXPECT_FALSE(codec.decode(operation, changed).ok()) << i;
    }
    for (std::size_t size = 3; size < outcome.body.size(); ++size)
        EXPECT_EQ(code_of(codec, {.status = 200, .body = outcome.body.substr(0, size)}), Code::corrupt) << size;
}

TEST(SealedResponse, WhatWasStoredBeforeThereWereKeysStaysReadable) {
    Outcome outcome = encoded("{}");
    const auto decoded = codec_of({key_a}).decode(operation, outcome);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->body, "{}");
}

TEST(SealedResponse, AKeyHas64HexDigits) {
    for (const std::string key : {"", "abc", "zz"}) {
        const auto made = ResponseCodec::make({key_a, key}, seeded());
        ASSERT_FALSE(made.ok());
        EXPECT_EQ(made.failure().code, Code::invalid);
    }
}

// ---- redacting -------------------------------------------------------------------------------------------------

std::vector<JsonPointer> pointers(std::initializer_list<std::string_view> texts) {
    std::vector<JsonPointer> all;
    for (const std::string_view text : texts) all.push_back(*JsonPointer::parse(text));
    return all;
}

TEST(Redacted, CutsTheValueAndKeepsEveryOtherByte) {
    const struct {
        std::string_view body;
        std::initializer_list<std::string_view> at;
        std::string_view cut;
    } rows[] = {
        {R"({"secret":"s","id":1.0})", {"/secret"}, R"({"secret":"[redacted]","id":1.0})"},
        {" { \"id\" : 1e0 ,\n\t\"secret\" : 42 } \n",
         {"/secret"},
         " { \"id\" : 1e0 ,\n\t\"secret\" : \"[redacted]\" } \n"},
        {R"({"s\u0065cret":"a\"}b\\"})", {"/secret"}, R"({"s\u0065cret":"[redacted]"})"},
        {R"({"a":[1,{"b":[true]},3]})", {"/a/1"}, R"({"a":[1,"[redacted]",3]})"},
        {R"({"a":[1,{"b":[true]},3]})", {"/a/1/b/0"}, R"({"a":[1,{"b":["[redacted]"]},3]})"},
        {R"({"a":{"b":{"c":"]}"}},"d":null})",
         {"/a/b", "/d", "/a/b/c"},
         R"({"a":{"b":"[redacted]"},"d":"[redacted]"})"},
        {R"({"a":[[],{}],"b":-1.5e3})",
         {"/a/0", "/a/1", "/b"},
         R"({"a":["[redacted]","[redacted]"],"b":"[redacted]"})"},
        {R"({"a":1})", {"/a", "/a"}, R"({"a":"[redacted]"})"},
        {R"({"a":1})", {"/b", "/a/b", "/0"}, R"({"a":1})"},
        {R"([false])", {""}, R"("[redacted]")"},
        {"17", {""}, R"("[redacted]")"},
        {" 17 ", {""}, R"( "[redacted]" )"},
        {R"({"é":"ü","z":"s"})", {"/é"}, R"({"é":"[redacted]","z":"s"})"},
    };
    for (const auto& row : rows) EXPECT_EQ(redacted(row.body, pointers(row.at)), row.cut) << row.body;
}

TEST(Redacted, CannotCutWhatIsNotJson) {
    for (const std::string_view body : {"", "secret", "{", R"({"a":1,"a":2})", "{\"a\":\"\xff\"}"})
        EXPECT_EQ(redacted(body, pointers({"/a"})), std::nullopt) << body;
}

TEST(StoredResponse, IsStoredWithoutWhatIsRedacted) {
    Route route;
    route.redact = pointers({"/client_secret"});
    const auto head = head_of(200, {{"Content-Digest", "sha-256=:x:"}, {"content-md5", "x"}, {"ETag", "x"}});
    Outcome cut = codec_of().encode(route, operation, head, R"({"client_secret":"s3cr3t"})");
    const auto decoded = codec_of().decode(operation, cut);
    ASSERT_TRUE(decoded.ok());
    EXPECT_EQ(decoded->body, R"({"client_secret":"[redacted]"})");
    EXPECT_THAT(names_of(decoded->fields), ElementsAre("ETag"));

    Outcome whole = codec_of().encode(route, operation, head, R"({"id":1})");
    const auto untouched = codec_of().decode(operation, whole);
    ASSERT_TRUE(untouched.ok());
    EXPECT_EQ(untouched->fields.size(), 3U);

    EXPECT_EQ(encoded("client_secret=s3cr3t", route), Outcome::tombstone(200));
    EXPECT_TRUE(encoded("", route).kept);
}

}  // namespace
}  // namespace semel::gateway
