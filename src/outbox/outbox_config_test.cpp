#include "outbox/outbox_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "outbox/cloud_event.hpp"

namespace semel::outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

const char* variable(const std::string& name) { return name == "AMQP" ? "amqp://user:secret@mq/" : nullptr; }

ReadOutboxConfig read(std::string_view text) { return read_outbox_config_text(text, "outbox.yaml", variable); }

std::string all(const ReadOutboxConfig& found) {
    std::string text;
    for (const settings::ConfigProblem& problem : found.problems) text += problem.text() + "\n";
    return text;
}

TEST(OutboxConfig, LittleIsNeeded) {
    const auto found = read("store: sqlite:shop.db\noutboxes: [{to: {kafka: {brokers: 'k:9092'}}}]\n");
    ASSERT_TRUE(found.config) << all(found);
    const OutboxPlan& plan = found.config->outboxes.front();
    EXPECT_EQ(plan.name, "main");
    EXPECT_EQ(std::get<KafkaOptions>(plan.to), KafkaOptions{.brokers = "k:9092"});
    EXPECT_EQ(plan.pump.lease, seconds{10});
    EXPECT_EQ(plan.pump.batch, 4000);
}

TEST(OutboxConfig, EverythingCanBeSaid) {
    const auto found = read(
        "store: postgres://shop@db/shop\nadmin: 127.0.0.1:8083\noutboxes:\n"
        "- {name: a, to: {rabbitmq: {url: '${AMQP}', exchange: shop, heartbeat: 5s, connect_timeout: 1s, ca: "
        "ca.pem}},\n"
        "   lease: 5s, batch: 10, poll: 50ms, alarm: 1m, retries: {first: 2s, max: 3m}}\n"
        "- {name: b, to: {nats: {url: 'nats://n:4222', credentials: c.creds, ca: ca.pem, connect_timeout: 2s}}}\n"
        "- {name: c, to: {redis: {url: 'redis://r', entries_max: 1000, timeout: 3s}}}\n"
        "- {name: d, to: {http: {url: 'https://shop/', headers: {Authorization: Bearer x}, concurrency: 4, timeout: "
        "3s,\n"
        "   tls: {ca: ca.pem}}}}\n"
        "- {name: e, to: {kafka: {brokers: 'k:9092', settings: {linger.ms: 5}}}}\n");
    ASSERT_TRUE(found.config) << all(found);
    const auto& outboxes = found.config->outboxes;
    const auto& rabbitmq = std::get<RabbitmqOptions>(outboxes[0].to);
    EXPECT_EQ(rabbitmq.connection.url, "amqp://user:secret@mq/");
    EXPECT_EQ(rabbitmq.exchange, "shop");
    EXPECT_EQ(outboxes[0].pump.poll, milliseconds{50});
    EXPECT_EQ(outboxes[0].pump.retry_max, minutes{3});
    EXPECT_EQ(std::get<NatsOptions>(outboxes[1].to).connection.credentials_file, "c.creds");
    EXPECT_EQ(std::get<RedisOptions>(outboxes[2].to).entries_max, 1000);
    const auto& http = std::get<HttpOptions>(outboxes[3].to);
    EXPECT_EQ(http.url, "https://shop");
    EXPECT_EQ(http.headers.at("Authorization"), "Bearer x");
    EXPECT_EQ(http.call.tls.ca, "ca.pem");
    EXPECT_EQ(std::get<KafkaOptions>(outboxes[4].to).settings.at("linger.ms"), "5");
}

TEST(OutboxConfig, EveryProblemIsToldAtOnce) {
    const auto found = read(
        "store: mysql://x\noutboxes:\n"
        "- {name: a, to: {kafka: {}, nats: {url: 'nats://x'}}}\n"
        "- {name: a, to: {kafka: {brokers: 'k:1'}}, leese: 3s}\n"
        "- {name: c, to: {rabbitmq: {url: 'http://user:secret@mq'}}, retries: {first: 5s, max: 1s}}\n"
        "- {name: d}\n");
    EXPECT_FALSE(found.config);
    const std::string text = all(found);
    for (const char* part : {"outbox.yaml:1", "outbox.yaml:3", "one broker", "leese", "another outbox has this name",
                             "outbox.yaml:5", "longer than max", "outbox.yaml:6", "to"})
        EXPECT_THAT(text, HasSubstr(part));
    EXPECT_THAT(text, Not(HasSubstr("secret")));
}

TEST(CloudEvent, AttributesBecomeHeaders) {
    Event event{.id = "e 1", .source = "/shop", .type = "paid", .extensions = {{"traceparent", "00"}}};
    EXPECT_EQ(binary_headers(event, "ce-", Encoding::percent), (std::vector<MessageHeader>{{"ce-specversion", "1.0"},
                                                                                           {"ce-id", "e%201"},
                                                                                           {"ce-source", "/shop"},
                                                                                           {"ce-type", "paid"},
                                                                                           {"ce-traceparent", "00"}}));
    EXPECT_EQ(percent_encoded("a\"%\xc3\xa9"), "a%22%25%C3%A9");
}

}  // namespace
}  // namespace semel::outbox
