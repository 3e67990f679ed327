// What everybody who tries again needs: how long to wait, and what went wrong.
#pragma once

#include <cstdint>
#include <string>

#include "base/random.hpp"
#include "semel/time.hpp"

namespace semel {

/// How long to wait after that many tries have failed, doubling from `first` up to `max`: half of it for sure, the rest by
/// chance, so that those that failed together do not come back together.
Duration backoff(Duration first, Duration max, std::uint32_t tries, Random& random);

/// What the exception in flight says. Inside of a catch clause.
std::string what_was_thrown();

}  // namespace semel
