#include "settings/listeners.hpp"

#include <algorithm>
#include <array>

#include "settings/values.hpp"

namespace semel::settings {
namespace {

using Word = std::string_view;

}  // namespace

std::optional<std::string> read_token(const Setting& setting) {
    auto token = read_secret(setting, secret_bytes_min);
    if (!token || std::ranges::all_of(*token, [](char c) { return c > 0x20 && c < 0x7f; })) return token;
    setting.hidden().expected("visible ASCII characters without spaces, as a header can carry");
    return std::nullopt;
}

std::optional<Address> read_address(const Setting& setting) {
    const auto text = setting.text(address_right);
    if (!text) return std::nullopt;
    auto address = parse_address(*text);
    if (!address) setting.expected(address_right);
    return address;
}

std::optional<std::optional<ServerTls>> read_server_tls(const Setting& setting) {
    const auto in = setting.mapping(server_tls_shape, "a mapping with certificate and key");
    if (!in) return std::nullopt;
    ServerTls tls;
    static_cast<void>(in->required("certificate", pem_right));
    static_cast<void>(in->required("key", pem_right));
    fill(*in, "certificate", tls.certificate, text_of(pem_right));
    fill(*in, "key", tls.key, text_of(pem_right));
    fill(*in, "client_ca", tls.client_ca, text_of(pem_right));
    constexpr std::array<std::pair<Word, bool>, 2> demands{{{"required", true}, {"optional", false}}};
    fill(*in, "client_certificate", tls.client_certificate_required, word_of(demands));
    if (in->has("client_certificate") && !in->has("client_ca"))
        in->refuse("client_certificate", "it is judged by client_ca; write that, too");
    return tls;
}

std::optional<std::optional<Admin>> read_admin(const Setting& setting) {
    Admin admin;
    if (setting.is_mapping()) {
        const auto in = setting.mapping(admin_shape, "");
        static_cast<void>(in->required("address", address_right));
        fill(*in, "address", admin.address, read_address);
        fill(*in, "token", admin.token, read_token);
        fill(*in, "tls", admin.tls, read_server_tls);
        if (in->has("token") && admin.token.empty()) return std::nullopt;
    } else {
        const auto address = read_address(setting);
        if (!address) return std::nullopt;
        admin.address = *address;
    }
    if (admin.address.host.empty() || admin.address.loopback() || !admin.token.empty()) return admin;
    if (admin.tls && !admin.tls->client_ca.empty() && admin.tls->client_certificate_required) return admin;
    setting.refuse(
        "not on loopback, where anybody could read and resolve operations; write a token, or tls with client_ca and client "
        "certificates required");
    return std::nullopt;
}

std::optional<std::string> read_store(const Setting& setting) {
    constexpr Word right = "sqlite:PATH, as in sqlite:semel.db, or postgres://USER@HOST/DATABASE";
    auto text = setting.hidden().text(right);
    if (!text) return std::nullopt;
    const bool may_hold_password = text->find('@') != std::string::npos || text->find("password") != std::string::npos;
    for (const Word scheme : {"sqlite:", "postgres://", "postgresql://"})
        if (text->starts_with(scheme) && text->size() > scheme.size()) return text;
    (may_hold_password ? setting.hidden() : setting).expected(right);
    return std::nullopt;
}

}  // namespace semel::settings
