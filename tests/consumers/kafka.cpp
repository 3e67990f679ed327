// Kafka for the tests: an idempotent producer that waits for all replicas.
#include "semel/kafka.hpp"

#include <array>
#include <stdexcept>
#include <thread>

#include "broker.hpp"
#include "consumers/kafka/client.hpp"

namespace semel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds patience{30'000};

using kafka::Free;
using HeadersPtr = std::unique_ptr<rd_kafka_headers_t, Free<rd_kafka_headers_destroy>>;
using TopicPtr = std::unique_ptr<rd_kafka_topic_t, Free<rd_kafka_topic_destroy>>;

[[noreturn]] void fail(const std::string& what, const std::string& why) {
    throw std::runtime_error("kafka: " + what + ": " + why);
}

/// Counts what became of the messages of one publish.
struct Reports {
    std::size_t open = 0;
    std::string failed{};
};

void reported(rd_kafka_t*, const rd_kafka_message_t* message, void*) {
    auto& reports = *static_cast<Reports*>(message->_private);
    --reports.open;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) reports.failed = rd_kafka_err2str(message->err);
}

class KafkaBroker final : public Broker {
public:
    explicit KafkaBroker(std::string brokers) : brokers_(std::move(brokers)) {}

    [[nodiscard]] std::string name() const override { return "kafka"; }

    void create(const std::string& topic, int partitions) override {
        std::array<char, 256> why{};
        rd_kafka_NewTopic_t* wanted = rd_kafka_NewTopic_new(topic.c_str(), partitions, 1, why.data(), why.size());
        if (wanted == nullptr) fail("topic " + topic, why.data());
        const kafka::QueuePtr queue(rd_kafka_queue_new(client()));
        rd_kafka_CreateTopics(client(), &wanted, 1, nullptr, queue.get());
        rd_kafka_NewTopic_destroy(wanted);
        const auto event = result(queue.get(), "create topic " + topic);
        std::size_t count = 0;
        const auto* made = rd_kafka_event_CreateTopics_result(event.get());
        check(rd_kafka_CreateTopics_result_topics(made, &count), count, "create topic " + topic);
        wait_for(topic, partitions);
    }

    void remove(const std::string& topic) override {
        rd_kafka_DeleteTopic_t* unwanted = rd_kafka_DeleteTopic_new(topic.c_str());
        const kafka::QueuePtr queue(rd_kafka_queue_new(client()));
        rd_kafka_DeleteTopics(client(), &unwanted, 1, nullptr, queue.get());
        rd_kafka_DeleteTopic_destroy(unwanted);
        const auto event = result(queue.get(), "remove topic " + topic);
        std::size_t count = 0;
        const auto* removed = rd_kafka_event_DeleteTopics_result(event.get());
        check(rd_kafka_DeleteTopics_result_topics(removed, &count), count, "remove topic " + topic);
    }

    void publish(const std::string& topic, std::span<const Message> messages) override {
        Reports reports;
        for (const Message& message : messages) produce(topic, message, reports);
        const auto deadline = steady_clock::now() + patience;
        while (reports.open > 0 && steady_clock::now() < deadline) rd_kafka_poll(client(), 100);
        if (reports.open > 0) {
            client_.reset();  // before `reports` goes, which its callbacks write to
            fail("publish to " + topic, "no reply");
        }
        if (!reports.failed.empty()) fail("publish to " + topic, reports.failed);
    }

