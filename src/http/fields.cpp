#include "http/fields.hpp"

#include <algorithm>

namespace semel::http {
namespace {

// Fields that no sender may call hop-by-hop: dropping one of these changes what the request asks, for whom, or how often.
constexpr std::array<std::string_view, 22> for_all_recipients{"authorization",
                                                              "cache-control",
                                                              "content-encoding",
                                                              "content-length",
                                                              "content-range",
                                                              "content-type",
                                                              "cookie",
                                                              "date",
                                                              "expect",
                                                              "forwarded",
                                                              "host",
                                                              "idempotency-key",
                                                              "if-match",
                                                              "if-none-match",
                                                              "range",
                                                              "set-cookie",
                                                              "traceparent",
                                                              "tracestate",
                                                              "transfer-encoding",
                                                              "vary",
                                                              "via",
                                                              "www-authenticate"};

bool is_for_all_recipients(std::string_view name) {
    return std::any_of(for_all_recipients.begin(), for_all_recipients.end(),
                       [&](std::string_view each) { return same_variable(name, each); }) ||
           variable_starts_with(name, "semel-") || variable_starts_with(name, "x-forwarded-");
}

bool is_port(std::string_view text) {
    if (text.empty() || text.size() > 5 || !all_of(text, digit_char)) return false;
    unsigned port = 0;
    for (const char c : text) port = port * 10 + static_cast<unsigned>(c - '0');
    return port <= 65535;
}

bool is_bracketed_address(std::string_view text) {
    if (text.size() < 4 || text.front() != '[' || text.back() != ']') return false;
    text = text.substr(1, text.size() - 2);
    if (text.size() > 45 || text.find(':') == std::string_view::npos) return false;
    return std::all_of(text.begin(), text.end(), [](char c) { return is(c, hex_char) || c == ':' || c == '.'; });
}

}  // namespace

const Field* Fields::find(std::string_view name) const {
    for (const Field& field : all_)
        if (same_name(field.name, name)) return &field;
    return nullptr;
}

std::optional<std::string_view> Fields::value(std::string_view name) const {
    const Field* field = find(name);
    return field == nullptr ? std::nullopt : std::optional(field->value);
}

std::size_t Fields::count(std::string_view name) const {
    return static_cast<std::size_t>(
        std::count_if(all_.begin(), all_.end(), [&](const Field& field) { return same_name(field.name, name); }));
}

std::optional<std::string_view> CommaList::next() {
    while (!left_.empty()) {
        bool quoted = false;
        std::size_t i = 0;
        for (; i < left_.size() && (quoted || left_[i] != ','); ++i) {
            if (left_[i] == '"') quoted = !quoted;
            if (quoted && left_[i] == '\\') ++i;
        }
        i = std::min(i, left_.size());
        const std::string_view element = trimmed(left_.substr(0, i));
        left_.remove_prefix(std::min(i + 1, left_.size()));
        if (!element.empty()) return element;
    }
    return std::nullopt;
}

Fault ConnectionOptions::add(std::string_view value, Side side) {
    for (CommaList list(value); const auto option = list.next();) {
        if (!all_of(*option, token_char)) return Fault::connection_invalid;
        if (side == Side::request && is_for_all_recipients(*option)) return Fault::connection_invalid;
        if (same_name(*option, "close")) {
            close_ = true;
        } else if (same_name(*option, "keep-alive")) {
            keep_alive_ = true;
        } else if (size_ == options_.size()) {
            return Fault::connection_invalid;
        } else {
            options_[size_++] = *option;
        }
    }
    return Fault::none;
}

bool ConnectionOptions::names(std::string_view name) const {
    return std::any_of(options_.begin(), options_.begin() + static_cast<std::ptrdiff_t>(size_),
                       [&](std::string_view option) { return same_name(option, name); });
}

bool is_hop_by_hop(std::string_view name) {
    if (name.empty()) return false;
    switch (lower(name.front())) {
        case 'c': return same_name(name, "connection");
        case 'h': return same_name(name, "http2-settings");
        case 'k': return same_name(name, "keep-alive");
        case 'p': return name_starts_with(name, "proxy-");
        case 't': return same_name(name, "te") || same_name(name, "trailer") || same_name(name, "transfer-encoding");
        case 'u': return same_name(name, "upgrade");
        default: return false;
    }
}

bool is_host(std::string_view text) {
    const std::size_t bracket = text.rfind(']');
    const std::size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
    if (colon != std::string_view::npos && !is_port(text.substr(colon + 1))) return false;
    const std::string_view host = text.substr(0, colon);
    if (host.starts_with('[')) return is_bracketed_address(host);
    return !host.empty() && host.size() <= 255 && all_of(host, host_char);
}

}  // namespace semel::http
