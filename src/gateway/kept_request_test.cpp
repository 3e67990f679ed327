#include "gateway/kept_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace semel::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string key_a(64, 'a');
const std::string key_b(64, 'b');
constexpr OperationId operation{{1, 2, 3}};
constexpr OperationId another{{1, 2, 4}};

RequestCodec codec_of(const std::vector<std::string>& keys = {}) {
    static SeededRandom random(7);
    return *RequestCodec::make(keys, random);
}

http::RequestHead head_of(std::initializer_list<http::Field> fields) {
    http::RequestHead head;
    for (const http::Field& each : fields) head.fields.add(each);
    return head;
}

const http::RequestHead json = head_of({{"Authorization", "Bearer secret-of-the-caller"},
                                        {"content-TYPE", "application/json; charset=utf-8"},
                                        {"Cookie", "session=secret-of-the-caller"},
                                        {"Content-Digest", "sha-256=:AA==:"},
                                        {"Idempotency-Key", "k1"}});

Code code_of(const RequestCodec& codec, std::string kept, const OperationId& id = operation) {
    const auto read = codec.decode(id, kept);
    EXPECT_FALSE(read.ok());
    return read.ok() ? Code::exhausted : read.failure().code;
}

TEST(KeptRequest, IsTheBodyAndTheFieldsThatDescribeIt) {
    const std::string body("{\"a\": \0\xff}", 9);
    std::string kept = codec_of().encode({}, operation, json, body);
    EXPECT_THAT(kept, Not(HasSubstr("secret-of-the-caller")));
    const auto read = codec_of().decode(operation, kept);
    ASSERT_TRUE(read.ok()) << read.failure().message;
    EXPECT_EQ(read->body, body);
    ASSERT_EQ(read->fields.size(), 2U);
    EXPECT_EQ(read->fields[0], (http::Field{"content-TYPE", "application/json; charset=utf-8"}));
    EXPECT_EQ(read->fields[1], (http::Field{"Content-Digest", "sha-256=:AA==:"}));
}

TEST(KeptRequest, LeavesOutWhatBelongsToOneConnection) {
    http::RequestHead head = head_of({{"Content-Language", "en"}, {"Content-Type", "text/plain"}});
    ASSERT_EQ(head.connection.add("Content-Language", http::Side::request), http::Fault::none);
    std::string kept = codec_of().encode({}, operation, head, "hello");
    const auto read = codec_of().decode(operation, kept);
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(read->fields.size(), 1U);
}

