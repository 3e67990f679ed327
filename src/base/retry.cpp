#include "base/retry.hpp"

#include <algorithm>
#include <exception>

namespace semel {

Duration backoff(Duration first, Duration max, std::uint32_t tries, Random& random) {
    Duration wait = first;
    for (std::uint32_t i = 1; i < tries && wait < max; ++i) wait *= 2;
    wait = std::min(wait, max);
    const auto half = static_cast<std::uint64_t>(wait.count() / 2);
    return wait / 2 + Duration{static_cast<std::int64_t>(random.below(half + 1))};
}

std::string what_was_thrown() {
    try {
        throw;
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "something was thrown that is no std::exception";
    }
}

}  // namespace semel
