#include "semel/envelope.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace semel {
namespace {

using testing::HasSubstr;

std::string repeated(std::string_view text, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
}

Message structured(std::string body, Binding binding = Binding::kafka) {
    Message message;
    message.binding = binding;
    message.topic = "orders";
    message.content_type = "application/cloudevents+json";
    message.body = std::move(body);
    return message;
}

/// A JSON object of CloudEvents that is complete, with more members behind.
std::string with(std::string_view members) {
    return R"({"specversion":"1.0","id":"e1","source":"/shop","type":"paid")" + std::string(members) + "}";
}

Message binary(Binding binding, std::string_view prefix, std::vector<MessageHeader> more = {}) {
    Message message;
    message.binding = binding;
    message.content_type = "application/json";
    message.body = R"({"total": 7})";
    for (const auto& [name, value] :
         {std::pair{"specversion", "1.0"}, {"id", "e1"}, {"source", "/shop"}, {"type", "paid"}})
        message.headers.push_back({std::string(prefix) + name, value});
    message.headers.insert(message.headers.end(), more.begin(), more.end());
    return message;
}

Message json(std::string body) {
    Message message;
    message.body = std::move(body);
    return message;
}

EnvelopeOptions by_pointers() {
    return {.kind = EnvelopeKind::json,
            .id_pointer = "/id",
            .type_pointer = "/kind",
            .source = "shop",
            .subject_pointer = "/order/number"};
}

Event read(const Message& message, const EnvelopeOptions& options = {}) {
    const auto event = read_envelope(message, options);
    EXPECT_TRUE(event.ok()) << event.failure().message;
    return event.ok() ? *event : Event{};
}

void expect_refused(const Message& message, std::string_view why, const EnvelopeOptions& options = {}) {
    const auto event = read_envelope(message, options);
    ASSERT_FALSE(event.ok()) << message.body.substr(0, 200);
    EXPECT_EQ(event.failure().code, Code::invalid);
    EXPECT_THAT(event.failure().message, HasSubstr(std::string(why)));
    EXPECT_TRUE(std::ranges::all_of(event.failure().message, [](char c) { return c >= 0x20 && c < 0x7f; }))
        << event.failure().message;
}

// ---- CloudEvents, structured ---------------------------------------------------------------------------------------

TEST(Envelope, StructuredEventsCarryEverythingInTheBody) {
    const Event event = read(structured(
        R"({ "type":"paid", "specversion" : "1.0", "id":"e\u0031", "source":"/shop", "subject":"order 7",
            "time":"2024-05-01T10:00:00Z", "datacontenttype":"application/vnd.shop+json", "dataschema":"https://x/y",
            "traceparent":"00-ab", "priority":5, "urgent":true, "unset":null, "data" : { "b":1.0,  "a":[1e2] } })"));
    EXPECT_EQ(event, (Event{.id = "e1",
                            .source = "/shop",
                            .type = "paid",
                            .subject = "order 7",
                            .time = "2024-05-01T10:00:00Z",
                            .data_content_type = "application/vnd.shop+json",
                            .data_schema = "https://x/y",
                            .extensions = {{"priority", "5"}, {"traceparent", "00-ab"}, {"urgent", "true"}},
                            .data = R"({ "b":1.0,  "a":[1e2] })"}));
}

TEST(Envelope, StructuredDataIsKeptAsItWasWritten) {
    const struct {
        std::string_view members, data, content_type;
    } rows[] = {
        {"", "", ""},
        {R"(,"data":null)", "null", "application/json"},
        {R"(,"data": -1.50e+2 )", "-1.50e+2", "application/json"},
        {R"(,"data":"a\u0041")", R"("a\u0041")", "application/json"},
        {R"(,"d\u0061ta":{"data":[{"x":"}]\"\\"}, [] ]} ,"z":"1")", R"({"data":[{"x":"}]\"\\"}, [] ]})",
         "application/json"},
        {R"(,"a":"\"data\":1,{","data":[],"z":"x")", "[]", "application/json"},
        {R"(,"data":true,"datacontenttype":"text/json; charset=utf-8")", "true", "text/json; charset=utf-8"},
        {R"(,"data":"<a\u0041 \"\n>","datacontenttype":"application/xml")", "<aA \"\n>", "application/xml"},
        {R"(,"data":{"a": 1},"datacontenttype":"application/xml")", R"({"a": 1})", "application/xml"},
        {R"(,"data":"x","datacontenttype":"Application/A+JSON;v=1")", R"("x")", "Application/A+JSON;v=1"},
        {R"(,"data_base64":"AAEC/+8=")", std::string_view("\x00\x01\x02\xff\xef", 5), ""},
        {R"(,"data_base64":"","datacontenttype":"image/png")", "", "image/png"},
    };
    for (const auto& row : rows) {
        const Event event = read(structured(with(row.members)));
        EXPECT_EQ(event.data, row.data) << row.members;
        EXPECT_EQ(event.data_content_type, row.content_type) << row.members;
    }
}

