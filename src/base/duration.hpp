// Durations and points in time as people write and read them.
#pragma once

#include <string>
#include <string_view>

#include "semel/result.hpp"
#include "semel/time.hpp"

namespace semel {

/// Reads a whole number with a unit: `us`, `ms`, `s`, `m`, `h` or `d`, as in `250ms`, `24h`, `7d`; nothing before,
/// between or after. Anything else, and what does not fit a Duration, is `invalid` with a message that says what would
/// be right.
Result<Duration> parse_duration(std::string_view text);

/// In the largest unit that divides it: `90s`, `24h` is `1d`, zero is `0s`. parse_duration reads it back, if not
/// negative.
std::string to_text(Duration duration);

/// ISO 8601 in UTC, cut to milliseconds: `2023-11-14T22:13:20.000Z`. Years outside 0–9999 carry a sign; `never` is
/// `never`.
std::string to_text(TimePoint at);

}  // namespace semel
