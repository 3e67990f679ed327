// Where a RabbitMQ server is, read from its URL.
#pragma once

#include <string>

#include "semel/result.hpp"

namespace semel::rabbitmq {

struct Address {
    std::string host{};
    int port = 0;
    std::string user{};
    std::string password{};
    std::string vhost{};
    bool tls = false;

    /// For people, without user and password.
    [[nodiscard]] std::string text() const;
};

/// amqp://user:password@host:port/vhost or amqps://…; user and password are `guest` if they are missing, the port 5672 or
/// 5671, the vhost `/`. invalid: it is no such URL; the message does not repeat it, since there may be a password inside.
Result<Address> parse_address(std::string url);

}  // namespace semel::rabbitmq
