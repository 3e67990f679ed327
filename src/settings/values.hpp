// Kinds of values that several configurations have.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "ledger/json_pointer.hpp"
#include "semel/http.hpp"
#include "settings/setting.hpp"

namespace semel::settings {

inline constexpr std::size_t secret_bytes_min = 16;

/// Any name of a header.
std::optional<std::string> read_header_name(const Setting& setting);

/// A JSON pointer to a part of a document.
std::optional<JsonPointer> read_pointer(const Setting& setting);
std::vector<JsonPointer> read_pointers(const Setting& setting);

/// Never shown in a message, nor how long it is.
std::optional<std::string> read_secret(const Setting& setting, std::size_t bytes_min);
/// `secret`, then those of `previous_secrets`; empty without them.
std::vector<std::string> read_secrets(const Mapping& in, std::size_t bytes_min);
/// Whether one is in the list twice, which is a problem of that setting.
void refuse_twice(const Mapping& in, std::string_view name, const std::vector<std::string>& values);

/// How to call a server over TLS. Files in PEM.
struct ClientTls {
    std::string ca{};           ///< empty: the system's
    std::string certificate{};  ///< shown to the upstream, with `key`; empty: none
    std::string key{};
    std::string server_name{};  ///< checked instead of the host's; empty: the host's
    bool operator==(const ClientTls&) const = default;
};
inline constexpr auto client_tls_names = std::to_array<std::string_view>({"ca", "certificate", "key", "server_name"});
inline constexpr Shape client_tls_shape{"client_tls", client_tls_names};
std::optional<ClientTls> read_client_tls(const Setting& setting);

inline constexpr std::string_view pem_right = "the path of a PEM file";
/// How to call an endpoint over TLS.
inline constexpr auto endpoint_tls_names = std::to_array<std::string_view>({"ca", "certificate", "key"});
inline constexpr Shape endpoint_tls_shape{"endpoint_tls", endpoint_tls_names};
std::optional<TlsFiles> read_endpoint_tls(const Setting& setting);

/// May hold a password, and is never shown.
inline auto url_of(std::string_view right, std::initializer_list<std::string_view> schemes) {
    return [right,
            schemes = std::vector<std::string_view>(schemes)](const Setting& setting) -> std::optional<std::string> {
        auto text = setting.hidden().text(right);
        if (!text) return std::nullopt;
        for (const std::string_view scheme : schemes)
            if (text->starts_with(scheme) && text->size() > scheme.size()) return text;
        setting.hidden().expected(right);
        return std::nullopt;
    };
}

}  // namespace semel::settings
