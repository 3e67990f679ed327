// Why a body counts as raw bytes although its media type says JSON.
#pragma once

#include <string>
#include <string_view>

namespace semel::cli {

/// Says what is wrong with a body that canonical_json refused, for people.
std::string why_raw(std::string_view body);

}  // namespace semel::cli
