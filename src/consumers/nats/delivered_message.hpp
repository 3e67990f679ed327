// From what JetStream delivers to a Message.
#pragma once

#include <nats/nats.h>

#include <cstdint>
#include <optional>
#include <string>

#include "semel/message.hpp"

namespace semel::nats {

struct Delivered {
    Message message{};
    std::string reply{};         ///< where an acknowledgement of this delivery goes
    std::uint64_t sequence = 0;  ///< in the stream
};

/// None: it is no message of a stream.
std::optional<Delivered> delivered_of(natsMsg* raw, const std::string& ordering_header);

}  // namespace semel::nats