    std::unique_ptr<Source> open(const std::string& topic, const std::string& group, const Tuning& tuning) override {
        kafka::Options options;
        options.brokers = brokers_;
        options.group = group;
        options.topics = {topic};
        options.commit_every = milliseconds{200};
        // How soon a member that died is noticed.
        const auto session = std::max(tuning.redeliver_after / milliseconds{1}, std::int64_t{500});
        options.settings = {{"session.timeout.ms", std::to_string(session)},
                            {"heartbeat.interval.ms", std::to_string(session / 4)}};
        auto source = kafka::open(std::move(options));
        if (!source) throw std::runtime_error(source.failure().message);
        return std::move(source).value();
    }

private:
    rd_kafka_t* client() {
        if (client_) return client_.get();
        kafka::ConfigPtr config(rd_kafka_conf_new());
        const std::pair<const char*, std::string> settings[] = {
            {"bootstrap.servers", brokers_},
            {"enable.idempotence", "true"},
            {"acks", "all"},
            {"linger.ms", "5"},
            {"partitioner", "murmur2_random"},
            {"reconnect.backoff.max.ms", "500"},
            {"delivery.timeout.ms", "29000"},
        };
        std::array<char, 256> why{};
        for (const auto& [name, value] : settings) {
            if (rd_kafka_conf_set(config.get(), name, value.c_str(), why.data(), why.size()) != RD_KAFKA_CONF_OK)
                fail(name, why.data());
        }
        rd_kafka_conf_set_dr_msg_cb(config.get(), reported);
        rd_kafka_conf_set_log_cb(config.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
        client_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, config.get(), why.data(), why.size()));
        if (!client_) fail("producer", why.data());
        static_cast<void>(config.release());
        return client_.get();
    }

    void produce(const std::string& topic, const Message& message, Reports& reports) {
        HeadersPtr headers(rd_kafka_headers_new(message.headers.size() + 1));
        const auto add = [&](const std::string& name, const std::string& value) {
            rd_kafka_header_add(headers.get(), name.c_str(), static_cast<ssize_t>(name.size()), value.data(),
                                static_cast<ssize_t>(value.size()));
        };
        for (const MessageHeader& header : message.headers) add(header.name, header.value);
        if (!message.content_type.empty()) add("content-type", message.content_type);
        const void* key = message.ordering_key.empty() ? nullptr : message.ordering_key.data();
        while (true) {
            rd_kafka_headers_t* copy = rd_kafka_headers_copy(headers.get());
            const auto error =
                rd_kafka_producev(client(), RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                  RD_KAFKA_V_KEY(key, message.ordering_key.size()),
                                  RD_KAFKA_V_VALUE(const_cast<char*>(message.body.data()), message.body.size()),
                                  RD_KAFKA_V_HEADERS(copy), RD_KAFKA_V_OPAQUE(&reports), RD_KAFKA_V_END);
            if (error == RD_KAFKA_RESP_ERR_NO_ERROR) break;
            rd_kafka_headers_destroy(copy);
            if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail("publish to " + topic, rd_kafka_err2str(error));
            rd_kafka_poll(client(), 100);
        }
        ++reports.open;
        rd_kafka_poll(client(), 0);
    }

    kafka::EventPtr result(rd_kafka_queue_t* queue, const std::string& what) {
        kafka::EventPtr event(rd_kafka_queue_poll(queue, static_cast<int>(patience.count())));
        if (!event) fail(what, "no reply");
        if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR)
            fail(what, rd_kafka_event_error_string(event.get()));
        return event;
    }

    static void check(const rd_kafka_topic_result_t** results, std::size_t count, const std::string& what) {
        for (std::size_t at = 0; at < count; ++at) {
            if (rd_kafka_topic_result_error(results[at]) != RD_KAFKA_RESP_ERR_NO_ERROR)
                fail(what, rd_kafka_err2str(rd_kafka_topic_result_error(results[at])));
        }
    }

    /// A topic is made at once, and known to its broker a little later: until every partition has a leader.
    void wait_for(const std::string& topic, int partitions) {
        const TopicPtr handle(rd_kafka_topic_new(client(), topic.c_str(), nullptr));
        const auto deadline = steady_clock::now() + patience;
        while (steady_clock::now() < deadline) {
            const rd_kafka_metadata_t* metadata = nullptr;
            if (rd_kafka_metadata(client(), 0, handle.get(), &metadata, 1000) != RD_KAFKA_RESP_ERR_NO_ERROR) continue;
            int led = 0;
            for (int at = 0; metadata->topic_cnt == 1 && at < metadata->topics[0].partition_cnt; ++at)
                led += metadata->topics[0].partitions[at].leader >= 0 ? 1 : 0;
            rd_kafka_metadata_destroy(metadata);
            if (led == partitions) return;
            std::this_thread::sleep_for(milliseconds{10});  // the broker tells nobody when it is done
        }
        fail("create topic " + topic, "it does not appear");
    }

    std::string brokers_;
    kafka::ClientPtr client_;
};

}  // namespace

std::unique_ptr<Broker> make_kafka(std::string address) { return std::make_unique<KafkaBroker>(std::move(address)); }

}  // namespace semel::test
