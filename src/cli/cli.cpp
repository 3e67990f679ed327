#include "cli/cli.hpp"

namespace semel::cli {

int run(int, char**) { return 0; }

}  // namespace semel::cli
