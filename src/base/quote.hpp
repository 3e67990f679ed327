// How input that was refused is shown in a message.
#pragma once

#include <string>
#include <string_view>

namespace semel {

inline constexpr std::size_t quoted_bytes_max = 64;

/// The input in double quotes: one line of printable ASCII whatever it holds. Quotes and backslashes are escaped, other
/// bytes are written \xNN, and after quoted_bytes_max bytes it says how many there were.
std::string in_quotes(std::string_view input);

}  // namespace semel
