#include "ledger/key_header.hpp"

#include <fmt/format.h>

#include "base/quote.hpp"

namespace semel {
namespace {

Failure refused(std::string_view value, std::string_view why) {
    return {Code::invalid, fmt::format("key header {}: {}", in_quotes(value), why)};
}

std::string_view trimmed(std::string_view value) {
    const auto first = value.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return value.substr(first, value.find_last_not_of(" \t") - first + 1);
}

Failure refused_rest(std::string_view value, char next) {
    if (next == ',') return refused(value, "more than one value; send one key");
    if (next == ';') return refused(value, "parameters are not allowed; send the key alone");
    return refused(value, "characters after the closing quote");
}

Result<std::string> read_quoted(std::string_view value) {
    std::string key;
    for (std::size_t i = 1; i < value.size(); ++i) {
        char c = value[i];
        if (c == '"') {
            const auto next = value.find_first_not_of(" \t", i + 1);
            if (next != std::string_view::npos) return refused_rest(value, value[next]);
            return key;
        }
        if (c == '\\') {
            c = ++i < value.size() ? value[i] : '\0';
            if (c != '"' && c != '\\') return refused(value, R"(in quotes a backslash stands only before '"' or '\')");
        }
        key.push_back(c);
    }
    return refused(value, "the closing quote is missing");
}

Result<std::string> read_bare(std::string_view value) {
    for (const char c : value) {
        if (c == ',' || c == ';') return refused_rest(value, c);
        if (c == '"' || c == '\\' || c < 0x21 || c > 0x7e)
            return refused(
                value, "a key without quotes is printable ASCII without space, quote, comma, semicolon and backslash");
    }
    return std::string(value);
}

}  // namespace

Result<Key> key_from_header(std::string_view value, KeyFormat format) {
    const std::string_view field = trimmed(value);
    if (field.empty()) return refused(value, "empty; send a key of 1 to 255 characters");
    auto text = field.starts_with('"') ? read_quoted(field) : read_bare(field);
    if (!text) return std::move(text).failure();
    return Key::parse(std::move(*text), format);
}

std::string key_to_header(const Key& key) {
    std::string out = "\"";
    for (const char c : key.text()) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

}  // namespace semel
