// A staged event as the databases keep it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "semel/outbox.hpp"

namespace semel {

/// `name=value`, a line each, in the order of names.
std::string extension_lines(const Event& event);
std::vector<MessageHeader> extensions_of(std::string_view lines);

}  // namespace semel
