#include "http/query.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace semel::http {
namespace {

std::optional<std::string> decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%') {
            const auto byte = from_hex(text.substr(i + 1, 2));
            if (!byte || byte->size() != 1) return std::nullopt;
            out += *byte;
            i += 2;
        } else {
            out += text[i] == '+' ? ' ' : text[i];
        }
    }
    return out;
}

}  // namespace

std::optional<Query> Query::parse(std::string_view text) {
    Query query;
    while (!text.empty()) {
        const std::string_view part = text.substr(0, text.find('&'));
        text.remove_prefix(std::min(text.size(), part.size() + 1));
        if (part.empty()) continue;
        const auto equals = part.find('=');
        const auto name = decoded(part.substr(0, equals));
        const auto value = equals == std::string_view::npos ? std::string() : decoded(part.substr(equals + 1));
        if (!name || !value || query.find(*name)) return std::nullopt;
        query.all_.emplace_back(*name, *value);
    }
    return query;
}

std::optional<std::string> Query::find(std::string_view name) const {
    for (const auto& [known, value] : all_)
        if (known == name) return value;
    return std::nullopt;
}

std::optional<std::string> Query::unknown(std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : all_)
        if (std::ranges::find(known, name) == known.end()) return name;
    return std::nullopt;
}

}  // namespace semel::http
