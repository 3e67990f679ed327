// Messages from RabbitMQ, by librabbitmq.
#pragma once

#include <memory>
#include <string>

#include "semel/source.hpp"

namespace semel::rabbitmq {

struct Options {
    std::string url{};  ///< amqp://user:password@host:port/vhost or amqps://…; without a vhost, `/`
    std::string queue{};
    std::uint16_t prefetch = 1000;  ///< deliveries that may be unacknowledged at once
    /// Declares the queue as a durable quorum queue if it is not there. One that is there is taken as it is, whatever its
    /// arguments. Off: the queue has to exist.
    bool declare = true;
    std::string ordering_header{};  ///< the header that keeps order; empty: the routing key does not either, no order
    /// fetch or keep has to be called about twice as often as this, or the broker thinks this consumer dead.
    Duration heartbeat = std::chrono::seconds{30};
    /// For each step of connecting: a fetch that has to connect may last longer than its wait by this.
    Duration connect_timeout = std::chrono::seconds{5};
    std::string ca_file{};  ///< for amqps, which verifies certificate and host name; empty: the system's
};

/// position is empty: RabbitMQ has none. The property message-id is the header `message-id`; type, correlation-id and
/// app-id likewise. `published` is the property timestamp: whole seconds of the publisher's clock. The broker need not be
/// there yet.
///
/// What the broker does on its own account:
/// - A quorum queue counts deliveries; over its delivery-limit (by default 20 since RabbitMQ 4.0) a message is dropped or
///   dead-lettered. `give_back` counts, and so does a lost connection.
/// - A delivery that is unacknowledged for longer than consumer_timeout (30 minutes by default) costs the channel: all
///   tickets become stale, and fetch reports `unavailable` once.
/// - What was given back may come to the same consumer again, and does not move on while that one has room for it.
///
/// `flush` proves that the broker has the acknowledgements, not that they are on its disk. Of more than about thirty single
/// ones (out of order) the last may still be on their way inside the broker: these come again if the connection is lost
/// within some milliseconds. `close` waits for them.
Result<std::unique_ptr<Source>> open(Options options);

}  // namespace semel::rabbitmq
