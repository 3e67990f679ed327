// What must be true of every step of every history: the invariants of rules.cpp, said without looking at how it keeps them.
#pragma once

#include <string_view>

#include "moves.hpp"

namespace semel::enumerate {

/// Thrown by `check`: the invariant by its number (or the section of DESIGN.md), and what went wrong.
struct Violation {
    std::string_view invariant;
    std::string_view what;
};

/// Returns if the step keeps every invariant.
void check(const Step& step);

}  // namespace semel::enumerate
