// The publishers, one for each broker, and what they are made of. Nothing connects before the first event.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <variant>

#include "curl/caller.hpp"
#include "outbox/publisher.hpp"
#include "semel/nats.hpp"
#include "semel/rabbitmq.hpp"
#include "semel/redis.hpp"

namespace semel::outbox {

/// The topic of an event is Kafka's topic, its ordering key the record's key.
struct KafkaOptions {
    std::string brokers{};
    /// Further settings of librdkafka. Those that order and safety rest on (acks, enable.idempotence…) are refused.
    std::map<std::string, std::string> settings{};
    bool operator==(const KafkaOptions&) const = default;
};

/// The topic of an event is the routing key.
struct RabbitmqOptions {
    rabbitmq::Options connection{};  ///< url, ca_file, heartbeat and connect_timeout count
    std::string exchange{};          ///< empty: the default one, where the routing key names a queue
};

/// The topic of an event is the subject, which a stream has to take.
struct NatsOptions {
    nats::Options connection{};  ///< url, credentials_file, ca_file and connect_timeout count
};

/// The topic of an event is the stream.
struct RedisOptions {
    redis::Options connection{};    ///< url and timeout count
    std::uint64_t entries_max = 0;  ///< older entries are trimmed away, read or not (XADD MAXLEN ~); zero: none
};

/// The topic of an event is the path behind the URL.
struct HttpOptions {
    std::string url{};
    HttpCallOptions call{};
    std::map<std::string, std::string> headers{};
    std::size_t concurrency = 16;
};

using To = std::variant<KafkaOptions, RabbitmqOptions, NatsOptions, RedisOptions, HttpOptions>;

/// `invalid` names the setting that is wrong.
Result<std::unique_ptr<Publisher>> open_kafka(const KafkaOptions& options);
Result<std::unique_ptr<Publisher>> open_rabbitmq(const RabbitmqOptions& options);
Result<std::unique_ptr<Publisher>> open_nats(const NatsOptions& options);
Result<std::unique_ptr<Publisher>> open_redis(const RedisOptions& options);
Result<std::unique_ptr<Publisher>> open_http(const HttpOptions& options);
Result<std::unique_ptr<Publisher>> open_publisher(const To& to);

}  // namespace semel::outbox
