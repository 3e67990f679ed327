// The semel program with a gateway that dies where SEMEL_TEST_DIE_AT says: a crash at a moment that a kill from outside
// cannot hit. `after_claim` dies when that point is reached first, `after_claim:3` when it is reached the third time.
#include <signal.h>

#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/assert.hpp"
#include "gateway/points.hpp"

namespace semel::gateway {
namespace {

constexpr auto names = std::to_array<std::string_view>(
    {"before_claim", "after_claim", "after_forwarding", "after_answer", "after_settle"});

struct Death {
    std::string_view at{};
    long countdown = 1;

    static Death read() {
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

}  // namespace

// Instead of points.cpp: the linker takes an archive's object only for what is still missing.
void reach(Point point) {
    static const Death death = Death::read();
    static std::atomic<long> left = death.countdown;
    if (names[static_cast<std::size_t>(point)] == death.at && --left == 0) raise(SIGKILL);
}

}  // namespace semel::gateway
