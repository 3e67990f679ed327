// Minting keys and deriving one key from another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "semel/operation.hpp"

namespace semel {

/// A random UUID (version 4) from the system's secure random source. Thread safe.
Key mint_uuid4();

/// A time-ordered UUID (version 7): `at` in milliseconds, the rest from the secure random source. Thread safe.
Key mint_uuid7(std::chrono::system_clock::time_point at = std::chrono::system_clock::now());

/// A new attempt id. Thread safe.
Attempt mint_attempt();

/// The key that `parent` hands to the next hop for `step`: the same input gives the same key, for ever.
/// `business_attempt` grows only by an explicit decision after a settled failure; redeliveries and takeovers never
/// enter a derived key. The result is a UUID (version 8) over the length-prefixed inputs.
Key derive(const Operation& parent, std::string_view step, std::uint32_t business_attempt = 1);

}  // namespace semel