TEST(Envelope, TheMediaTypeTellsStructuredEventsInAnySpelling) {
    Message message = structured(with(""));
    message.content_type = " Application/CloudEvents+JSON ; charset=utf-8";
    EXPECT_EQ(read(message).id, "e1");
    // NATS had no headers once: the body was the event.
    message.content_type.clear();
    message.binding = Binding::nats;
    EXPECT_EQ(read(message).id, "e1");
    message.binding = Binding::redis;
    expect_refused(message, "no header ce-specversion");
}

TEST(Envelope, StructuredEventsThatAreNotPlainAreRefused) {
    const struct {
        std::string body;
        std::string_view why;
    } rows[] = {
        {"", "the body is empty"},
        {"{", "the body is not JSON"},
        {"[]", "not an object"},
        {"\"x\"", "not an object"},
        {with("") + "x", "the body is not JSON"},
        {with(",\"x\":\"\xff\""), "the body is not valid UTF-8"},
        {with(R"(,"x":"\ud800")"), "lone surrogate"},
        {with(R"(,"id":"e2")"), "a name twice"},
        {with(R"(,"i\u0064":"e2")"), "a name twice"},
        {with(R"(,"data":{"a":1,"a":2})"), "a name twice"},
        {with(R"(,"data":)" + repeated("[", 200) + repeated("]", 200)), "more than 128 levels"},
        {repeated("[", 500'000), "more than 128 levels"},
        {R"({"id":"e1","source":"/","type":"t"})", "specversion is missing or empty"},
        {R"({"specversion":"1.0","source":"/","type":"t"})", "id is missing or empty"},
        {R"({"specversion":"1.0","id":"","source":"/","type":"t"})", "id is missing or empty"},
        {R"({"specversion":"1.0","id":null,"source":"/","type":"t"})", "id is missing or empty"},
        {R"({"specversion":"1.0","id":7,"source":"/","type":"t"})", "id is no text"},
        {R"({"specversion":"1.0","id":"1","type":"t"})", "source is missing or empty"},
        {R"({"specversion":"1.0","id":"1","source":"/"})", "type is missing or empty"},
        {R"({"specversion":"0.3","id":"1","source":"/","type":"t"})", R"(specversion is "0.3")"},
        {R"({"specversion":"1.","id":"1","source":"/","type":"t"})", R"(specversion is "1.")"},
        {R"({"specversion":"1.x","id":"1","source":"/","type":"t"})", R"(specversion is "1.x")"},
        {R"({"specversion":1.0,"id":"1","source":"/","type":"t"})", "specversion is no text"},
        {with(R"(,"Upper":"x")"), R"("Upper" is no name)"},
        {with(R"(,"snake_case":"x")"), R"("snake_case" is no name)"},
        {with(R"(,"":"x")"), R"("" is no name)"},
        {with(R"(,")" + repeated("n", 65) + R"(":"x")"), "is no name"},
        {with(R"(,"x":{})"), "is no text, whole number, true or false"},
        {with(R"(,"x":[1])"), "is no text, whole number, true or false"},
        {with(R"(,"x":1.5)"), "is no text, whole number, true or false"},
        {with(R"(,"x":-0)"), "is no text, whole number, true or false"},
        {with(R"(,"subject":7)"), "subject is no text"},
        {with(R"(,"x":"a\u0000b")"), "x has a control character"},
        {with(R"(,"x":"a\nb")"), "x has a control character"},
        {with(R"(,"x":"a\u007fb")"), "x has a control character"},
        {with(R"(,"x":"a\u0085b")"), "x has a control character"},
        {with(R"(,"x":")" + repeated("x", 4097) + "\""), "x has 4097 bytes; at most 4096"},
        {with(R"(,"data":1,"data_base64":"")"), "both data and data_base64"},
        {with(R"(,"data_base64":7)"), "data_base64 is not"},
        {with(R"(,"data_base64":"AAE")"), "data_base64 is not"},
        {with(R"(,"data_base64":"A===")"), "data_base64 is not"},
        {with(R"(,"data_base64":"AAF=")"), "data_base64 is not"},
        {with(R"(,"data_base64":"AA E")"), "data_base64 is not"},
        {with(R"(,"data_base64":"AA-_")"), "data_base64 is not"},
    };
    for (const auto& row : rows) expect_refused(structured(row.body), row.why);
}

TEST(Envelope, IdsHaveALimitAndMayBeAnyText) {
    const auto event_with = [](const std::string& id) {
        return structured(R"({"specversion":"1.0","source":"/","type":"t","id":")" + id + "\"}");
    };
    for (const std::string& id : {std::string("a b\xc3\xa9\xf0\x9f\x98\x80"), repeated("i", 1024)})
        EXPECT_EQ(read(event_with(id)).id, id);
    expect_refused(event_with(repeated("i", 1025)), "id has 1025 bytes; at most 1024");
    expect_refused(event_with(repeated("i", 10'240)), "id has 10240 bytes");
    expect_refused(event_with("a\\u0007"), "id has a control character");
}

TEST(Envelope, BodiesAndAttributesHaveLimits) {
    EnvelopeOptions options;
    options.body_bytes_max = with("").size();
    EXPECT_EQ(read(structured(with("")), options).id, "e1");
    expect_refused(structured(with("") + " "), "at most 62 are allowed", options);
    options = {};
    options.attributes_max = 5;
    EXPECT_EQ(read(structured(with(R"(,"a":"1")")), options).extensions.size(), 1u);
    expect_refused(structured(with(R"(,"a":"1","b":"2")")), "more than 5 attributes", options);
}

// ---- CloudEvents, binary -------------------------------------------------------------------------------------------

TEST(Envelope, BinaryEventsHaveTheirAttributesInHeadersOfTheBinding) {
    const struct {
        Binding binding;
        std::string_view prefix;
    } rows[] = {{Binding::kafka, "ce_"},
                {Binding::rabbitmq, "cloudEvents:"},
                {Binding::rabbitmq, "cloudEvents_"},
                {Binding::nats, "ce-"},
                {Binding::nats, "CE-"},
                {Binding::nats, "Ce-"},
                {Binding::redis, "ce-"}};
    for (const auto& row : rows) {
        Message message = binary(row.binding, row.prefix,
                                 {{std::string(row.prefix) + "subject", "o7"},
                                  {std::string(row.prefix) + "traceparent", "00-ab"},
                                  {"other", "\xff\n"}});
        const Event whole{.id = "e1",
                          .source = "/shop",
                          .type = "paid",
                          .subject = "o7",
                          .data_content_type = "application/json",
                          .extensions = {{"traceparent", "00-ab"}},
                          .data = R"({"total": 7})"};
        EXPECT_EQ(read(message), whole) << row.prefix;
        // Any data, which is not looked into.
        message.body = std::string("\x00\xff{", 3);
        message.content_type.clear();
        EXPECT_EQ(read(message).data, message.body);
        EXPECT_EQ(read(message).data_content_type, "");
    }
}

TEST(Envelope, ThePrefixOfAnotherBindingIsNoAttribute) {
    expect_refused(binary(Binding::kafka, "ce-"), "no header ce_specversion");
    expect_refused(binary(Binding::kafka, "CE_"), "no header ce_specversion");
    expect_refused(binary(Binding::rabbitmq, "ce_"), "no header cloudEvents:specversion");
    expect_refused(binary(Binding::nats, "ce_"), "no header ce-specversion");
    expect_refused(binary(Binding::redis, "ce_"), "no header ce-specversion");
}

TEST(Envelope, OnNatsAttributesArePercentEncoded) {
    const struct {
        std::string_view written, read;
    } rows[] = {{"Euro%20%E2%82%AC%20%f0%9f%98%80", "Euro \xe2\x82\xac \xf0\x9f\x98\x80"},
                {"100%25", "100%"},
                {"plain text", "plain text"},
                {R"("a \"b\" \\ %41")", R"(a "b" \ A)"},
                {R"("")", ""},
                {"", ""}};
    for (const auto& row : rows)
        EXPECT_EQ(read(binary(Binding::nats, "ce-", {{"ce-subject", std::string(row.written)}})).subject, row.read);
    for (const std::string_view wrong : {"100%", "%4", "%zz", "%-1", "\"", "\"a", "\"a\"b\"", "\"a\\\""})
        expect_refused(binary(Binding::nats, "ce-", {{"ce-subject", std::string(wrong)}}), "is not percent-encoded");
    expect_refused(binary(Binding::nats, "ce-", {{"ce-subject", "%C0%A0"}}), "subject is not valid UTF-8");
    expect_refused(binary(Binding::nats, "ce-", {{"ce-subject", "a%00"}}), "subject has a control character");
    // Elsewhere a percent sign is one.
    EXPECT_EQ(read(binary(Binding::kafka, "ce_", {{"ce_subject", "100%"}})).subject, "100%");
}

TEST(Envelope, BinaryEventsThatAreNotPlainAreRefused) {
    const struct {
        MessageHeader header;
        std::string_view why;
    } rows[] = {
        {{"ce_id", "e2"}, "the attribute id is there twice"},
        {{"ce_id", "e1"}, "the attribute id is there twice"},
        {{"ce_data", "x"}, R"("data" is no name)"},
        {{"ce_", "x"}, R"("" is no name)"},
        {{"ce_Subject", "x"}, R"("Subject" is no name)"},
        {{"ce_x", "\xc3("}, "x is not valid UTF-8"},
        {{"ce_x", "\xc2"}, "x is not valid UTF-8"},
        {{"ce_x", "a\x01"}, "x has a control character"},
        {{"ce_x", "\xc2\x9f"}, "x has a control character"},
        {{"ce_x", repeated("x", 5000)}, "x has 5000 bytes"},
        {{"ce_datacontenttype", "text/plain"}, "datacontenttype is not the message's content type"},
    };
    for (const auto& row : rows) expect_refused(binary(Binding::kafka, "ce_", {row.header}), row.why);
    for (const std::size_t missing : {1U, 2U, 3U}) {
        Message message = binary(Binding::kafka, "ce_");
        message.headers[missing].value.clear();
        expect_refused(message, "is missing or empty");
        message.headers.erase(message.headers.begin() + static_cast<std::ptrdiff_t>(missing));
        expect_refused(message, "is missing or empty");
    }
    Message twice = binary(Binding::rabbitmq, "cloudEvents:", {{"cloudEvents_id", "e1"}});
    expect_refused(twice, "the attribute id is there twice");
    Message many = binary(Binding::kafka, "ce_");
    for (int i = 0; i < 100; ++i) many.headers.push_back({"ce_x" + std::to_string(i), ""});
    expect_refused(many, "more than 64 attributes");
}

TEST(Envelope, TheContentTypeOfBinaryDataMayBeSaidTwiceIfItIsTheSame) {
    Message message = binary(Binding::kafka, "ce_", {{"ce_datacontenttype", "application/json"}});
    EXPECT_EQ(read(message).data_content_type, "application/json");
    message.content_type.clear();
    EXPECT_EQ(read(message).data_content_type, "application/json");
    message.content_type = "a\nb";
    message.headers.pop_back();
    expect_refused(message, "datacontenttype has a control character");
}

TEST(Envelope, OtherFormatsOfCloudEventsAreNamed) {
    Message message = structured("[]");
    message.content_type = "application/cloudevents-batch+json";
    expect_refused(message, "a batch of events in one message");
    message.content_type = "application/cloudevents+avro; v=1";
    expect_refused(message, R"(the content type is "application/cloudevents+avro")");
    message.content_type = "application/json";
    expect_refused(message, R"(no CloudEvent: the content type is "application/json")");
}

// ---- JSON with pointers --------------------------------------------------------------------------------------------

TEST(Envelope, JsonHasItsIdAtAPointer) {
    const std::string body = R"({"id":"e1", "kind":"paid", "order":{"number":7}, "at":"now"})";
    EnvelopeOptions options = by_pointers();
    EXPECT_EQ(read(json(body), options), (Event{.id = "e1",
                                                .source = "shop",
                                                .type = "paid",
                                                .subject = "7",
                                                .data_content_type = "application/json",
                                                .data = body}));
    options.type_pointer.clear();
    options.source_pointer = "/kind";
    options.subject_pointer = "/none";
    options.time_pointer = "/at";
    Message message = json(body);
    message.content_type = "application/vnd.shop+json";
    EXPECT_EQ(read(message, options), (Event{.id = "e1",
                                             .source = "paid",
                                             .time = "now",
                                             .data_content_type = "application/vnd.shop+json",
                                             .data = body}));
}

TEST(Envelope, JsonIdsAreTextsOrWholeNumbers) {
    const EnvelopeOptions options{.kind = EnvelopeKind::json, .id_pointer = "/a/0/id"};
    const struct {
        std::string_view value, id;
    } right[] = {{"\"x\"", "x"},
                 {"7", "7"},
                 {"-12", "-12"},
                 {"0", "0"},
                 {"9007199254740993123456789", "9007199254740993123456789"},
                 {R"("\u00e9")", "\xc3\xa9"}};
    for (const auto& row : right)
        EXPECT_EQ(read(json(R"({"a":[{"id":)" + std::string(row.value) + "}]}"), options).id, row.id);
    for (const std::string_view wrong : {"null", "true", "1.0", "1e3", "-0", "[1]", "{}"})
        expect_refused(json(R"({"a":[{"id":)" + std::string(wrong) + "}]}"), "is no text and no whole number", options);
    expect_refused(json(R"({"a":[{"id":""}]})"), R"(the id at "/a/0/id" is empty)", options);
    expect_refused(json(R"({"a":[]})"), R"(there is no id at "/a/0/id")", options);
    expect_refused(json("7"), R"(there is no id at "/a/0/id")", options);
    expect_refused(json(R"({"a":[{"id":"\u0000"}]})"), "has a control character", options);
    expect_refused(json(R"({"a":[{"id":")" + repeated("i", 10'240) + R"("}]})"), "has 10240 bytes", options);
    expect_refused(json(R"({"a":[{"id":)" + repeated("1", 2000) + R"(}]})"), "has 2000 bytes", options);
}

TEST(Envelope, JsonThatIsNotPlainIsRefused) {
    const EnvelopeOptions options = by_pointers();
    const struct {
        std::string body;
        std::string_view why;
    } rows[] = {{"", "the body is empty"},
                {"id", "the body is not JSON"},
                {R"({"id":"e1","id":"e2","kind":"k"})", "a name twice"},
                {R"({"id":"e1"})", R"(there is no type at "/kind")"},
                {R"({"id":"e1","kind":{}})", R"(the type at "/kind" is no text)"},
                {R"({"id":"e1","kind":"k","order":{"number":[]}})", R"(the subject at "/order/number" is no text)"},
                {R"({"kind":"k"})", R"(there is no id at "/id")"},
                {"{\"id\":\"\xff\"}", "the body is not valid UTF-8"},
                {repeated("{\"id\":", 10'000), "more than 128 levels"}};
    for (const auto& row : rows) expect_refused(json(row.body), row.why, options);
    Message message = json(R"({"id":"e1","kind":"k"})");
    message.content_type = "text/\xff";
    expect_refused(message, "the content type is not valid UTF-8", options);
}

TEST(Envelope, OptionsAreChecked) {
    EXPECT_TRUE(check(EnvelopeOptions{}).ok());
    EXPECT_TRUE(check(by_pointers()).ok());
    const auto expect_wrong = [](const EnvelopeOptions& options, std::string_view why) {
        const Status checked = check(options);
        ASSERT_FALSE(checked.ok());
        EXPECT_EQ(checked.failure().code, Code::invalid);
        EXPECT_THAT(checked.failure().message, HasSubstr(std::string(why)));
    };
    expect_wrong({.kind = EnvelopeKind::json}, "id:");
    expect_wrong({.kind = EnvelopeKind::json, .id_pointer = "id"}, "id:");
    expect_wrong({.kind = EnvelopeKind::json, .id_pointer = "/id", .subject_pointer = "~"}, "subject:");
    expect_wrong({.kind = EnvelopeKind::json, .id_pointer = "/id", .source = "a\n"}, "source has a control character");
}

TEST(Envelope, KnowsWhatIsJson) {
    for (const std::string_view yes : {"application/json", "text/json;charset=utf-8", " Application/X+JSON "})
        EXPECT_TRUE(is_json(yes)) << yes;
    for (const std::string_view no : {"", "json", "+json", "application/jsonx", "text/plain; a=b/json"})
        EXPECT_FALSE(is_json(no)) << no;
}

}  // namespace
}  // namespace semel
