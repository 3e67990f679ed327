// How the program ends, and how it says why.
#pragma once

#include <string>
#include <string_view>

#include "semel/result.hpp"

namespace semel::cli {

enum ExitCode {
    exit_ok = 0,
    exit_failure = 1,  ///< a finding, or a failure of the world
    exit_usage = 2,    ///< malformed input or configuration: nothing was done
};

/// Writes `semel: message` to stderr, as one line whatever the message holds.
void complain(std::string_view message);

/// Complains, and returns the exit code that fits: exit_usage for what was refused as `invalid`, else exit_failure.
int fail(const Failure& failure);

/// A refusal of input: names it and says what would be right.
Failure refused(std::string message);

}  // namespace semel::cli
