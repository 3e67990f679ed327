// The moments at which a crash matters. In the program they do nothing; the crash tests link a definition of their own that
// kills the process there.
#pragma once

#include <cstdint>

namespace semel::gateway {

enum class Point : std::uint8_t { before_claim, after_claim, after_forwarding, after_answer, after_settle };

void reach(Point point);

}  // namespace semel::gateway
