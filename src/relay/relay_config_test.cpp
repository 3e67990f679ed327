#include "relay/relay_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace semel::relay {
namespace {

using settings::ConfigProblem;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char* variable(const std::string& name) {
    static const std::map<std::string, std::string> variables{{"AMQP", "amqp://user:from-the-environment@mq/"},
                                                              {"TOKEN", "from-the-environment"},
                                                              {"BRACES", "{from-the-environment}"},
                                                              {"COUNT", "4"}};
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
}

ReadRelayConfig read(std::string_view text) { return read_relay_config_text(text, "relay.yaml", variable); }

std::string all(const std::vector<ConfigProblem>& problems) {
    std::string text;
    for (const ConfigProblem& problem : problems) text += problem.text() + "\n";
    return text;
}

/// A file of one relay that is complete but for what these lines replace or add.
std::string file(const std::string& more) {
    std::string text = "store: sqlite:semel.db\nrelays:\n  - name: orders\n";
    for (const std::string line :
         {"from: {kafka: {brokers: \"k:9092\", topics: [orders]}}", "to: http://shop:9000/orders"})
        if (!more.starts_with(line.substr(0, line.find(':') + 1)) &&
            more.find("\n" + line.substr(0, line.find(':') + 1)) == std::string::npos)
            text += "    " + line + "\n";
    std::size_t begin = 0;
    while (begin < more.size()) {
        const std::size_t end = std::min(more.find('\n', begin), more.size());
        text += "    " + more.substr(begin, end - begin) + "\n";
        begin = end + 1;
    }
    return text;
}

Relay relay(const std::string& more) {
    const ReadRelayConfig found = read(file(more));
    EXPECT_TRUE(found.config.has_value()) << all(found.problems);
    return found.config ? found.config->relays.front() : Relay{};
}

TEST(RelayConfig, LittleIsNeeded) {
    const ReadRelayConfig found = read(file(""));
    ASSERT_TRUE(found.config.has_value()) << all(found.problems);
    EXPECT_EQ(found.config->store, "sqlite:semel.db");
    EXPECT_FALSE(found.config->admin.has_value());
    const Relay& only = found.config->relays.front();
    EXPECT_EQ(only.name, "orders");
    EXPECT_EQ(only.mark.text(), "relay.yaml:3");
    const auto& kafka = std::get<kafka::Options>(only.from);
    EXPECT_EQ(kafka.brokers, "k:9092");
    EXPECT_EQ(kafka.group, "orders");
    EXPECT_THAT(kafka.topics, ElementsAre("orders"));
    EXPECT_EQ(only.envelope, EnvelopeOptions{});
    EXPECT_EQ(only.key, MessageKeyOptions{});
    EndpointOptions to;
    to.request.url = "http://shop:9000/orders";
    EXPECT_EQ(only.to, to);
    EXPECT_EQ(only.rules, EndpointRules{});
    EXPECT_EQ(only.concurrency, 16u);
    EXPECT_EQ(only.order, Order::key);
    EXPECT_EQ(only.retries, (Retries{10, seconds{1}, minutes{5}}));
    EXPECT_EQ(only.lease, seconds{30});
    EXPECT_EQ(only.retention, Retention{});
}

TEST(RelayConfig, ReadsEverySetting) {
    const Relay found = relay(R"(from:
  kafka:
    brokers: a:1,b:2
    group: g
    topics: [x, y]
    commit_every: 2s
    settings: {security.protocol: ssl, session.timeout.ms: 6000, enable.metrics.push: false, sasl.password: "${TOKEN}"}
envelope: {json: {id: /id, type: paid, source: /shop, subject: /order, time: /at}}
body_bytes_max: 2MiB
key: {producer: X-Producer, sequence: X-Sequence}
to:
  url: https://shop/orders/{subject}
  method: PUT
  mode: plain
  headers: {Authorization: "Bearer ${TOKEN}", X-Order: "{/order}"}
  body: '{"ref": "{id}", "order": {data}}'
  correlation_header: X-Request-Id
  timeout: 10s
  connect_timeout: 500ms
  idle_max: 4s
  answer_bytes_max: 1KiB
  tls: {ca: ca.pem, certificate: c.pem, key: k.pem}
  retry_on: [503, 429]
  deduplicates: 24h
  retry_after_max: 1m
concurrency: ${COUNT}
order: none
retries: {limit: 3, first: 250ms, max: 1m}
lease: 45s
retention: 7d
response_retention: 1h)");
    const auto& kafka = std::get<kafka::Options>(found.from);
    EXPECT_EQ(kafka.group, "g");
    EXPECT_THAT(kafka.topics, ElementsAre("x", "y"));
    EXPECT_EQ(kafka.commit_every, seconds{2});
    EXPECT_EQ(kafka.settings, (std::map<std::string, std::string>{{"security.protocol", "ssl"},
                                                                  {"session.timeout.ms", "6000"},
                                                                  {"enable.metrics.push", "false"},
                                                                  {"sasl.password", "from-the-environment"}}));
    EXPECT_EQ(found.envelope, (EnvelopeOptions{.kind = EnvelopeKind::json,
                                               .id_pointer = "/id",
                                               .type = "paid",
                                               .source = "/shop",
                                               .subject_pointer = "/order",
                                               .time_pointer = "/at",
                                               .body_bytes_max = 2U << 20}));
    EXPECT_EQ(found.key, (MessageKeyOptions{KeySource::producer, "X-Producer", "X-Sequence"}));
    const RequestOptions request{.url = "https://shop/orders/{subject}",
                                 .method = "PUT",
                                 .mode = DeliveryMode::plain,
                                 .headers = {{"Authorization", "Bearer from-the-environment"}, {"X-Order", "{/order}"}},
                                 .body = R"({"ref": "{id}", "order": {data}})",
                                 .correlation_header = "X-Request-Id"};
    EXPECT_EQ(found.to, (EndpointOptions{.request = request,
                                         .call = {.tls = {"ca.pem", "c.pem", "k.pem"},
                                                  .timeout = seconds{10},
                                                  .connect_timeout = milliseconds{500},
                                                  .idle_max = seconds{4},
                                                  .answer_bytes_max = 1024}}));
    EXPECT_EQ(found.rules, (EndpointRules{{503, 429}, hours{24}, minutes{1}}));
    EXPECT_EQ(found.concurrency, 4u);
    EXPECT_EQ(found.order, Order::none);
    EXPECT_EQ(found.retries, (Retries{3, milliseconds{250}, minutes{1}}));
    EXPECT_EQ(found.lease, seconds{45});
    EXPECT_EQ(found.retention, (Retention{hours{168}, hours{1}}));
}

TEST(RelayConfig, ReadsTheOtherBrokers) {
    const Relay from_rabbitmq = relay(
        "from: {rabbitmq: {url: \"${AMQP}\", queue: q, prefetch: 5, declare: false, ordering_header: h, heartbeat: "
        "10s, "
        "connect_timeout: 1s, ca: ca.pem}}");
    const auto& rabbitmq = std::get<rabbitmq::Options>(from_rabbitmq.from);
    EXPECT_EQ(rabbitmq.url, "amqp://user:from-the-environment@mq/");
    EXPECT_EQ(rabbitmq.queue, "q");
    EXPECT_EQ(rabbitmq.prefetch, 5);
    EXPECT_FALSE(rabbitmq.declare);
    EXPECT_EQ(rabbitmq.ordering_header, "h");
    EXPECT_EQ(rabbitmq.heartbeat, seconds{10});
    EXPECT_EQ(rabbitmq.connect_timeout, seconds{1});
    EXPECT_EQ(rabbitmq.ca_file, "ca.pem");

    const Relay from_nats = relay(
        "from: {nats: {url: \"nats://n:4222\", stream: S, subject: orders.>, ack_wait: 1m, ack_pending_max: 7, "
        "ordering_header: h, credentials: c, ca: ca.pem}}");
    const auto& nats = std::get<nats::Options>(from_nats.from);
    EXPECT_EQ(nats.url, "nats://n:4222");
    EXPECT_EQ(nats.stream, "S");
    EXPECT_EQ(nats.durable, "orders");
    EXPECT_EQ(nats.subject, "orders.>");
    EXPECT_EQ(nats.ack_wait, minutes{1});
    EXPECT_EQ(nats.ack_pending_max, 7);
    EXPECT_EQ(nats.credentials_file, "c");

    const Relay from_redis =
        relay("from: {redis: {url: \"redis://r:6379/1\", stream: s, consumer: c, idle_max: 1m, ordering_field: f}}");
    const auto& redis = std::get<redis::Options>(from_redis.from);
    EXPECT_EQ(redis.url, "redis://r:6379/1");
    EXPECT_EQ(redis.stream, "s");
    EXPECT_EQ(redis.group, "orders");
    EXPECT_EQ(redis.consumer, "c");
    EXPECT_EQ(redis.idle_max, minutes{1});
    EXPECT_EQ(redis.ordering_field, "f");
}

TEST(RelayConfig, TypesAndSourcesAreConstantsOrPointers) {
    const Relay found = relay("envelope: {json: {id: /id, type: /kind, source_from: /shop}}");
    EXPECT_EQ(found.envelope.type_pointer, "/kind");
    EXPECT_EQ(found.envelope.type, "");
    EXPECT_EQ(found.envelope.source_pointer, "/shop");
    EXPECT_EQ(relay("to: {url: http://x/, deduplicates: permanent}").rules.deduplicates, Duration::max());
    EXPECT_EQ(relay("key: content").key.source, KeySource::content);
}

TEST(RelayConfig, WhatIsWrongIsToldWithItsPlace) {
    const struct {
        std::string lines;
        std::string_view why;
    } rows[] = {
        {"frm: 1", "relay.yaml:6: relays[0].frm: unknown name; did you mean from"},
        {"from: kafka", "relays[0].from: found \"kafka\"; write a mapping with kafka, rabbitmq, nats or redis"},
        {"from: {}", "write one of kafka, rabbitmq, nats and redis"},
        {"from: {kafka: {}, nats: {}}", "messages come from one broker"},
        {"from: {kafka: {topics: [a]}}", "relays[0].from.kafka.brokers: missing"},
        {"from: {kafka: {brokers: a, topics: []}}", "relays[0].from.kafka.topics: "},
        {"from: {kafka: {brokers: a, topics: [a, a]}}", "one of them is written twice"},
        {"from: {kafka: {brokers: a, topics: [a], settings: [x]}}", "librdkafka's settings by their names"},
        {"from: {kafka: {brokers: a, topics: [a], settings: {a: [1]}}}", "from.kafka.settings.a: "},
        {"from: {rabbitmq: {url: \"http://x\", queue: q}}", "from.rabbitmq.url: "},
        {"from: {rabbitmq: {url: \"amqp://x\", queue: q, prefetch: 0}}", "from.rabbitmq.prefetch: "},
        {"from: {nats: {url: \"nats://x\"}}", "from.nats.stream: missing"},
        {"from: {redis: {url: \"redis://x\", stream: s, group: \"\"}}", "from.redis.group: "},
        {"envelope: xml", "relays[0].envelope: found \"xml\"; write cloudevents, or"},
        {"envelope: {json: {}}", "relays[0].envelope.json.id: missing"},
        {"envelope: {json: {id: id, type: t, source: s}}", "relays[0].envelope.json.id: "},
        {"envelope: {json: {id: /id, type: t, source: s, source_from: /s}}", "write one of them"},
        {"envelope: {json: {id: /id}}", "CloudEvents need type and source"},
        {"key: id", "relays[0].key: found \"id\"; write envelope or position or content"},
        {"key: producer", "its headers have to be named"},
        {"key: {producer: h}", "relays[0].key.sequence: missing"},
        {"key: position\nfrom: {rabbitmq: {url: \"amqp://x\", queue: q}}", "RabbitMQ keeps no position"},
        {"to: {}", "relays[0].to.url: missing"},
        {"to: shop", "relays[0].to: to.url: write http:// or https://"},
        {"to: {url: \"http://u:p@x/\"}", "without user"},
        {"to: {url: http://x/, method: GET}",
         "relays[0].to.method: found \"GET\"; write POST or PUT or PATCH or DELETE"},
        {"to: {url: http://x/, mode: template}", "write binary or structured or plain"},
        {"to: {url: http://x/, body: \"{}\"}", "to.body: CloudEvents say what the body is"},
        {"to: {url: http://x/, headers: {Host: y}}", "\"Host\" cannot be set"},
        {"to: {url: http://x/, headers: [a]}", "write headers by their names"},
        {"to: {url: \"http://x/{nothing}\"}", "stands for nothing"},
        {"to: {url: http://x/, retry_on: [200]}", "relays[0].to.retry_on[0]: "},
        {"to: {url: http://x/, retry_on: 503}", "a list of statuses"},
        {"to: {url: http://x/, deduplicates: yes}", "relays[0].to.deduplicates: "},
        {"to: {url: http://x/, timeout: 5}", "relays[0].to.timeout: "},
        {"to: {url: http://x/, timeout: 1s}", "connecting would take longer than timeout"},
        {"to: {url: http://x/, tls: {ca: x}}", "the url begins with http://"},
        {"to: {url: https://x/, tls: {key: x}}", "belong together"},
        {"concurrency: 0", "relays[0].concurrency: "},
        {"order: strict", "write key or none"},
        {"retries: {first: 10m}", "the first pause is longer than max"},
        {"retries: 5", "a mapping with limit, first or max"},
        {"lease: 1ms", "relays[0].lease: "},
        {"retention: 1h\nresponse_retention: 2h", "longer than retention"},
        {"retention: 10s", "a record has to outlive its effect"},
        {"name: again", "relays[0].name: "},
    };
    for (const auto& row : rows) {
        const ReadRelayConfig found = read(file(row.lines));
        EXPECT_FALSE(found.config.has_value()) << row.lines;
        EXPECT_THAT(all(found.problems), HasSubstr(std::string(row.why))) << row.lines;
    }
}

TEST(RelayConfig, TellsEverythingAtOnce) {
    const ReadRelayConfig found = read(
        "stor: x\nadmin: 10.0.0.1:80\nrelays:\n  - name: a\n    lease: no\n  - name: a\n    from: {kafka: {}}\n    to: "
        "http://x/\n");
    const std::string told = all(found.problems);
    for (const std::string_view line :
         {"relay.yaml:1: stor: unknown name", "relay.yaml:1: store: missing", "relay.yaml:2: admin: not on loopback",
          "relay.yaml:4: relays[0].from: missing", "relay.yaml:4: relays[0].to: missing",
          "relay.yaml:5: relays[0].lease: ", "relay.yaml:6: relays[1].name: another relay has this name",
          "relay.yaml:7: relays[1].from.kafka.brokers: missing", "relay.yaml:7: relays[1].from.kafka.topics: missing"})
        EXPECT_THAT(told, HasSubstr(std::string(line)));
    EXPECT_THAT(all(read("").problems), HasSubstr("the file is empty"));
    EXPECT_THAT(all(read("store: sqlite:x\nrelays: []\n").problems), HasSubstr("a list of one or more relays"));
}

TEST(RelayConfig, SecretsAreNotShown) {
    for (const std::string lines :
         {"from: {rabbitmq: {url: \"http://user:from-the-environment@x\", queue: q}}",
          "to: {url: http://x/, headers: {Authorization: \"${BRACES}\"}}", "to: {url: \"http://x/${BRACES}\"}",
          "to: {url: http://x/, headers: {Authorization: [\"${TOKEN}\"]}}",
          "to: {url: http://x/, headers: {Authorization: \"from-the-environment\\x01\"}}",
          "to: \"http://user:from-the-environment@x/\"",
          "from: {kafka: {brokers: a, topics: [a], settings: {sasl.password: {a: from-the-environment}}}}"}) {
        const ReadRelayConfig found = read(file(lines));
        EXPECT_FALSE(found.problems.empty()) << lines;
        EXPECT_THAT(all(found.problems), Not(HasSubstr("from-the-environment"))) << lines;
    }
}

TEST(RelayConfig, ReadsAFile) {
    const auto path = std::filesystem::path(testing::TempDir()) / "semel-relay-config-test.yaml";
    std::ofstream(path) << file("");
    EXPECT_TRUE(read_relay_config(path.string()).config.has_value());
    std::filesystem::remove(path);
    EXPECT_EQ(all(read_relay_config(path.string()).problems),
              path.string() + ": cannot be opened: No such file or directory\n");
}

TEST(RelayConfig, EveryKindOfMappingHasItsNamesOnce) {
    std::set<std::string_view> kinds;
    for (const settings::Shape& shape : relay_config_shapes()) {
        EXPECT_TRUE(kinds.insert(shape.kind).second) << shape.kind;
        const std::set<std::string_view> names(shape.names.begin(), shape.names.end());
        EXPECT_EQ(names.size(), shape.names.size()) << shape.kind;
    }
}

}  // namespace
}  // namespace semel::relay
