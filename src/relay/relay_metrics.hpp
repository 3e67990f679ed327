// What the relays count, in Prometheus' terms. Labels are bounded: relays come from the configuration, everything else from
// what is written here.
#pragma once

#include <string>
#include <vector>

#include "relay/relay.hpp"

namespace semel::relay {

/// The text of Prometheus' exposition format.
std::string metrics_text(const std::vector<RelayState>& states, std::uint64_t swept);

}  // namespace semel::relay
