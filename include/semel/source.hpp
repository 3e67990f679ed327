// A source: one subscription at a broker, behind one narrow interface.
//
// semel/kafka.hpp, semel/rabbitmq.hpp, semel/nats.hpp and semel/redis.hpp open one. tests/consumers/source_conformance
// defines what a source is.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "semel/message.hpp"

namespace semel {

/// One delivery of a message, as its source knows it. Never reused by the source that gave it.
struct Ticket {
    std::uint64_t value = 0;
    auto operator<=>(const Ticket&) const = default;
};

struct Delivery {
    Ticket ticket{};
    Message message{};
};

/// Used by one thread. It connects by itself, and again after it was lost.
///
/// Whatever was delivered and not acknowledged comes again: after a lost connection, a rebalance or an ended process, to
/// this consumer or to another. A ticket from before is then stale: to acknowledge it, to give it back or to keep it does
/// nothing and is no failure, since that delivery has become the broker's again.
class Source {
public:
    virtual ~Source() = default;

    /// Up to `limit` messages, as soon as there is one; none when `wait` is over. Also does whatever the client library has
    /// to be called for: heartbeats, rebalances, reconnecting. Waits no longer than `wait`, give or take 100 ms.
    /// unavailable: the broker does not answer, with the address and the reason; call again later.
    /// invalid: it never will (no such topic or queue, access refused): the message names the setting.
    virtual Result<std::vector<Delivery>> fetch(std::size_t limit, Duration wait) = 0;

    /// These are done; the broker need not deliver them again. In any order: a broker that keeps one position per partition
    /// is told the lowest that is not done yet. Returns without waiting for the broker; see `flush`.
    virtual Status acknowledge(std::span<const Ticket> done) = 0;

    /// Waits until the broker has taken what was acknowledged. `unavailable`: some of it may come again.
    virtual Status flush(Duration wait) = 0;

    /// These were not handled: the broker shall deliver them again, soon, to anyone. Best effort.
    virtual Status give_back(std::span<const Ticket> undone) = 0;

    /// These are still being worked on: the broker must not think them lost. To be called every `keep_every()` for as long
    /// as anything is in work; zero: this broker needs no such word while fetch is called.
    virtual Status keep(std::span<const Ticket> working) = 0;
    [[nodiscard]] virtual Duration keep_every() const = 0;

    /// Tickets that became stale since the last call: their messages will be or have been delivered again.
    virtual std::vector<Ticket> taken_away() = 0;

    /// Leaves the group or the queue in order, after a flush. Nothing can be fetched afterwards.
    virtual void close() = 0;

    /// For people, without credentials: "kafka:orders", "rabbitmq:orders"…
    [[nodiscard]] virtual std::string text() const = 0;
};

}  // namespace semel
