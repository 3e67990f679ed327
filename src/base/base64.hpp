// Base64, read strictly: the same bytes have one text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace semel {

/// RFC 4648, padded.
std::string to_base64(std::string_view bytes);

/// RFC 4648, strictly: padded to four, no white space, no bits left over. Empty: it is not that.
std::optional<std::string> from_base64(std::string_view text);
/// The alphabet for URLs, without padding (RFC 7515), as strictly.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace semel
