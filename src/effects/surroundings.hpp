// What intents and workflows reach the world through. The program's are a committer with its threads and the machine's clock;
// in the simulator everything that waits gives way to the next event.
#pragma once

#include <chrono>
#include <stop_token>

#include "async/lease_keeper.hpp"
#include "base/random.hpp"
#include "semel/committer.hpp"

namespace semel::effects {

/// Time and chance. Thread safe.
class Pace {
public:
    using Steady = std::chrono::steady_clock::time_point;

    virtual ~Pace() = default;
    [[nodiscard]] virtual Steady now() const = 0;
    /// Waits that long, or until it is asked to stop. Whether it was.
    virtual bool wait(Duration how_long, const std::stop_token& stop) = 0;
    virtual Random& random() = 0;
};

/// The machine's.
Pace& system_pace();

struct Surroundings {
    BlockingLedger& ledger;
    Leases& leases;
    Pace& pace;
};

}  // namespace semel::effects
