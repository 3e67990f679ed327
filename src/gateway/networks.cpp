#include "gateway/networks.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/quote.hpp"

namespace semel::gateway {
namespace {

struct Numeric {
    bool v4 = false;
    bool mapped = false;  // IPv4 written in IPv6
    std::array<unsigned char, 16> bytes{};
    [[nodiscard]] unsigned bits() const { return v4 ? 32 : 128; }
};

constexpr std::array<unsigned char, 12> mapped_prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

std::optional<Numeric> read_address(std::string_view text) {
    std::array<char, INET6_ADDRSTRLEN> terminated{};
    if (text.size() >= terminated.size()) return std::nullopt;
    std::ranges::copy(text, terminated.begin());
    Numeric address;
    if (inet_pton(AF_INET, terminated.data(), address.bytes.data()) == 1) {
        address.v4 = true;
        return address;
    }
    if (inet_pton(AF_INET6, terminated.data(), address.bytes.data()) != 1) return std::nullopt;
    if (std::equal(mapped_prefix.begin(), mapped_prefix.end(), address.bytes.begin())) {
        address.v4 = address.mapped = true;
        std::copy(address.bytes.begin() + 12, address.bytes.end(), address.bytes.begin());
        std::fill(address.bytes.begin() + 4, address.bytes.end(), static_cast<unsigned char>(0));
    }
    return address;
}

// Whether the first `bits` of both are the same.
bool same_prefix(const std::array<unsigned char, 16>& a, const std::array<unsigned char, 16>& b, unsigned bits) {
    const unsigned whole = bits / 8;
    if (!std::equal(a.begin(), a.begin() + whole, b.begin())) return false;
    if (bits % 8 == 0) return true;
    const unsigned left = 8 - bits % 8;
    return a.at(whole) >> left == b.at(whole) >> left;
}

bool has_bits_after(const std::array<unsigned char, 16>& bytes, unsigned bits) {
    for (unsigned i = bits; i < bytes.size() * 8; ++i)
        if ((bytes.at(i / 8) >> (7 - i % 8) & 1) != 0) return true;
    return false;
}

}  // namespace

Result<Networks> Networks::parse(const std::vector<std::string>& texts) {
    Networks networks;
    for (const std::string_view text : texts) {
        const auto invalid = [&](std::string_view why) {
            return Failure{Code::invalid, fmt::format("{}: {}", in_quotes(text), why)};
        };
        const std::size_t slash = text.find('/');
        const auto address = read_address(text.substr(0, slash));
        if (!address) return invalid("not an address or a network, as in 10.0.0.1, 10.0.0.0/8 or ::1");
        unsigned bits = address->bits();
        if (slash != std::string_view::npos) {
            const unsigned written_max = address->mapped ? 128 : bits;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, bits);
            if (error != std::errc{} || rest != end || bits > written_max) return invalid("its prefix is not a length");
            if (address->mapped) {
                if (bits < 96) return invalid("write a network of IPv4 as 10.0.0.0/8");
                bits -= 96;
            }
        }
        if (has_bits_after(address->bytes, bits)) return invalid("it has bits after its prefix");
        networks.all_.push_back({address->v4, bits, address->bytes});
    }
    return networks;
}

bool Networks::contain(std::string_view address) const {
    const auto numeric = read_address(address.substr(0, address.find('%')));
    return numeric && std::ranges::any_of(all_, [&](const Network& network) {
               return network.v4 == numeric->v4 && same_prefix(network.first, numeric->bytes, network.bits);
           });
}

}  // namespace semel::gateway
