#include "settings/values.hpp"

#include <fmt/format.h>

#include <set>

#include "http/chars.hpp"

namespace semel::settings {

std::optional<std::string> read_header_name(const Setting& setting) {
    constexpr std::string_view right = "the name of a header, as in X-Request-Id";
    auto name = setting.text(right);
    if (!name || http::all_of(*name, http::token_char)) return name;
    setting.expected(right);
    return std::nullopt;
}

std::optional<JsonPointer> read_pointer(const Setting& setting) {
    constexpr std::string_view right = "a JSON pointer to a part of the body, as in /client_time";
    const auto text = setting.text(right);
    if (!text) return std::nullopt;
    auto pointer = JsonPointer::parse(*text);
    if (pointer) return std::move(*pointer);
    setting.expected(right);
    return std::nullopt;
}

std::vector<JsonPointer> read_pointers(const Setting& setting) {
    std::vector<JsonPointer> pointers;
    for (const Setting& item : setting.items("a list of JSON pointers, as in [/client_time]"))
        if (auto pointer = read_pointer(item)) pointers.push_back(std::move(*pointer));
    return pointers;
}

std::optional<std::string> read_secret(const Setting& setting, std::size_t bytes_min) {
    const std::string right = fmt::format("a secret of at least {} characters, best as ${{NAME}}", bytes_min);
    auto secret = setting.hidden().text(right);
    if (!secret || secret->size() >= bytes_min) return secret;
    setting.hidden().expected(right);
    return std::nullopt;
}

std::vector<std::string> read_secrets(const Mapping& in, std::size_t bytes_min) {
    std::vector<std::string> secrets;
    const auto add = [&](const Setting& setting) {
        if (auto secret = read_secret(setting, bytes_min)) secrets.push_back(std::move(*secret));
    };
    if (const auto secret = in.find("secret")) add(*secret);
    if (const auto previous = in.find("previous_secrets")) {
        for (const Setting& item : previous->items("a list of secrets")) add(item);
        if (!in.has("secret"))
            in.refuse("previous_secrets", "there is no secret that replaces them; write secret, too");
    }
    refuse_twice(in, "previous_secrets", secrets);
    return secrets;
}

void refuse_twice(const Mapping& in, std::string_view name, const std::vector<std::string>& values) {
    if (std::set<std::string>(values.begin(), values.end()).size() != values.size())
        in.refuse(name, "one of them is written twice");
}

std::optional<ClientTls> read_client_tls(const Setting& setting) {
    const auto in = setting.mapping(client_tls_shape, "a mapping with ca, certificate, key or server_name");
    if (!in) return std::nullopt;
    ClientTls tls;
    fill(*in, "ca", tls.ca, text_of("the path of a PEM file"));
    fill(*in, "certificate", tls.certificate, text_of("the path of a PEM file"));
    fill(*in, "key", tls.key, text_of("the path of a PEM file"));
    fill(*in, "server_name", tls.server_name, text_of("a host name"));
    if (in->has("certificate") != in->has("key"))
        in->refuse(in->has("key") ? "certificate" : "key", "a certificate and its key belong together; write both");
    return tls;
}

std::optional<TlsFiles> read_endpoint_tls(const Setting& setting) {
    const auto in = setting.mapping(endpoint_tls_shape, "a mapping with ca, certificate or key");
    if (!in) return std::nullopt;
    TlsFiles tls;
    fill(*in, "ca", tls.ca, text_of(pem_right));
    fill(*in, "certificate", tls.certificate, text_of(pem_right));
    fill(*in, "key", tls.key, text_of(pem_right));
    if (in->has("certificate") != in->has("key"))
        in->refuse(in->has("key") ? "certificate" : "key", "a certificate and its key belong together; write both");
    return tls;
}

}  // namespace semel::settings
