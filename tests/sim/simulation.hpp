// One simulation from one seed: processes over a store, clients who repeat themselves, people who resolve, faults; then
// calm, in which everything has to come to an end.
#pragma once

#include <cstdint>
#include <string>

#include "stage.hpp"

namespace semel::sim {

struct Options {
    std::uint64_t seed = 1;
    std::uint64_t steps = 5000;  ///< events before calm
    bool trace = false;
    std::string only;  ///< judge this invariant and no other
};

struct Report {
    Counts counts;
    std::uint64_t trace_hash = 0;
};

/// Throws Violation when an invariant does not hold.
Report simulate_ledger(const Options& options);

}  // namespace semel::sim
