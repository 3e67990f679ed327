// One run of an intent: tries and waits, until there is a final answer or no time left. Clock, randomness, waiting and the
// call itself are passed in.
#pragma once

#include <functional>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "client/decision.hpp"

namespace semel::client {

/// What a run needs of the world.
struct World {
    Clock& clock;
    Random& random;
    /// One try, with so much time.
    std::function<HttpEnd(Duration timeout)> call;
    /// Waits so long, or until it is asked to stop.
    std::function<void(Duration)> wait;
    std::function<bool()> stopped;
};

struct Ran {
    Outcome outcome{};
    std::uint32_t tries = 0;
    bool doubt = false;  ///< a try, of this run or an earlier one, may have been executed
};

/// `doubt`: a try of an earlier run may have been executed. `timeout`: of one try; the last one gets what is left of the budget.
Ran run(const RetryRules& rules, Duration timeout, bool doubt, const World& world);

}  // namespace semel::client
