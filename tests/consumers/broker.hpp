// A real broker as the tests see it: something to publish to and to open sources on. One per kind; the addresses come from
// the environment that tests/servers/with-servers makes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "semel/source.hpp"

namespace semel::test {

/// How a source is opened, where a test wants it other than by default.
struct Tuning {
    /// How soon the broker hands a message on that nobody keeps: NATS ack_wait, Redis idle_max; of a member that died: Kafka
    /// session.timeout.ms. RabbitMQ notices a closed connection at once.
    Duration redeliver_after = std::chrono::seconds{30};
    std::size_t unacknowledged_max = 10000;  ///< RabbitMQ prefetch, NATS ack_pending_max
};

class Broker {
public:
    virtual ~Broker() = default;
    [[nodiscard]] virtual std::string name() const = 0;  ///< kafka, rabbitmq, nats or redis

    /// Makes a topic (queue, stream) of that name; `partitions` counts for Kafka only. Names are [a-z0-9_-]+.
    virtual void create(const std::string& topic, int partitions) = 0;
    virtual void remove(const std::string& topic) = 0;

    /// Returns when the broker has all of them for sure. Takes ordering_key, content_type, headers and body. Pipelined:
    /// 10,000 small messages take about a second. Reconnects if the broker was restarted since the last call; throws
    /// std::runtime_error if it cannot be reached within 30 s, in which case some may have been published twice or not at all.
    virtual void publish(const std::string& topic, std::span<const Message> messages) = 0;

    /// A source on that topic for a consumer group (Kafka group, RabbitMQ: the queue itself, NATS durable, Redis group).
    virtual std::unique_ptr<Source> open(const std::string& topic, const std::string& group, const Tuning& tuning) = 0;
    std::unique_ptr<Source> open(const std::string& topic, const std::string& group) {
        return open(topic, group, Tuning{});
    }
};

std::unique_ptr<Broker> make_kafka(std::string address);     // SEMEL_TEST_KAFKA
std::unique_ptr<Broker> make_rabbitmq(std::string address);  // SEMEL_TEST_RABBITMQ
std::unique_ptr<Broker> make_nats(std::string address);      // SEMEL_TEST_NATS
std::unique_ptr<Broker> make_redis(std::string address);     // SEMEL_TEST_REDIS

/// Of the address in the environment; throws std::runtime_error that says how to get one if it is not there.
std::unique_ptr<Broker> make_broker(std::string_view name);

inline constexpr std::string_view broker_names[] = {"kafka", "rabbitmq", "nats", "redis"};

}  // namespace semel::test
