// A connection to NATS, made of the settings of whoever reads or publishes.
#pragma once

#include <nats/nats.h>

#include <cstdint>
#include <string>

#include "consumers/nats/handles.hpp"
#include "semel/nats.hpp"
#include "semel/result.hpp"

namespace semel::nats {

enum class Reconnects : std::uint8_t { never, for_ever };

/// Connects by url, credentials_file, ca_file and connect_timeout. The failure's message is the reason alone.
Result<ConnectionHandle> dial(const Options& options, Reconnects reconnects);

/// What the library said last on this thread.
std::string last_error(natsStatus status);
/// Whether the server would say the same again.
bool is_refusal(natsStatus status);

}  // namespace semel::nats
