// The semel program with an outbox that dies where SEMEL_TEST_DIE_AT says (support/death.hpp).
#include <array>

#include "outbox/points.hpp"
#include "support/death.hpp"

namespace semel::outbox {

// Instead of points.cpp: the linker takes an archive's object only for what is still missing.
void reach(Point point) {
    static constexpr auto names =
        std::to_array<std::string_view>({"after_read", "after_publish", "after_confirm", "after_ask", "after_remove"});
    die_at(names[static_cast<std::size_t>(point)], names);
}

}  // namespace semel::outbox
