// The semel program with a gateway that dies where SEMEL_TEST_DIE_AT says: a crash at a moment that a kill from outside
// cannot hit. `after_claim` dies when that point is reached first, `after_claim:3` when it is reached the third time.
#include <array>

#include "gateway/points.hpp"
#include "support/death.hpp"

namespace semel::gateway {

// Instead of points.cpp: the linker takes an archive's object only for what is still missing.
void reach(Point point) {
    static constexpr auto names = std::to_array<std::string_view>(
        {"before_claim", "after_claim", "after_forwarding", "after_answer", "after_settle"});
    die_at(names[static_cast<std::size_t>(point)], names);
}

}  // namespace semel::gateway
