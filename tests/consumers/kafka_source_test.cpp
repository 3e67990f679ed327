// What only Kafka does: positions, rebalances, transactions.
#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>

#include <map>
#include <set>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "broker.hpp"
#include "semel/kafka.hpp"

namespace semel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

kafka::Options valid_options() {
    kafka::Options out;
    out.brokers = "127.0.0.1:1";
    out.group = "group";
    out.topics = {"topic"};
    return out;
}

TEST(KafkaSourceOptions, ThatWouldLoseMessagesOrAreWrongAreRefusedByName) {
    const struct {
        const char* name;
        const char* value;
    } rows[] = {{"enable.auto.commit", "true"},
                {"enable.auto.offset.store", "true"},
                {"isolation.level", "read_uncommitted"},
                {"auto.offset.reset", "latest"},
                {"group.id", "other"},
                {"bootstrap.servers", "other"},
                {"partition.assignment.strategy", "cooperative-sticky"},
                {"no.such.setting", "1"},
                {"session.timeout.ms", "soon"}};
    for (const auto& row : rows) {
        auto options = valid_options();
        options.settings = {{row.name, row.value}};
        const auto source = kafka::open(options);
        if (rd_kafka_version() >= 0x02030000 && row.value == std::string_view("cooperative-sticky")) continue;
        ASSERT_FALSE(source.ok()) << row.name;
        EXPECT_EQ(source.failure().code, Code::invalid);
        EXPECT_NE(source.failure().message.find(row.name), std::string::npos) << source.failure().message;
        EXPECT_NE(source.failure().message.find("settings"), std::string::npos) << source.failure().message;
    }
    for (auto clear : {+[](kafka::Options& o) { o.brokers.clear(); }, +[](kafka::Options& o) { o.group.clear(); },
                       +[](kafka::Options& o) { o.topics.clear(); }}) {
        auto options = valid_options();
        clear(options);
        EXPECT_FALSE(kafka::open(options).ok());
    }
}

class KafkaSource : public testing::TestWithParam<const char*> {
protected:
    void SetUp() override {
        broker_ = make_broker("kafka");
        std::array<unsigned char, 6> bytes{};
        SystemRandom{}.fill(bytes);
        topic_ = "kafka-source-" + to_hex(bytes);
    }
    void TearDown() override { broker_->remove(topic_); }

    std::unique_ptr<Source> open() {
        kafka::Options options;
        options.brokers = std::getenv("SEMEL_TEST_KAFKA");
        options.group = "group-" + topic_;
        options.topics = {topic_};
        options.commit_every = milliseconds{20};
        options.settings = {{"partition.assignment.strategy", GetParam()}, {"session.timeout.ms", "6000"}};
        auto source = kafka::open(std::move(options));
        EXPECT_TRUE(source.ok());
        return std::move(source).value();
    }

    std::unique_ptr<Broker> broker_;
    std::string topic_;
};

INSTANTIATE_TEST_SUITE_P(Strategies, KafkaSource, testing::Values("range", "roundrobin"),
                         [](const auto& strategy) { return std::string(strategy.param); });

TEST_P(KafkaSource, ARecordWithoutAKeyIsOrderedByItsPartition) {
    broker_->create(topic_, 1);
    Message message;
    message.body = "body";
    broker_->publish(topic_, {&message, 1});
    const auto source = open();
    const auto got = source->fetch(1, seconds{30});
    ASSERT_TRUE(got.ok() && got->size() == 1);
    EXPECT_EQ((*got)[0].message.ordering_key, topic_ + "/0");
    EXPECT_EQ((*got)[0].message.position, topic_ + "/0@0");
}

/// Members come and go while others work slowly and out of order: whatever was not acknowledged with a ticket that counted
/// comes again to somebody, until everything is done.
TEST_P(KafkaSource, NothingIsLostInAStormOfRebalances) {
    constexpr int partitions = 6;
    constexpr std::size_t count = 3000;
    broker_->create(topic_, partitions);
    std::vector<Message> sent(count);
    for (std::size_t at = 0; at < count; ++at) {
        sent[at].ordering_key = std::to_string(at % 50);
        sent[at].body = std::to_string(at);
    }
    broker_->publish(topic_, sent);

    SeededRandom random(GetParam()[0]);
    struct Member {
        std::unique_ptr<Source> source;
        std::map<Ticket, std::string> working;
    };
    std::vector<Member> members(3);
    std::set<std::string> done;
    std::size_t stale = 0;
    const auto calm = steady_clock::now() + seconds{10};
    const auto deadline = calm + seconds{50};
    for (std::size_t turn = 0; done.size() < count && steady_clock::now() < deadline; ++turn) {
        Member& member = members[turn % members.size()];
        if (!member.source) {
            member.source = open();
        } else if (random.below(30) == 0 && steady_clock::now() < calm) {
            member.source->close();  // with work in hand
            member = Member{};
            continue;
        }
        const auto fetched = member.source->fetch(random.below(40), milliseconds{20});
        ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
        for (const Ticket ticket : member.source->taken_away()) stale += member.working.erase(ticket);
        for (const Delivery& delivery : *fetched) member.working.emplace(delivery.ticket, delivery.message.body);
        std::vector<Ticket> finished;
        for (const auto& [ticket, body] : member.working) {
            if (random.below(3) > 0) continue;
            finished.push_back(ticket);
            done.insert(body);
        }
        EXPECT_TRUE(member.source->acknowledge(finished).ok());
        for (const Ticket ticket : finished) member.working.erase(ticket);
    }
    EXPECT_EQ(done.size(), count);
    EXPECT_GT(stale, 0U) << "no rebalance took anything away";
    RecordProperty("stale", static_cast<int>(stale));
}

}  // namespace
}  // namespace semel::test
