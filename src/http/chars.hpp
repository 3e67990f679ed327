// Which bytes may stand where in an HTTP/1.1 message, as one table.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace semel::http {

/// The classes a byte can be in (RFC 9110 5.6.2, RFC 3986).
enum CharClass : std::uint8_t {
    token_char = 1,       ///< of methods and field names
    value_char = 2,       ///< of field values: visible, space, tab, 0x80 and above
    target_char = 4,      ///< of request targets: visible ASCII but '#'
    host_char = 8,        ///< of host names: letters, digits, '-', '.', '_', '~'
    digit_char = 16,      ///< 0-9
    hex_char = 32,        ///< 0-9 a-f A-F
    unreserved_char = 64  ///< never percent-encoded: letters, digits, '-', '.', '_', '~'
};

namespace detail {

constexpr std::array<std::uint8_t, 256> make_char_classes() {
    std::array<std::uint8_t, 256> table{};
    for (unsigned c = 0; c < 256; ++c) {
        const bool digit = c >= '0' && c <= '9';
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        const bool visible = c > 0x20 && c < 0x7f;
        std::uint8_t classes = 0;
        if (digit || letter) classes |= token_char | host_char | unreserved_char;
        for (const char sign : std::string_view("!#$%&'*+-.^_`|~"))
            if (c == static_cast<unsigned char>(sign)) classes |= token_char;
        for (const char sign : std::string_view("-._~"))
            if (c == static_cast<unsigned char>(sign)) classes |= host_char | unreserved_char;
        if (visible || c == ' ' || c == '\t' || c >= 0x80) classes |= value_char;
        if (visible && c != '#') classes |= target_char;
        if (digit) classes |= digit_char;
        if (digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) classes |= hex_char;
        table[c] = classes;
    }
    return table;
}

constexpr std::array<char, 256> make_lower() {
    std::array<char, 256> table{};
    for (unsigned c = 0; c < 256; ++c) table[c] = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 0x20 : c);
    return table;
}

inline constexpr auto char_classes = make_char_classes();
inline constexpr auto lower_table = make_lower();

}  // namespace detail

constexpr bool is(char c, CharClass wanted) {
    return (detail::char_classes[static_cast<unsigned char>(c)] & wanted) != 0;
}

/// ASCII only; everything but A-Z stays as it is.
constexpr char lower(char c) { return detail::lower_table[static_cast<unsigned char>(c)]; }

/// How many of the first bytes are of the class.
constexpr std::size_t run_of(std::string_view text, CharClass wanted) {
    std::size_t i = 0;
    while (i < text.size() && is(text[i], wanted)) ++i;
    return i;
}

constexpr bool all_of(std::string_view text, CharClass wanted) { return run_of(text, wanted) == text.size(); }

/// Whether every byte may stand in a field value. Eight bytes at a time as long as none of them is a control.
inline bool is_field_value(std::string_view text) {
    constexpr std::uint64_t ones = 0x0101010101010101U;
    constexpr std::uint64_t high = 0x8080808080808080U;
    while (text.size() >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data(), 8);
        const std::uint64_t below_space = (word - ones * 0x20) & ~word & high;
        const std::uint64_t without_del = word ^ (ones * 0x7f);
        const std::uint64_t is_del = (without_del - ones) & ~without_del & high;
        if ((below_space | is_del) != 0 && !all_of(text.substr(0, 8), value_char)) return false;
        text.remove_prefix(8);
    }
    return all_of(text, value_char);
}

}  // namespace semel::http
