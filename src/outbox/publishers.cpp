#include "outbox/publishers.hpp"

namespace semel::outbox {
namespace {

Result<std::unique_ptr<Publisher>> open(const KafkaOptions& options) { return open_kafka(options); }
Result<std::unique_ptr<Publisher>> open(const RabbitmqOptions& options) { return open_rabbitmq(options); }
Result<std::unique_ptr<Publisher>> open(const NatsOptions& options) { return open_nats(options); }
Result<std::unique_ptr<Publisher>> open(const RedisOptions& options) { return open_redis(options); }
Result<std::unique_ptr<Publisher>> open(const HttpOptions& options) { return open_http(options); }

}  // namespace

Result<std::unique_ptr<Publisher>> open_publisher(const To& to) {
    return std::visit([](const auto& options) { return open(options); }, to);
}

}  // namespace semel::outbox
