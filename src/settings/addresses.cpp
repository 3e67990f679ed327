#include "settings/addresses.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "http/fields.hpp"

namespace semel::settings {
namespace {

constexpr std::size_t address_text_max = 45;

template <class Number>
std::optional<Number> parse_number(std::string_view text, Number most) {
    unsigned value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || rest != end || value > most) return std::nullopt;
    return static_cast<Number>(value);
}

struct HostPort {
    std::string_view host;  ///< without brackets
    bool bracketed = false;
    std::string_view port;  ///< empty: none
};

std::optional<HostPort> split(std::string_view text) {
    HostPort parts;
    std::size_t after = 0;
    if (text.starts_with('[')) {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos) return std::nullopt;
        parts.host = text.substr(1, end - 1);
        parts.bracketed = true;
        after = end + 1;
    } else {
        after = std::min(text.find(':'), text.size());
        parts.host = text.substr(0, after);
    }
    text.remove_prefix(after);
    if (text.empty()) return parts;
    if (text[0] != ':' || text.size() == 1) return std::nullopt;
    parts.port = text.substr(1);
    return parts;
}

/// The usual spelling of a numeric address; empty for other text.
std::string numeric_host(std::string_view text, int family) {
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    std::array<char, INET6_ADDRSTRLEN> spelt{};
    if (text.size() > address_text_max || inet_pton(family, std::string(text).c_str(), bytes.data()) != 1) return {};
    return inet_ntop(family, bytes.data(), spelt.data(), spelt.size());
}

std::string host_and_port(const std::string& host, std::uint16_t port) {
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

}  // namespace

std::string Address::text() const { return host_and_port(host, port); }

bool Address::loopback() const { return host == "::1" || host.starts_with("127."); }

std::string UpstreamServer::text() const {
    return fmt::format("{}://{}", tls ? "https" : "http", host_and_port(host, port));
}

std::optional<Address> parse_address(std::string_view text) {
    const auto parts = split(text);
    if (!parts) return std::nullopt;
    const auto port = parse_number<std::uint16_t>(parts->port, 65535);
    if (!port) return std::nullopt;
    if (parts->host == "localhost" && !parts->bracketed) return Address{"127.0.0.1", *port};
    std::string host = numeric_host(parts->host, parts->bracketed ? AF_INET6 : AF_INET);
    if (host.empty()) return std::nullopt;
    return Address{std::move(host), *port};
}

std::optional<UpstreamServer> parse_upstream_server(std::string_view text) {
    UpstreamServer server;
    if (text.starts_with("http://")) {
        text.remove_prefix(7);
    } else if (text.starts_with("https://")) {
        text.remove_prefix(8);
        server.tls = true;
    } else {
        return std::nullopt;
    }
    const auto parts = split(text);
    if (!parts || parts->host.empty() || !http::is_host(text)) return std::nullopt;
    server.host = parts->host;
    server.port = server.tls ? 443 : 80;
    if (!parts->port.empty()) {
        const auto port = parse_number<std::uint16_t>(parts->port, 65535);
        if (!port || *port == 0) return std::nullopt;
        server.port = *port;
    }
    return server;
}

}  // namespace semel::settings
