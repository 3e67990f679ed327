// Time as the ledger sees it: points on the store's own clock (I5), in microseconds since 1970.
#pragma once

#include <chrono>
#include <cstdint>

namespace semel {

using Duration = std::chrono::microseconds;

/// The clock of a store: the database server's where there is one. It has no now(): only the store can read it.
struct StoreClock {
    using duration = Duration;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<StoreClock, duration>;
    static constexpr bool is_steady = false;
};
using TimePoint = StoreClock::time_point;

constexpr TimePoint time_from_micros(std::int64_t micros) { return TimePoint{Duration{micros}}; }
constexpr std::int64_t micros(TimePoint at) { return at.time_since_epoch().count(); }

/// Later than every real time.
inline constexpr TimePoint never = TimePoint::max();

/// at + by, stopping at `never` instead of overflowing. `by` must not be negative.
constexpr TimePoint later(TimePoint at, Duration by) { return at > never - by ? never : at + by; }

}  // namespace semel
