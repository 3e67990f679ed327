#include "gateway/network.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "http/fields.hpp"

namespace semel::gateway {
namespace {

constexpr unsigned mapped_bits = 96;  ///< of ::ffff:0:0/96, before an IPv4 address
constexpr std::size_t address_text_max = 45;

template <class Number>
std::optional<Number> parse_number(std::string_view text, Number most) {
    unsigned value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || rest != end || value > most) return std::nullopt;
    return static_cast<Number>(value);
}

bool is_mapped(const AddressBytes& bytes) {
    return std::all_of(bytes.begin(), bytes.begin() + 10, [](unsigned char b) { return b == 0; }) &&
           bytes[10] == 0xff && bytes[11] == 0xff;
}

/// Whether the bits from `from` on are all zero.
bool rest_is_zero(const AddressBytes& bytes, unsigned from) {
    for (unsigned bit = from; bit < 128; ++bit)
        if ((bytes[bit / 8] & (0x80U >> (bit % 8))) != 0) return false;
    return true;
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

}  // namespace

std::optional<AddressBytes> parse_address_bytes(std::string_view text) {
    if (text.size() > address_text_max) return std::nullopt;
    const std::string terminated(text);
    AddressBytes bytes{};
    if (inet_pton(AF_INET6, terminated.c_str(), bytes.data()) == 1) return bytes;
    bytes[10] = bytes[11] = 0xff;
    if (inet_pton(AF_INET, terminated.c_str(), bytes.data() + 12) == 1) return bytes;
    return std::nullopt;
}

std::optional<Network> Network::parse(std::string_view text) {
    const std::size_t slash = text.find('/');
    const auto first = parse_address_bytes(text.substr(0, slash));
    if (!first) return std::nullopt;
    if (slash == std::string_view::npos) return Network(*first, 128);
    const bool v4 = text.substr(0, slash).find(':') == std::string_view::npos;
    const auto written = parse_number<unsigned>(text.substr(slash + 1), v4 ? 32 : 128);
    if (!written) return std::nullopt;
    const unsigned bits = v4 ? mapped_bits + *written : *written;
    if (!rest_is_zero(*first, bits)) return std::nullopt;
    return Network(*first, bits);
}

bool Network::contains(const AddressBytes& address) const {
    const std::size_t whole = bits_ / 8;
    if (!std::equal(first_.begin(), first_.begin() + static_cast<std::ptrdiff_t>(whole), address.begin())) return false;
    if (bits_ % 8 == 0) return true;
    const auto mask = static_cast<unsigned char>(0xff00U >> (bits_ % 8));
    return ((first_[whole] ^ address[whole]) & mask) == 0;
}

bool Network::everyone() const { return bits_ == 0 || (bits_ == mapped_bits && is_mapped(first_)); }

std::optional<Address> parse_address(std::string_view text) {
    const auto parts = split(text);
    if (!parts) return std::nullopt;
    const auto port = parse_number<std::uint16_t>(parts->port, 65535);
    if (!port) return std::nullopt;
    if (parts->host == "localhost" && !parts->bracketed) return Address{"127.0.0.1", *port};
    const auto bytes = parse_address_bytes(parts->host);
    const bool v6 = parts->host.find(':') != std::string_view::npos;
    if (!bytes || v6 != parts->bracketed) return std::nullopt;
    std::array<char, INET6_ADDRSTRLEN> host{};
    inet_ntop(v6 ? AF_INET6 : AF_INET, v6 ? bytes->data() : bytes->data() + 12, host.data(), host.size());
    return Address{host.data(), *port};
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

}  // namespace semel::gateway
