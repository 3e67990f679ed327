// Through the outbox into every broker, and out of it again by the consumers' own sources: the events are the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "consumers/broker.hpp"
#include "consumers/database.hpp"
#include "consumers/redis/wire.hpp"
#include "outbox/publishers.hpp"
#include "outbox/pump.hpp"
#include "relay_to.hpp"
#include "semel/envelope.hpp"
#include "semel/keys.hpp"
#include "semel/ledger.hpp"
#include "staging.hpp"
#include "support/postgres.hpp"

namespace semel::test {
namespace {

using namespace outbox;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr seconds patience{60};

/// A key in Redis that is no stream.
void set_text(const std::string& key) {
    auto wire = redis::Wire::begin(redis::parse_address(server_variable("SEMEL_TEST_REDIS")).value());
    ASSERT_TRUE(wire->send({"SET", key, "text"}));
    ASSERT_TRUE(wire->next(std::chrono::steady_clock::now() + patience));
}

template <class Condition>
bool until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(milliseconds{10});
    }
    return true;
}

class OutboxTo : public testing::TestWithParam<std::string_view> {
protected:
    OutboxTo() { broker_->create(topic_, 4); }
    ~OutboxTo() override { broker_->remove(topic_); }

    /// Everything that comes until there are `count` different events.
    std::vector<Event> consume(std::size_t count) {
        const auto source = broker_->open(topic_, "reader");
        const auto deadline = std::chrono::steady_clock::now() + patience;
        std::vector<Event> events;
        std::set<std::string> ids;
        while (ids.size() < count && std::chrono::steady_clock::now() < deadline) {
            auto deliveries = source->fetch(1000, milliseconds{500});
            if (!deliveries) continue;
            for (const Delivery& each : *deliveries) {
                auto event = read_envelope(each.message, {});
                EXPECT_TRUE(event) << event.failure().message;
                if (!event) continue;
                ids.insert(event->id);
                events.push_back(std::move(*event));
                EXPECT_TRUE(source->acknowledge(std::span(&each.ticket, 1)));
            }
        }
        EXPECT_EQ(ids.size(), count);
        source->close();
        return events;
    }

    std::unique_ptr<Database> database_ = make_database("sqlite");
    std::unique_ptr<Broker> broker_ = make_broker(GetParam());
    std::string topic_ = "outbox-" + mint_uuid4().text();
};

INSTANTIATE_TEST_SUITE_P(Broker, OutboxTo, testing::ValuesIn(broker_names),
                         [](const auto& each) { return std::string(each.param); });

struct Relay {
    Relay(const std::string& url, const To& where)
        : table(open_outbox_at(url, "a")),
          publisher(std::move(*open_publisher(where))),
          pump(*table, *publisher, {.lease = seconds{5}, .poll = milliseconds{100}, .retry_first = milliseconds{200}},
               [](auto, auto) {}),
          thread([this](const std::stop_token& stop) { pump.run(stop); }) {}
    std::unique_ptr<OutboxTable> table;
    std::unique_ptr<Publisher> publisher;
    Pump pump;
    std::jthread thread;
};

TEST_P(OutboxTo, EventsComeOutAsTheyWereStagedAndInOrder) {
    Stager stager(database_->url());
    StagedEvent odd = staged("odd", 1, topic_);
    odd.event.subject = "schön \"100 %\"";
    odd.event.data_schema = "https://shop/schema?x=1";
    odd.event.data = std::string("\0\xff bytes", 8);
    odd.event.data_content_type = "application/octet-stream";
    odd.event.extensions = {{"correlationid", "order 7"}, {"traceparent", "00-0af7651916cd43dd8448eb211c80319c-01"}};
    StagedEvent bare{.topic = topic_};
    bare.event = {.id = "bare", .source = "/shop", .type = "paid"};
    stager.run("begin");
    stager.stage(odd);
    stager.stage(bare);
    std::map<std::string, Event> wanted{{odd.event.id, odd.event}, {"bare", bare.event}};
    for (int i = 0; i < 300; ++i) {
        const StagedEvent each = staged("k" + std::to_string(i % 7), i, topic_);
        stager.stage(each);
        wanted[each.event.id] = each.event;
    }
    stager.run("commit");
    const Relay relay(database_->url(), relay_to(GetParam()));
    const auto events = consume(302);
    EXPECT_EQ(events.size(), 302) << "nothing fails here, so nothing comes twice";
    std::map<std::string, int> last;
    for (const Event& event : events) {
        EXPECT_EQ(event, wanted[event.id]);
        if (!event.subject.starts_with("k")) continue;
        const int number = std::stoi(event.data.substr(10));
        EXPECT_GT(number + 1, last[event.subject]) << event.id;
        last[event.subject] = number + 1;
    }
    EXPECT_TRUE(until([&] { return database_->value("select count(*) from semel.outbox") == "0"; }));
    EXPECT_EQ(relay.pump.state().published, 302);
}

