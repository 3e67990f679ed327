// The moments at which a crash matters. In the program they do nothing; the crash tests link a definition of their own that
// kills the process there.
#pragma once

#include <cstdint>

namespace semel::client {

enum class Point : std::uint8_t { before_persist, after_persist, after_answer, after_record };

void reach(Point point);

}  // namespace semel::client
