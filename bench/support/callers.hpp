// Callers of a committer, each with one command on its way at any time: claim, settle, claim the next.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "semel/committer.hpp"
#include "support/figures.hpp"

namespace semel::bench {

struct Load {
    std::size_t callers = 64;
    std::chrono::duration<double> warm_up{0.3};
    std::chrono::duration<double> length{1.5};
    bool settles = true;           ///< false: claims only
    std::size_t body_bytes = 256;  ///< of each outcome
    Policy policy;
};

/// Callers that are small state machines on the committer's own threads: any number of them. `per_second` counts claims
/// (each settled, if the load says so); `micros` are the claims' from submit to answer.
Run run_callbacks(Committer& committer, const Load& load);

/// The same with one blocked thread per caller.
Run run_threads(Committer& committer, const Load& load);

/// The operation, fingerprint and policy that every caller uses; the key is new.
Claim next_claim(const Policy& policy);
std::string outcome_body(std::size_t bytes);

}  // namespace semel::bench