TEST_P(OutboxTo, AnEventThatTheBrokerRefusesStopsItsKeyOnly) {
    Stager stager(database_->url());
    // Too large for any of them, or nowhere to go.
    StagedEvent bad = staged("bad", 1, topic_);
    if (GetParam() == "redis") {
        bad.topic = topic_ + "-text";  // not a stream
    } else if (GetParam() == "rabbitmq") {
        bad.topic = "no-such-queue";
    } else if (GetParam() == "nats") {
        bad.topic = "no.stream.takes.this";
    } else {
        bad.event.data.assign(2'000'000, 'x');
    }
    if (GetParam() == "redis") set_text(bad.topic);
    stager.commit({bad, staged("bad", 2, topic_), staged("good", 1, topic_)});
    const Relay relay(database_->url(), relay_to(GetParam()));
    EXPECT_EQ(consume(1).front().id, "good-1");
    EXPECT_TRUE(until([&] { return relay.pump.state().stuck == 1; }));
    const auto stuck = open_outbox_at(database_->url(), "looking")->stuck(10);
    ASSERT_EQ(stuck->size(), 1);
    EXPECT_EQ(stuck->front().id, "bad-1");
    EXPECT_FALSE(stuck->front().error.empty());
    stager.commit({staged("good", 2, topic_)});
    EXPECT_EQ(consume(1).back().id, "good-2");
    EXPECT_TRUE(until([&] { return database_->value("select count(*) from semel.outbox") == "2"; }));
}

TEST_P(OutboxTo, NobodyThereIsToldOf) {
    Stager stager(database_->url());
    To nowhere = relay_to(GetParam());
    std::visit(match{[](KafkaOptions& options) { options.brokers = "127.0.0.1:1"; }, [](HttpOptions&) {},
                     [](RabbitmqOptions& options) { options.connection.url = "amqp://127.0.0.1:1"; },
                     [](outbox::NatsOptions& options) { options.connection.url = "nats://127.0.0.1:1"; },
                     [](RedisOptions& options) { options.connection.url = "redis://127.0.0.1:1"; }},
               nowhere);
    stager.commit({staged("a", 1, topic_)});
    const Relay relay(database_->url(), nowhere);
    EXPECT_TRUE(until([&] { return !relay.pump.state().broker_down.empty(); }));
    EXPECT_THAT(relay.pump.state().broker_down, HasSubstr("127.0.0.1:1"));
    EXPECT_EQ(database_->value("select count(*) from semel.outbox"), "1");
}

TEST(OutboxToNats, ASecondPublicationWithinTheWindowIsADuplicate) {
    const auto broker = make_broker("nats");
    const std::string topic = "outbox-" + mint_uuid4().text();
    broker->create(topic, 1);
    const auto database = make_database("sqlite");
    Stager stager(database->url());
    stager.commit({staged("a", 1, topic), staged("a", 1, topic)});
    const Relay relay(database->url(), relay_to("nats"));
    EXPECT_TRUE(until([&] { return relay.pump.state().published == 2; }));
    EXPECT_EQ(relay.pump.state().duplicates, 1);
    broker->remove(topic);
}

TEST(OutboxToNats, TheSameIdOfAnotherSourceIsNoDuplicate) {
    const auto broker = make_broker("nats");
    const std::string topic = "outbox-" + mint_uuid4().text();
    broker->create(topic, 1);
    const auto database = make_database("sqlite");
    Stager stager(database->url());
    StagedEvent other = staged("a", 1, topic);
    other.event.source = "/another shop";
    stager.commit({staged("a", 1, topic), other});
    const Relay relay(database->url(), relay_to("nats"));
    EXPECT_TRUE(until([&] { return relay.pump.state().published == 2; }));
    EXPECT_EQ(relay.pump.state().duplicates, 0);
    broker->remove(topic);
}

