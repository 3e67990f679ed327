// The outbox: events that are staged in the user's own transaction, and published by `semel outbox` once it has committed.
//
// semel/postgres.hpp and semel/sqlite.hpp have `stage`; services in other languages call semel.stage (docs/outbox.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "semel/message.hpp"
#include "semel/result.hpp"
#include "semel/time.hpp"

namespace semel {

struct StagedEvent {
    std::string topic{};  ///< topic, routing key, subject, stream or path, as its broker calls it
    std::string
        ordering_key{};  ///< events with the same one are published in the order of their commits; empty: no order
    Event event{};       ///< its id is the same on every publication
    std::string outbox = "main";  ///< whose relays publish it
    bool operator==(const StagedEvent&) const = default;
};

/// Whether every broker can carry it: `invalid` names what is wrong. id, source, type and topic are needed.
Status check(const StagedEvent& staged);

// ---- the relay's side ------------------------------------------------------------------------------------------------

/// Where an event is in the outbox.
struct OutboxPlace {
    std::int16_t shard = 0;
    std::int64_t sequence = 0;
    auto operator<=>(const OutboxPlace&) const = default;
};

struct OutboxRow {
    OutboxPlace place{};
    TimePoint staged_at{};
    StagedEvent staged{};
};

/// At most so many events of a shard, up to the one whose data reaches so many bytes.
struct OutboxReading {
    std::int16_t shard = 0;
    std::size_t limit = 0;
    std::size_t bytes = 32U << 20;
};

/// The broker has refused an event.
struct OutboxRefusal {
    OutboxPlace place{};
    std::string ordering_key{};
    std::string error{};
    Duration again_after{};
};

/// An event that was refused and waits for its next try.
struct OutboxStuck {
    OutboxPlace place{};
    std::string ordering_key{};
    std::string error{};
    std::uint64_t tries = 0;
    TimePoint since{};
    TimePoint retry_at{};
    std::string id{};
    std::string topic{};
};

/// A person's decision that an event is never published.
struct OutboxDrop {
    std::int64_t sequence = 0;
    std::string who{};  ///< 1 to 255 bytes
    std::string why{};  ///< 1 to 4096 bytes
};

/// Whether it says who and why: `invalid` names what is missing.
Status check(const OutboxDrop& drop);

/// What is kept of an event that was dropped: everything but its data.
struct OutboxDropped {
    OutboxDrop decision{};
    TimePoint dropped_at{};
    TimePoint staged_at{};
    std::uint64_t tries = 0;
    std::string error{};  ///< of the last try
    std::string topic{};
    std::string ordering_key{};
    std::string id{};  ///< empty, as are source and type: the event itself had been removed by hand
    std::string source{};
    std::string type{};
};

/// The outbox of one name in one database, as one relay sees it: on a connection of its own, used by one thread. Connects
/// again by itself. Failures are those of a store.
class OutboxTable {
public:
    virtual ~OutboxTable() = default;

    struct Held {
        std::vector<std::int16_t> shards{};  ///< this relay's, for as long as the lease
        std::size_t relays = 0;              ///< that live
        std::size_t share = 0;               ///< how many shards it should have; others may still have to let go
    };
    /// Says that this relay lives, keeps its share of the shards, lets the rest go and takes what is free.
    virtual Result<Held> hold(Duration lease) = 0;
    /// Lets all go.
    virtual void leave() = 0;

    struct Turn {
        std::span<const OutboxPlace> done{};       ///< confirmed by the broker: they are removed
        std::span<const OutboxRefusal> refused{};  ///< they stop their keys for so long
        std::span<const OutboxReading> read{};     ///< what is wanted of which shards
    };
    /// One durable transaction: removes, notes, then reads what is left of each shard, in order, without what is stopped.
    /// Safe to repeat with more. The spans are read during the call; from then until the answer nothing else may be asked.
    virtual void begin_turn(const Turn& turn) = 0;
    /// The answer, once: empty if it has not come within that time. Called now and then until it has; it comes, or is a
    /// failure, within a time that the table knows.
    virtual std::optional<Result<std::vector<OutboxRow>>> turned(Duration wait) = 0;
    /// Both.
    Result<std::vector<OutboxRow>> turn(const Turn& turn);

    /// Whether staging in this relay's shards rings the bell.
    virtual Status ring(bool wanted) = 0;
    /// Until the bell rings, or the time is over, or the connection is lost. True: it rang. Without a way to hear it
    /// (behind a pooler) only time passes.
    virtual bool wait(Duration time) = 0;
    [[nodiscard]] virtual bool hears() const = 0;

    struct Health {
        TimePoint now{};
        std::optional<TimePoint> oldest{};  ///< of what is staged and not published, stuck events included
        std::uint64_t stuck = 0;
        std::optional<Duration> held_up_for{};  ///< how long the oldest transaction that staged has been open
        std::string held_up_by{};               ///< for people
    };
    virtual Result<Health> health() = 0;

    virtual Result<std::vector<OutboxStuck>> stuck(std::size_t limit) = 0;
    /// Tried again at once. False: there is no such event, or it is not stuck.
    virtual Result<bool> retry(std::int64_t sequence) = 0;
    /// Removed without having been published; the decision is kept, in the same transaction. False: likewise. `invalid`: the
    /// decision does not say who and why.
    virtual Result<bool> drop(const OutboxDrop& drop) = 0;
    /// What was dropped, the latest first.
    virtual Result<std::vector<OutboxDropped>> dropped(std::size_t limit) = 0;

    [[nodiscard]] virtual std::string text() const = 0;  ///< for people, without credentials
};

inline Result<std::vector<OutboxRow>> OutboxTable::turn(const Turn& turn) {
    begin_turn(turn);
    while (true)
        if (auto answer = turned(std::chrono::seconds{1})) return *std::move(answer);
}

}  // namespace semel
