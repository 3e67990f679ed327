#include "broker.hpp"

#include <cstdlib>
#include <stdexcept>

namespace semel::test {
namespace {

std::string address(const char* variable) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0')
        throw std::runtime_error(std::string(variable) + " is not set: run this under tests/servers/with-servers");
    return value;
}

}  // namespace

std::unique_ptr<Broker> make_broker(std::string_view name) {
    if (name == "kafka") return make_kafka(address("SEMEL_TEST_KAFKA"));
    if (name == "rabbitmq") return make_rabbitmq(address("SEMEL_TEST_RABBITMQ"));
    if (name == "nats") return make_nats(address("SEMEL_TEST_NATS"));
    if (name == "redis") return make_redis(address("SEMEL_TEST_REDIS"));
    throw std::runtime_error("no broker is called " + std::string(name));
}

}  // namespace semel::test
