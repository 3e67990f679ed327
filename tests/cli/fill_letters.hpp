// Dead letters and consumers for the tests of the command line.
#pragma once

#include <string>

namespace semel {

/// Five letters, the numbers of an empty store being 1 to 5, and the consumers orders, payments, shelved and gone. Returns the
/// exit code.
int fill_letters(const std::string& url);

}  // namespace semel
