// Which operation a message is: the key under which its group's ledger knows it. Pure. docs/formats/keys.md has the bytes.
//
// Where a key comes from, best first. What is not there is never replaced by something else: the message is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "semel/message.hpp"
#include "semel/operation.hpp"

namespace semel {

enum class KeySource : std::uint8_t {
    envelope = 1,  ///< the event's source and id: the sender's own name for it, the same however often it is sent
    producer = 2,  ///< a producer's id and its sequence number, from two headers: as good, while producers number truly
    position = 3,  ///< where the broker keeps the message: covers redelivery only; a message sent twice has two
    content = 4,   ///< a hash of type and data: the last resort, since two equal messages that were meant become one
};
std::string_view name(KeySource source);

struct MessageKeyOptions {
    KeySource source = KeySource::envelope;
    std::string producer_header{};  ///< of `producer`: the names of its headers, as they are written in messages
    std::string sequence_header{};
    bool operator==(const MessageKeyOptions&) const = default;
};

/// Whether there is a key to be found like this; `invalid` names the option that is missing.
Status check(const MessageKeyOptions& options);

/// The message's key. Two messages have the same key if and only if their source and id (or producer and sequence number,
/// position, type and data) are the same byte for byte, and keys from different kinds of source never meet; all that up to
/// collisions of SHA-256. `invalid`: the message does not have what the key is made of.
Result<Key> key_of(const Message& message, const Event& event, const MessageKeyOptions& options);

}  // namespace semel
