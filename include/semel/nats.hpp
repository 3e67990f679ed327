// Messages from NATS JetStream, by cnats: a durable pull consumer.
#pragma once

#include <memory>
#include <string>

#include "semel/source.hpp"

namespace semel::nats {

struct Options {
    std::string url{};      ///< nats://host:port or tls://…, several separated by commas; user and password inside
    std::string stream{};   ///< has to exist
    std::string durable{};  ///< the consumer's name; made if it is not there, with explicit acknowledgement
    std::string subject{};  ///< filter; empty: all of the stream, or that of the consumer that is there
    /// How long the server waits for an acknowledgement or a `keep`. A consumer that is there keeps its own, which then
    /// counts; so does its ack_pending_max.
    Duration ack_wait = std::chrono::seconds{30};
    std::int64_t ack_pending_max = 10000;  ///< deliveries that may be unacknowledged at once
    std::string ordering_header{};         ///< the header that keeps order; empty: the subject does
    std::string credentials_file{};
    std::string ca_file{};  ///< with tls:// addresses; empty: the system's
    /// A fetch that has to connect may last longer than its wait by this.
    Duration connect_timeout = std::chrono::seconds{5};
};

/// position is `stream@sequence`, topic the message's subject. Headers are sorted by name. The server need not be there yet.
///
/// A ticket outlives a lost connection and a restarted server, until ack_wait has passed without a word. `close` gives back
/// what is unacknowledged; a process that ends without it leaves the server waiting for ack_wait. A consumer that is
/// deleted while it is in use is not made again, since it would begin at the first message: `unavailable`.
///
/// `flush` proves that the server has the acknowledgements. It writes them to disk a little later.
Result<std::unique_ptr<Source>> open(Options options);

}  // namespace semel::nats
