// Relays of the outbox, as the product has them, over a database and a broker with faults; then calm, in which everything has to
// be published.
#pragma once

#include <string_view>

#include "simulation.hpp"

namespace semel::sim {

/// Whether this is one of the invariants that are judged there.
bool judged_of_outbox(std::string_view invariant);

/// Throws Violation when an invariant does not hold.
Report simulate_outbox(const Options& options);

}  // namespace semel::sim
