#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace semel {

void assertion_failed(const char* condition, const char* why, const char* file, int line) noexcept {
    std::fprintf(stderr, "semel: %s:%d: assertion failed: %s (%s)\n", file, line, why, condition);
    std::abort();
}

}  // namespace semel