TEST(OutboxToNats, WhatTheServerWouldEndTheConnectionForStopsItsKeyOnly) {
    const auto broker = make_broker("nats");
    const std::string topic = "outbox-" + mint_uuid4().text();
    broker->create(topic, 1);
    const auto database = make_database("sqlite");
    Stager stager(database->url());
    StagedEvent large = staged("large", 1, topic);
    large.event.data.assign(1024 * 1024 - 100, 'x');  // by its headers
    stager.commit({large, staged("b", 1, topic + " 7"), staged("c", 1, topic + "..x"), staged("d", 1, topic + "."),
                   staged("e", 1, topic + ".*"), staged("good", 1, topic)});
    const Relay relay(database->url(), relay_to("nats"));
    EXPECT_TRUE(until([&] { return relay.pump.state().published == 1 && relay.pump.state().stuck == 5; }));
    EXPECT_EQ(relay.pump.state().restarts, 0);
    broker->remove(topic);
}

TEST(OutboxToNats, StartingOverForgetsWhatWasOnItsWay) {
    const auto broker = make_broker("nats");
    const std::string topic = "outbox-" + mint_uuid4().text();
    broker->create(topic, 1);
    const auto publisher = std::move(*open_publisher(relay_to("nats")));
    OutboxRow row;
    for (int i = 1; i <= 50; ++i) {
        row.place = {0, i};
        row.staged = staged("a", i, topic);
        ASSERT_TRUE(publisher->publish(row));
        if (i % 10 != 0) publisher->start_over();
    }
    std::vector<Receipt> came;
    EXPECT_TRUE(until([&] {
        auto some = publisher->receipts(milliseconds{100});
        if (some) came.insert(came.end(), some->begin(), some->end());
        return !came.empty();
    }));
    ASSERT_EQ(came.size(), 1);
    EXPECT_EQ(came[0].place.sequence, 50);
    broker->remove(topic);
}

TEST(OutboxToRabbitmq, AnEventThatClosesTheChannelIsFoundAndStopsItsKeyOnly) {
    const auto broker = make_broker("rabbitmq");
    const std::string topic = "outbox-" + mint_uuid4().text();
    broker->create(topic, 1);
    const auto database = make_database("sqlite");
    Stager stager(database->url());
    StagedEvent large = staged("large", 1, topic);
    large.event.data.assign(17 * 1024 * 1024, 'x');  // tests/servers/fleet/rabbitmq.py: max_message_size
    stager.run("begin");
    for (int i = 0; i < 50; ++i) stager.stage(staged("k" + std::to_string(i), 1, topic));
    stager.stage(large);
    for (int i = 0; i < 50; ++i) stager.stage(staged("k" + std::to_string(i), 2, topic));
    StagedEvent wide = staged("wide", 1, topic);
    for (int i = 0; i < 40; ++i) wide.event.extensions.push_back({"x" + std::to_string(i), std::string(4096, 'x')});
    std::ranges::sort(wide.event.extensions, {}, &MessageHeader::name);
    stager.stage(wide);
    stager.run("commit");
    const Relay relay(database->url(), relay_to("rabbitmq"));
    EXPECT_TRUE(until([&] { return relay.pump.state().stuck == 2; }));
    EXPECT_TRUE(until([&] { return database->value("select count(*) from semel.outbox") == "2"; }));
    const auto stuck = open_outbox_at(database->url(), "looking")->stuck(10).value();
    for (const OutboxStuck& each : stuck)
        EXPECT_THAT(each.error, each.id == "large-1" ? HasSubstr("larger than") : HasSubstr("frame"));
    broker->remove(topic);
}

TEST(OutboxToKafka, SettingsThatOrderRestsOnAreRefused) {
    KafkaOptions options{.brokers = "127.0.0.1:1"};
    EXPECT_TRUE(open_kafka(options));
    for (const char* name : {"acks", "enable.idempotence", "partitioner", "bootstrap.servers", "no.such.setting"}) {
        options.settings = {{name, "1"}};
        const auto opened = open_kafka(options);
        ASSERT_FALSE(opened) << name;
        EXPECT_EQ(opened.failure().code, Code::invalid);
        EXPECT_THAT(opened.failure().message, HasSubstr(name));
    }
}

}  // namespace
}  // namespace semel::test
