// The command line: one subcommand each, thin calls into the library.
#pragma once

namespace semel::cli {

/// Runs the program. Exit codes: 0 ok, 1 finding or failure, 2 usage or configuration.
int run(int argc, char** argv);

}  // namespace semel::cli
