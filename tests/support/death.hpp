// A crash at a moment that a kill from outside cannot hit: SEMEL_TEST_DIE_AT=POINT[:TIMES] says at which point, and when it is
// reached the how manyth time.
#pragma once

#include <signal.h>

#include <atomic>
#include <charconv>
#include <cstdlib>
#include <span>
#include <string_view>

#include "base/assert.hpp"

namespace semel {

struct Death {
    std::string_view at{};
    long countdown = 1;

    /// `names`: the points that there are.
    static Death read(std::span<const std::string_view> names) {
        const char* const said = std::getenv("SEMEL_TEST_DIE_AT");
        if (said == nullptr) return {};
        const std::string_view text(said);
        const auto colon = text.find(':');
        Death death{.at = text.substr(0, colon)};
        if (colon != std::string_view::npos)
            std::from_chars(text.data() + colon + 1, text.data() + text.size(), death.countdown);
        bool known = false;
        for (const std::string_view name : names) known = known || name == death.at;
        SEMEL_ASSERT(known && death.countdown > 0, "SEMEL_TEST_DIE_AT=POINT[:TIMES]");
        return death;
    }
};

/// Dies here if this is the point, and the time, that was asked for.
inline void die_at(std::string_view point, std::span<const std::string_view> names) {
    static const Death death = Death::read(names);
    static std::atomic<long> left = death.countdown;
    if (point == death.at && --left == 0) raise(SIGKILL);
}

}  // namespace semel
