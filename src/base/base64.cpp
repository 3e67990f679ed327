#include "base/base64.hpp"

#include <array>

namespace semel {
namespace {

// The value of every character of an alphabet; 64 for all others.
constexpr std::array<unsigned char, 256> values_of(std::string_view last_two) {
    std::array<unsigned char, 256> values{};
    values.fill(64);
    for (unsigned i = 0; i < 26; ++i) values['A' + i] = static_cast<unsigned char>(i);
    for (unsigned i = 0; i < 26; ++i) values['a' + i] = static_cast<unsigned char>(26 + i);
    for (unsigned i = 0; i < 10; ++i) values['0' + i] = static_cast<unsigned char>(52 + i);
    values[static_cast<unsigned char>(last_two[0])] = 62;
    values[static_cast<unsigned char>(last_two[1])] = 63;
    return values;
}
constexpr auto base64_values = values_of("+/");
constexpr auto base64url_values = values_of("-_");

// `text` without padding.
std::optional<std::string> decoded(std::string_view text, const std::array<unsigned char, 256>& values) {
    if (text.size() % 4 == 1) return std::nullopt;
    std::string out;
    out.reserve(text.size() / 4 * 3 + 2);
    unsigned held = 0;
    unsigned bits = 0;
    for (const char c : text) {
        const unsigned value = values[static_cast<unsigned char>(c)];
        if (value == 64) return std::nullopt;
        held = (held << 6 | value) & 0xffff;
        bits += 6;
        if (bits < 8) continue;
        bits -= 8;
        out.push_back(static_cast<char>(held >> bits & 0xff));
    }
    // Bits that say nothing have to be zero: otherwise several texts would be one.
    if ((held & ((1U << bits) - 1)) != 0) return std::nullopt;
    return out;
}

}  // namespace

std::string to_base64(std::string_view bytes) {
    constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::string_view piece = bytes.substr(at, 3);
        unsigned held = 0;
        for (std::size_t i = 0; i < 3; ++i)
            held = held << 8 | (i < piece.size() ? static_cast<unsigned char>(piece[i]) : 0U);
        for (std::size_t i = 0; i < 4; ++i)
            out.push_back(i <= piece.size() ? alphabet[held >> (18 - 6 * i) & 63] : '=');
    }
    return out;
}

std::optional<std::string> from_base64(std::string_view text) {
    if (text.size() % 4 != 0) return std::nullopt;
    if (text.ends_with('=')) text.remove_suffix(1);
    if (text.ends_with('=')) text.remove_suffix(1);
    return decoded(text, base64_values);
}

std::optional<std::string> from_base64url(std::string_view text) { return decoded(text, base64url_values); }

}  // namespace semel
