// Kinds of values that several sections of the configuration have.
#pragma once

#include <optional>
#include <string>

#include "gateway/config.hpp"
#include "settings/setting.hpp"

namespace semel::gateway {

inline constexpr std::size_t webhook_secret_bytes_min = 8;

/// The name of a header of requests that may be read from: a token, not one that ends at this hop, frames the message
/// or is Semel's own.
std::optional<std::string> read_request_header(const Setting& setting);

/// `http://…`, a list of them, or a mapping.
std::optional<Upstream> read_upstream(const Setting& setting);

}  // namespace semel::gateway
