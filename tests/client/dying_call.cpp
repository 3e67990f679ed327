// The semel program whose `call` dies where SEMEL_TEST_DIE_AT says.
#include <array>

#include "client/points.hpp"
#include "support/death.hpp"

namespace semel::client {

// Instead of points.cpp: the linker takes an archive's object only for what is still missing.
void reach(Point point) {
    static constexpr auto names =
        std::to_array<std::string_view>({"before_persist", "after_persist", "after_answer", "after_record"});
    die_at(names[static_cast<std::size_t>(point)], names);
}

}  // namespace semel::client
