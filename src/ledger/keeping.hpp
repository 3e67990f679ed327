// What every store does the same way besides deciding: listing and sweeping.
#pragma once

#include <optional>

#include "semel/store.hpp"

namespace semel {

/// Whether the record is one that the filter asks for.
bool matches(const Filter& filter, const Record& record, TimePoint now);

/// A sweep trusts the clock only if it moved on by a plausible step since the last one: a clock that jumped ahead would
/// forget everything at once, one that went back has been wrong before.
inline constexpr Duration sweep_step_max = std::chrono::hours{24 * 7};
inline constexpr Duration sweep_step_back_max = std::chrono::minutes{5};
Status check_sweep_clock(std::optional<TimePoint> last_sweep, TimePoint now, bool accept_clock);

}  // namespace semel
