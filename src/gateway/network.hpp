// Addresses, networks and upstream servers as a configuration writes them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "gateway/config.hpp"

namespace semel::gateway {

/// An IP address as 16 bytes: an IPv4 one as ::ffff:a.b.c.d, so that a peer is the same over either kind of socket.
using AddressBytes = std::array<unsigned char, 16>;

/// Numeric only, without brackets, zone or port.
std::optional<AddressBytes> parse_address_bytes(std::string_view text);

/// All addresses that begin with the same bits: `10.0.0.0/8`, or one address: `::1`.
class Network {
public:
    /// Nothing for what is no network, or has bits set behind its prefix.
    static std::optional<Network> parse(std::string_view text);
    [[nodiscard]] bool contains(const AddressBytes& address) const;
    /// Every address there is, of either kind.
    [[nodiscard]] bool everyone() const;

private:
    Network(const AddressBytes& first, unsigned bits) : first_(first), bits_(bits) {}
    AddressBytes first_;
    unsigned bits_;  ///< of 128
};

/// `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`; port 0 asks the system for a free one. The host in its usual
/// spelling. Nothing for anything else.
std::optional<Address> parse_address(std::string_view text);

/// `http://host`, `https://host:port`; without path, query and user. Nothing for anything else.
std::optional<UpstreamServer> parse_upstream_server(std::string_view text);

}  // namespace semel::gateway
