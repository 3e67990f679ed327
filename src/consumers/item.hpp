// A message on its way through one batch.
#pragma once

#include <optional>
#include <string>

#include "base/retry.hpp"
#include "consumers/dead_letters.hpp"
#include "consumers/shelf.hpp"
#include "semel/consumer.hpp"

namespace semel {

/// What became of a message in this batch.
enum class Fate : std::uint8_t {
    open,       ///< not decided yet
    applied,    ///< its handler ran
    duplicate,  ///< done before
    copy,       ///< of another one of this batch, whose fate it shares
    stale,      ///< the order guard has a newer one
    held,       ///< the order guard waits for the ones before it
    behind,     ///< waits on the shelf behind one that failed
    failed,     ///< waits on the shelf for its next try
    dead,       ///< among the dead letters
    busy,       ///< somebody else is at it: to be looked at again
};

struct Item {
    const Message* message = nullptr;
    std::uint32_t tries = 1;  ///< this one included
    /// Of a message that came from the shelf.
    std::optional<std::int64_t> shelf_number{};
    std::optional<std::uint32_t> shelf_generation{};
    TimePoint first_at{};

    Event event{};
    std::optional<Key> key{};
    std::optional<Operation> operation{};
    OperationId id{};
    Fingerprint fingerprint{};
    std::string aggregate{};
    std::optional<std::int64_t> sequence{};

    Fate fate = Fate::open;
    std::size_t copy_of = 0;  ///< of a copy: which item of the batch it is one of
    std::optional<Claimed> claimed{};
    DeadReason reason = DeadReason::unreadable;
    std::string error{};
    Duration look_again{0};
};

/// Reads envelope, key and order of a message. One that cannot be read is dead, with a reason.
Item read_item(const Message& message, const ConsumerOptions& options);
/// The same for one from the shelf, which the item refers to.
Item read_item(const Shelved& shelved, const ConsumerOptions& options);

/// How long to wait after that many tries have failed.
Duration backoff(const RetryOptions& retries, std::uint32_t tries);

/// An error as it is kept: valid UTF-8, one line, of bounded length.
std::string error_text(std::string_view text);

}  // namespace semel