TEST(KeptRequest, OfABodyThatIsTooLargeIsItsHash) {
    for (const auto& keys : {std::vector<std::string>{}, {key_a}}) {
        const RequestCodec codec = codec_of(keys);
        const std::string small(Record::request_bytes_max - 512, 'x');
        std::string kept = codec.encode({}, operation, json, small);
        EXPECT_LE(kept.size(), Record::request_bytes_max);
        EXPECT_EQ(codec.decode(operation, kept)->body, small);
        for (const std::size_t more : {0U, 1U, 100'000U}) {
            const std::string large(Record::request_bytes_max + more, 'x');
            kept = codec.encode({}, operation, json, large);
            EXPECT_LT(kept.size(), 100U);
            const auto read = codec.decode(operation, kept);
            ASSERT_TRUE(read.ok());
            EXPECT_FALSE(read->body);
            EXPECT_EQ(read->hash, view(sha256(large)));
        }
    }
}

TEST(KeptRequest, NeverGoesOverTheLimitOfTheLedger) {
    for (const auto& keys : {std::vector<std::string>{}, {key_a}}) {
        std::size_t whole = 0;
        for (std::size_t below = 0; below < 200; ++below) {
            const std::string body(Record::request_bytes_max - below, 'x');
            std::string kept = codec_of(keys).encode({}, operation, json, body);
            ASSERT_LE(kept.size(), Record::request_bytes_max);
            if (codec_of(keys).decode(operation, kept)->body) ++whole;
        }
        EXPECT_GT(whole, 0U);
        EXPECT_LT(whole, 200U);
    }
}

TEST(KeptRequest, WhereOnlyTheStatusIsKeptIsTheHash) {
    Route route;
    route.keep = Keep::status;
    std::string kept = codec_of().encode(route, operation, json, R"({"card":"4242"})");
    EXPECT_THAT(kept, Not(HasSubstr("4242")));
    EXPECT_EQ(codec_of().decode(operation, kept)->hash, view(sha256(R"({"card":"4242"})")));
}

TEST(KeptRequest, SealedOpensForItsOperationWithItsKeyOnly) {
    const std::string body = R"({"card":"4242"})";
    const std::string sealed = codec_of({key_a}).encode({}, operation, json, body);
    EXPECT_THAT(sealed, Not(HasSubstr("4242")));
    EXPECT_THAT(sealed, Not(HasSubstr("json")));
    std::string kept = sealed;
    EXPECT_EQ(codec_of({key_b, key_a}).decode(operation, kept)->body, body);
    EXPECT_EQ(code_of(codec_of({key_b}), sealed), Code::unavailable);
    EXPECT_EQ(code_of(codec_of(), sealed), Code::unavailable);
    EXPECT_EQ(code_of(codec_of({key_a}), sealed, another), Code::corrupt);
    for (std::size_t at = 12; at < sealed.size(); ++at) {
        std::string changed = sealed;
        changed[at] = static_cast<char>(changed[at] ^ 1);
        EXPECT_EQ(code_of(codec_of({key_a}), changed), Code::corrupt) << at;
    }
}

TEST(KeptRequest, OfAnythingElseIsCorrupt) {
    const std::string plain = codec_of().encode({}, operation, json, "{}");
    for (std::size_t size = 0; size < plain.size(); ++size)
        EXPECT_EQ(code_of(codec_of(), plain.substr(0, size)), Code::corrupt) << size;
    EXPECT_EQ(code_of(codec_of(), plain + "x"), Code::corrupt);
    EXPECT_EQ(code_of(codec_of(), std::string("\xf5SR\x03", 4)), Code::corrupt);
    EXPECT_EQ(code_of(codec_of(), std::string("\xf5SR\x01\x03", 5)), Code::corrupt);
    EXPECT_EQ(code_of(codec_of(), *from_hex("f5535201"
                                            "01"
                                            "01"
                                            "06436f6f6b6965"
                                            "0161"
                                            "00")),
              Code::corrupt);
    EXPECT_EQ(code_of(codec_of(), *from_hex("f5535201"
                                            "01"
                                            "01"
                                            "0c436f6e74656e742d54797065"
                                            "020d0a"
                                            "00")),
              Code::corrupt);
}

// The examples of docs/formats/request.md.
TEST(KeptRequest, TheFormatIsFixedForEver) {
    const http::RequestHead head = head_of({{"Content-Type", "text/x"}});
    EXPECT_EQ(to_hex(codec_of().encode({}, operation, head, "{}")),
              "f5535201"
              "01"
              "01"
              "0c436f6e74656e742d54797065"
              "06746578742f78"
              "027b7d");
    Route route;
    route.keep = Keep::status;
    EXPECT_EQ(to_hex(codec_of().encode(route, operation, head, "{}")),
              "f5535201"
              "02"
              "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

TEST(KeptRequest, IsNeededWhereARetryMayHaveOtherBytes) {
    Route route;
    EXPECT_FALSE(keeps_requests(route, false));
    route.policy.on_unknown = OnUnknown::joined;
    EXPECT_FALSE(keeps_requests(route, false));
    route.policy.on_unknown = OnUnknown::retry;
    EXPECT_TRUE(keeps_requests(route, false));
    EXPECT_FALSE(keeps_requests(route, true));
    route.webhook = Webhook{.provider = "stripe", .id = *JsonPointer::parse("/id")};
    EXPECT_FALSE(keeps_requests(route, false));
}

}  // namespace
}  // namespace semel::gateway
