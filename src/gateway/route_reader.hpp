// Reads the routes of a configuration.
#pragma once

#include <vector>

#include "gateway/config.hpp"
#include "settings/setting.hpp"

namespace semel::gateway {

/// `others` is what the file says outside of its routes. Two routes with one name, and one that is never reached, are
/// problems.
std::vector<Route> read_routes(const Setting& setting, const Config& others);

}  // namespace semel::gateway
