// Where a server of ours listens, and where operations are kept: the settings that every configuration begins with.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "settings/addresses.hpp"
#include "settings/setting.hpp"

namespace semel::settings {

inline constexpr std::string_view address_right = "a numeric address and a port, as in 127.0.0.1:8080 or [::1]:8080";

/// Files in PEM. A client certificate is asked for when `client_ca` is given.
struct ServerTls {
    std::string certificate{};
    std::string key{};
    std::string client_ca{};                  ///< empty: no client certificates
    bool client_certificate_required = true;  ///< with client_ca; false: asked for, not demanded
    bool operator==(const ServerTls&) const = default;
};

struct Admin {
    Address address{};
    std::optional<ServerTls> tls{};
    std::string token{};  ///< demanded as `Authorization: Bearer`; off loopback this or client certificates must be set
    bool operator==(const Admin&) const = default;
};

inline constexpr auto admin_names = std::to_array<std::string_view>({"address", "token", "tls"});
inline constexpr Shape admin_shape{"admin", admin_names};

inline constexpr auto server_tls_names =
    std::to_array<std::string_view>({"certificate", "key", "client_ca", "client_certificate"});
inline constexpr Shape server_tls_shape{"server_tls", server_tls_names};

/// A credential that a header can carry, as Bearer. Never shown.
std::optional<std::string> read_token(const Setting& setting);
std::optional<Address> read_address(const Setting& setting);
std::optional<std::optional<ServerTls>> read_server_tls(const Setting& setting);
/// An address, or a mapping. Off loopback it has to say who may ask.
std::optional<std::optional<Admin>> read_admin(const Setting& setting);
/// `sqlite:PATH` or `postgres://…`, as it is written; never shown.
std::optional<std::string> read_store(const Setting& setting);

}  // namespace semel::settings
