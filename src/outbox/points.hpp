// The moments at which a crash matters. In the program they do nothing; the crash tests link a definition of their own that
// kills the process there.
#pragma once

#include <cstdint>

namespace semel::outbox {

enum class Point : std::uint8_t { after_read, after_publish, after_confirm, after_ask, after_remove };

void reach(Point point);

}  // namespace semel::outbox
