// Where to listen and whom to call, as a configuration writes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semel::settings {

struct Address {
    std::string host{};  ///< a numeric address; `localhost` is read as 127.0.0.1
    std::uint16_t port = 0;
    [[nodiscard]] std::string text() const;  ///< `127.0.0.1:8080`, `[::1]:8080`
    [[nodiscard]] bool loopback() const;
    bool operator==(const Address&) const = default;
};

struct UpstreamServer {
    bool tls = false;
    std::string host{};  ///< a name or an address
    std::uint16_t port = 0;
    [[nodiscard]] std::string text() const;  ///< `http://127.0.0.1:9000`
    bool operator==(const UpstreamServer&) const = default;
};

/// `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`; port 0 asks the system for a free one. The host in its usual
/// spelling. Nothing for anything else.
std::optional<Address> parse_address(std::string_view text);

/// `http://host`, `https://host:port`; without path, query and user. Nothing for anything else.
std::optional<UpstreamServer> parse_upstream_server(std::string_view text);

}  // namespace semel::settings
