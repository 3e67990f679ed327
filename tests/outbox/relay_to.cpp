#include "relay_to.hpp"

#include "support/postgres.hpp"

namespace semel::test {

outbox::To relay_to(std::string_view broker) {
    if (broker == "kafka") return outbox::KafkaOptions{.brokers = server_variable("SEMEL_TEST_KAFKA")};
    if (broker == "rabbitmq") {
        outbox::RabbitmqOptions options;
        options.connection.url = server_variable("SEMEL_TEST_RABBITMQ");
        return options;
    }
    if (broker == "nats") {
        outbox::NatsOptions options;
        options.connection.url = server_variable("SEMEL_TEST_NATS");
        return options;
    }
    outbox::RedisOptions options;
    options.connection.url = server_variable("SEMEL_TEST_REDIS");
    return options;
}

}  // namespace semel::test
