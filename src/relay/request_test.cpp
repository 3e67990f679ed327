#include "relay/request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace semel::relay {
namespace {

using testing::HasSubstr;

Operation operation() { return {Scope::make("", "orders").value(), Key::parse("/shop e1").value()}; }

Event order() {
    return {.id = "e1",
            .source = "/shop",
            .type = "paid",
            .subject = "order 7",
            .data_content_type = "application/json",
            .extensions = {{"traceparent", "00-ab"}},
            .data = R"({"id":"o/7","total":7.50,"lines":[{"sku":"a\"b"},null],"note":"\u00e9","empty":"","up":".."})"};
}

Result<HttpRequest> made(const RequestOptions& options, const Event& event, std::string_view correlation = "c1") {
    auto maker = RequestMaker::make(options);
    if (!maker) return maker.failure();
    const Operation parent = operation();
    return maker->request({event, parent, correlation, 2});
}

std::map<std::string, std::string> headers(const HttpRequest& request) {
    std::map<std::string, std::string> all;
    for (const auto& [name, value] : request.fields) EXPECT_TRUE(all.emplace(name, value).second) << name;
    return all;
}

RequestOptions plain(std::string url = "http://api/orders") {
    return {.url = std::move(url), .mode = DeliveryMode::plain};
}

void expect_refused(const RequestOptions& options, const Event& event, std::string_view why) {
    const auto request = made(options, event);
    ASSERT_FALSE(request.ok()) << request->url << ' ' << request->body;
    EXPECT_EQ(request.failure().code, Code::invalid);
    EXPECT_THAT(request.failure().message, HasSubstr(std::string(why)));
}

TEST(RelayRequest, BinaryModeWritesAttributesIntoHeaders) {
    const auto request = made({.url = "http://api/orders"}, order());
    EXPECT_EQ(request->method, "POST");
    EXPECT_EQ(request->url, "http://api/orders");
    EXPECT_EQ(request->body, order().data);
    const std::map<std::string, std::string> wanted{
        {"ce-specversion", "1.0"},
        {"ce-id", "e1"},
        {"ce-source", "/shop"},
        {"ce-type", "paid"},
        {"ce-subject", "order%207"},
        {"ce-traceparent", "00-ab"},
        {"Content-Type", "application/json"},
        {"Idempotency-Key", "\"" + derive(operation(), "relay").text() + "\""},
        {"Semel-Operation", headers(*request)["Semel-Operation"]},
        {"Semel-Scope", "orders"},
        {"Semel-Tries", "2"},
        {"X-Correlation-Id", "c1"},
        {"traceparent", "00-ab"}};
    EXPECT_EQ(headers(*request), wanted);
    EXPECT_EQ(headers(*request)["Semel-Operation"].size(), 32u);
}

TEST(RelayRequest, HeadersArePercentEncodedAsCloudEventsSay) {
    EXPECT_EQ(percent_encoded_header("Euro \xe2\x82\xac \xf0\x9f\x98\x80"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
    EXPECT_EQ(percent_encoded_header("a\"b%c~!\x7f"), "a%22b%25c~!%7F");
    Event event = order();
    event.id = "\xc3\xa9 1";
    EXPECT_EQ(headers(made({.url = "http://api/"}, event).value())["ce-id"], "%C3%A9%201");
}

TEST(RelayRequest, TheKeyIsTheSameOnEveryDelivery) {
    const auto maker = RequestMaker::make({.url = "http://api/"});
    const Operation parent = operation();
    const Event event = order();
    std::string first;
    for (std::uint32_t tries = 1; tries < 4; ++tries) {
        auto all = headers(maker->request({event, parent, "", tries}).value());
        if (first.empty()) first = all["Idempotency-Key"];
        EXPECT_EQ(all["Idempotency-Key"], first);
        EXPECT_EQ(all.count("X-Correlation-Id"), 0u);
    }
}

TEST(RelayRequest, StructuredModeIsOneJsonObject) {
    const RequestOptions options{.url = "http://api/", .mode = DeliveryMode::structured};
    const std::string begin = R"({"specversion":"1.0","id":"e\"1","source":"/","type":"t")";
    const struct {
        std::string content_type, data, rest;
    } rows[] = {
        {"", "", "}"},
        {"application/json", " {\"a\": 1}", R"(,"datacontenttype":"application/json","data": {"a": 1}})"},
        {"", "7", R"(,"data":7})"},
        {"", "hello", R"(,"data_base64":"aGVsbG8="})"},
        {"application/json", "{", R"(,"datacontenttype":"application/json","data_base64":"ew=="})"},
        {"text/plain", "a\nb", R"(,"datacontenttype":"text/plain","data":"a\u000ab"})"},
        {"text/plain", "\xff", R"(,"datacontenttype":"text/plain","data_base64":"/w=="})"},
        {"text/plain", "", R"(,"datacontenttype":"text/plain","data":""})"},
    };
    for (const auto& row : rows) {
        const Event event{
            .id = "e\"1", .source = "/", .type = "t", .data_content_type = row.content_type, .data = row.data};
        const auto request = made(options, event);
        EXPECT_EQ(request->body, begin + row.rest);
        EXPECT_EQ(headers(*request)["Content-Type"], "application/cloudevents+json; charset=utf-8");
    }
}

TEST(RelayRequest, CloudEventsNeedTypeAndSource) {
    Event event = order();
    event.type.clear();
    for (const DeliveryMode mode : {DeliveryMode::binary, DeliveryMode::structured})
        expect_refused({.url = "http://api/", .mode = mode}, event, "no type");
    EXPECT_TRUE(made(plain(), event).ok());
}

TEST(RelayRequest, PlainModeSendsTheDataOrATemplate) {
    RequestOptions options = plain();
    auto request = made(options, order());
    EXPECT_EQ(request->body, order().data);
    EXPECT_EQ(headers(*request)["Content-Type"], "application/json");
    EXPECT_EQ(headers(*request).count("ce-id"), 0u);

    options.method = "PUT";
    options.url = "http://api/{type}/{/id}?t={/total}&s={subject}&n={/note}&e={/empty}";
    options.headers = {{"PayPal-Request-Id", "{key}"}, {"X-Order", "order-{/id}"}, {"Authorization", "Bearer x"}};
    options.body =
        R"({ "ref": "{id} of {source}", "all": {data}, "lines": {/lines}, "total": {/total}, "who": {subject},
                        "first": "{/lines/0/sku}", "none": {}, "k": "\"{key}" })";
    request = made(options, order());
    ASSERT_TRUE(request.ok()) << request.failure().message;
    EXPECT_EQ(request->method, "PUT");
    EXPECT_EQ(request->url, "http://api/paid/o%2F7?t=7.50&s=order%207&n=%C3%A9&e=");
    const std::string key = derive(operation(), "relay").text();
    EXPECT_EQ(headers(*request)["PayPal-Request-Id"], key);
    EXPECT_EQ(headers(*request)["X-Order"], "order-o/7");
    EXPECT_EQ(request->body, R"({ "ref": "e1 of /shop", "all": )" + order().data +
                                 R"(, "lines": [{"sku":"a\"b"},null], "total": 7.50, "who": "order 7",
                        "first": "a\"b", "none": {}, "k": "\")" +
                                 key + R"(" })");
}

