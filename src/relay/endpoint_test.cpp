#include "relay/endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "curl/test_server.hpp"

namespace semel::relay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using How = DeliveryEnd::How;

EndpointOptions to(const std::string& url) {
    EndpointOptions options;
    options.request.url = url;
    options.call.timeout = seconds{10};
    return options;
}

const Operation parent{Scope::make("", "orders").value(), Key::parse("/shop e1").value()};
const Event event{
    .id = "e1", .source = "/shop", .type = "paid", .data_content_type = "application/json", .data = R"({"total":7})"};

Delivered deliver(const EndpointOptions& options) {
    auto endpoint = Endpoint::open(options);
    EXPECT_TRUE(endpoint.ok()) << endpoint.failure().message;
    return endpoint->deliver({event, parent, "c1", 1}).value();
}

TEST(RelayEndpoint, DeliversAnEventAndReadsTheAnswer) {
    std::string seen;
    Delivered delivered;
    {
        const TestServer server([&](int socket, int) {
            seen = read_request(socket);
            write(socket,
                  "HTTP/1.1 103 Early Hints\r\nIdempotent-Replayed: true\r\n\r\n"
                  "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok");
            wait_for_end(socket);
        });
        delivered = deliver(to(server.url()));
    }
    EXPECT_EQ(delivered.end.how, How::answered);
    EXPECT_EQ(delivered.end.status, 201);
    EXPECT_FALSE(delivered.end.replayed);
    EXPECT_EQ(delivered.end.retry_after, std::nullopt);
    EXPECT_EQ(delivered.body, "ok");
    EXPECT_EQ(delivered.content_type, "text/plain");
    EXPECT_TRUE(delivered.whole);
    EXPECT_TRUE(seen.starts_with("POST /orders HTTP/1.1\r\n")) << seen;
    EXPECT_TRUE(seen.ends_with("\r\n\r\n{\"total\":7}")) << seen;
    for (const std::string line : {"ce-id: e1", "Content-Type: application/json", "Content-Length: 11",
                                   "Idempotency-Key: \"", "X-Correlation-Id: c1", "User-Agent: semel"})
        EXPECT_THAT(seen, HasSubstr("\r\n" + line));
    EXPECT_THAT(seen, testing::Not(HasSubstr("Expect:")));
}

TEST(RelayEndpoint, ReadsWhatAnAnswerSaysAboutItself) {
    const TestServer server(
        always("HTTP/1.1 409 Conflict\r\nidempotent-replayed: True\r\nRetry-After: 7\r\n"
               "Content-Type: application/problem+json\r\nContent-Length: 41\r\n\r\n"
               R"({"type":"urn:semel:problem:in-progress"})"
               "\n"));
    const Delivered delivered = deliver(to(server.url()));
    EXPECT_EQ(delivered.end.status, 409);
    EXPECT_TRUE(delivered.end.replayed);
    EXPECT_EQ(delivered.end.retry_after, seconds{7});
    ASSERT_TRUE(delivered.end.problem.has_value());
    EXPECT_EQ(delivered.end.problem->slug, "in-progress");
}

TEST(RelayEndpoint, WithoutAConnectionNothingWasSent) {
    const UnservedPort port;
    const Delivered refused = deliver(to(port.url()));
    EXPECT_EQ(refused.end.how, How::not_sent);
    EXPECT_THAT(refused.end.reason, HasSubstr("not sent: "));
}

TEST(RelayEndpoint, WhatBreaksAfterSendingIsUnknown) {
    const TestServer server([&](int socket, int) { read_request(socket); });
    EXPECT_EQ(deliver(to(server.url())).end.how, How::broken);
}

TEST(RelayEndpoint, NoAnswerInTimeIsATimeout) {
    const TestServer server([](int socket, int) {
        read_request(socket);
        wait_for_end(socket);
    });
    EndpointOptions options = to(server.url());
    options.call.timeout = milliseconds{50};
    const Delivered delivered = deliver(options);
    EXPECT_EQ(delivered.end.how, How::timeout);
    EXPECT_THAT(delivered.end.reason, HasSubstr("no answer: "));
}

TEST(RelayEndpoint, AnEventThatCannotBeWrittenIsNotSent) {
    EndpointOptions options = to("http://127.0.0.1:1/{/nothing}");
    options.request.mode = DeliveryMode::plain;
    auto endpoint = Endpoint::open(options);
    EXPECT_EQ(endpoint->deliver({event, parent, "", 1}).failure().code, Code::invalid);
}

TEST(RelayEndpoint, OptionsAreChecked) {
    EXPECT_THAT(Endpoint::open(to("ftp://x/")).failure().message, HasSubstr("to.url"));
    EndpointOptions options = to("https://x/");
    options.call.tls.ca = "/no/such/file.pem";
    EXPECT_THAT(Endpoint::open(options).failure().message, HasSubstr("to.tls.ca: /no/such/file.pem cannot be read"));
}

}  // namespace
}  // namespace semel::relay
