// Time as cnats takes it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "semel/time.hpp"

namespace semel::nats {

/// Rounded up and at least one, since zero is an error to cnats.
inline std::int64_t millis_of(Duration duration) {
    return std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

}  // namespace semel::nats
