// Header fields as they were read, and what a list or a Connection header among them says.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "http/chars.hpp"
#include "http/fault.hpp"
#include "http/message.hpp"

namespace semel::http {

/// One header line: the name as it was spelt, the value without white space around it.
struct Field {
    std::string_view name;
    std::string_view value;
    friend bool operator==(const Field&, const Field&) = default;
};

/// Whether two names are the same, upper and lower case aside.
constexpr bool same_name(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (lower(a[i]) != lower(b[i])) return false;
    return true;
}

/// Whether the name begins with the prefix, upper and lower case aside.
constexpr bool name_starts_with(std::string_view name, std::string_view prefix) {
    return name.size() >= prefix.size() && same_name(name.substr(0, prefix.size()), prefix);
}

/// As same_name, and '_' is '-': an upstream that maps fields to environment variables (CGI, WSGI, PHP) cannot tell
/// `Semel_Token` from `Semel-Token`, so what has to be removed has to be removed in both spellings.
constexpr bool same_variable(std::string_view a, std::string_view b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
        const char x = a[i] == '_' ? '-' : lower(a[i]);
        const char y = b[i] == '_' ? '-' : lower(b[i]);
        if (x != y) return false;
    }
    return true;
}

constexpr bool variable_starts_with(std::string_view name, std::string_view prefix) {
    return name.size() >= prefix.size() && same_variable(name.substr(0, prefix.size()), prefix);
}

/// Without spaces and tabs at both ends.
constexpr std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    return text;
}

/// All fields of a head in the order they were sent. The views live as long as the reader's head does.
class Fields {
public:
    [[nodiscard]] auto begin() const { return all_.begin(); }
    [[nodiscard]] auto end() const { return all_.end(); }
    [[nodiscard]] std::size_t size() const { return all_.size(); }
    [[nodiscard]] bool empty() const { return all_.empty(); }
    const Field& operator[](std::size_t index) const { return all_[index]; }

    /// The first field of that name, upper and lower case aside; nullptr without one.
    [[nodiscard]] const Field* find(std::string_view name) const;
    /// The first value of that name; nothing without one. An empty value is a value.
    [[nodiscard]] std::optional<std::string_view> value(std::string_view name) const;
    [[nodiscard]] std::size_t count(std::string_view name) const;

    void add(Field field) { all_.push_back(field); }
    void clear() { all_.clear(); }
    void reserve(std::size_t count) { all_.reserve(count); }

private:
    std::vector<Field> all_;
};

/// The elements of a comma-separated value, one by one: trimmed, empty ones left out, commas in quotes not taken for
/// separators.
///     for (CommaList list(value); auto element = list.next();) …
class CommaList {
public:
    explicit CommaList(std::string_view value) : left_(value) {}
    std::optional<std::string_view> next();

private:
    std::string_view left_;
};

inline constexpr std::size_t connection_options_max = 16;

/// What the Connection fields of a head say. `close` and `keep_alive` are flags; every other option is the name of a
/// field that ends at this hop.
class ConnectionOptions {
public:
    /// Adds the value of one Connection field. connection_invalid: an element is not a token, there are more than
    /// connection_options_max, or one of a request names a field that is meant for all recipients, which would make this
    /// hop drop it (Host, Content-Length, Authorization, Idempotency-Key…).
    Fault add(std::string_view value, Side side);

    [[nodiscard]] bool close() const { return close_; }
    [[nodiscard]] bool keep_alive() const { return keep_alive_; }
    /// Whether the name is among the options that are neither close nor keep-alive.
    [[nodiscard]] bool names(std::string_view name) const;

private:
    std::array<std::string_view, connection_options_max> options_;
    std::size_t size_ = 0;
    bool close_ = false;
    bool keep_alive_ = false;
};

/// Whether a field of this name ends at this hop whatever Connection says: Connection, Keep-Alive, Proxy-*, TE, Trailer,
/// Transfer-Encoding, Upgrade, HTTP2-Settings.
bool is_hop_by_hop(std::string_view name);

/// `host` or `host:port`: a name of letters, digits and -._~, an IPv4 or a bracketed IPv6 address; port 0 to 65535.
bool is_host(std::string_view text);

}  // namespace semel::http