TEST(RelayRequest, WhatIsFilledInCannotLeaveItsPlace) {
    const Event event = order();
    expect_refused(plain("http://api/{/up}/x"), event, "empty, . and .. would name another path");
    expect_refused(plain("http://api/{/empty}/x"), event, "empty, . and ..");
    expect_refused(plain("http://api/{/nothing}"), event, "{/nothing}: there is nothing");
    expect_refused(plain("http://api/{/lines}"), event, "no single value");
    Event hostile = event;
    hostile.data = R"({"id":"a\r\nX-Evil: 1","q":"\",\"admin\":true,\"x\":\""})";
    RequestOptions options = plain();
    options.headers = {{"X-Order", "{/id}"}};
    expect_refused(options, hostile, "to.headers.X-Order: {/id}: a header cannot hold it");
    options = plain("http://api/{/id}");
    EXPECT_EQ(made(options, hostile)->url, "http://api/a%0D%0AX-Evil%3A%201");
    options.body = R"({"q":"{/q}"})";
    EXPECT_EQ(made(options, hostile)->body, R"({"q":"\",\"admin\":true,\"x\":\""})");
    hostile.data = "no json";
    expect_refused(plain("http://api/{/id}"), hostile, "the event's data is no JSON");
    options = plain();
    options.body = "{data}";
    expect_refused(options, hostile, "the event's data is no JSON");
    options.body = R"({"text":"{data}"})";
    EXPECT_EQ(made(options, hostile)->body, R"({"text":"no json"})");
    options.body = R"({"a": {id}{id}})";
    expect_refused(options, event, "is no JSON");
    hostile = event;
    hostile.data_content_type = "text/\xc3\xa9";
    expect_refused(plain(), hostile, "the header Content-Type cannot hold");
    hostile = event;
    hostile.extensions = {{"traceparent", "\xc3\xa9"}};
    EXPECT_EQ(headers(*made({.url = "http://api/"}, hostile)).count("traceparent"), 0u);
}

TEST(RelayRequest, OptionsAreChecked) {
    const auto expect_wrong = [](const RequestOptions& options, std::string_view why) {
        const auto maker = RequestMaker::make(options);
        ASSERT_FALSE(maker.ok()) << options.url;
        EXPECT_EQ(maker.failure().code, Code::invalid);
        EXPECT_THAT(maker.failure().message, HasSubstr(std::string(why)));
    };
    for (const std::string_view url :
         {"", "api", "ftp://api/", "http://", "http:///x", "http://user:pw@api/", "http://api/a b", "http://api/#x",
          "http://api:99999/", "http://api/\xc3\xa9", "file:///etc/passwd"})
        expect_wrong(plain(std::string(url)), "to.url: ");
    for (const std::string_view url : {"http://{id}/", "http://a{/x}/", "{source}/x", "http://api:{id}/"})
        expect_wrong(plain(std::string(url)), "before the path");
    expect_wrong(plain("http://api/{idd}"), "the brace at character 12 begins stands for nothing");
    expect_wrong(plain("http://api/{data}"), "{data} can only stand in a body");
    expect_wrong(plain("http://api/{/a~2}"), "to.url: ");
    for (const std::string_view name : {"", "a b", "Host", "content-length", "Transfer-Encoding", "Idempotency-Key",
                                        "semel_key", "ce-id", "Expect", "traceparent"}) {
        RequestOptions options = plain();
        options.headers = {{std::string(name), "x"}};
        expect_wrong(options, "cannot be set");
    }
    RequestOptions options = plain();
    options.headers = {{"X", "a\r\nb"}};
    expect_wrong(options, "to.headers.X: a header is printable ASCII");
    options.headers = {{"X", "{nope}"}};
    expect_wrong(options, "to.headers.X: what the brace at character 1 begins stands for nothing");
    options = {.url = "http://api/", .headers = {{"Content-Type", "text/plain"}}};
    expect_wrong(options, "CloudEvents say what the content type is");
    options = {.url = "http://api/", .body = "{}"};
    expect_wrong(options, "to.body: CloudEvents say");
    options = plain();
    options.method = "GET";
    expect_wrong(options, "to.method: write POST or PUT or PATCH or DELETE");
}

}  // namespace
}  // namespace semel::relay
