// SEMEL_ASSERT: our own mistakes stop the process, in release too; the store is the place to recover from.
#pragma once

namespace semel {
[[noreturn]] void assertion_failed(const char* condition, const char* why, const char* file, int line) noexcept;
}

#define SEMEL_ASSERT(condition, why) \
    ((condition) ? void(0) : ::semel::assertion_failed(#condition, why, __FILE__, __LINE__))
