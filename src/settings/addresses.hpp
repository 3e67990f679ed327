// Where to listen and whom to call, as a configuration writes it.
#pragma once

#include <optional>
#include <string_view>

#include "gateway/config.hpp"

namespace semel::gateway {

/// `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`; port 0 asks the system for a free one. The host in its usual
/// spelling. Nothing for anything else.
std::optional<Address> parse_address(std::string_view text);

/// `http://host`, `https://host:port`; without path, query and user. Nothing for anything else.
std::optional<UpstreamServer> parse_upstream_server(std::string_view text);

}  // namespace semel::gateway
