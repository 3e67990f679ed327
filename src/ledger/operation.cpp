#include "semel/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/bytes.hpp"
#include "base/quote.hpp"

namespace semel {
namespace {

Failure refused(std::string_view what, std::string_view input, std::string_view why) {
    return {Code::invalid, fmt::format("{} {}: {}", what, in_quotes(input), why)};
}

bool is_tenant_char(char c) { return c >= 0x21 && c <= 0x7e && c != '/' && c != '#'; }
bool is_name_char(char c) { return c >= 0x20 && c <= 0x7e && c != '#'; }
bool is_key_char(char c) { return c >= 0x20 && c <= 0x7e; }
bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

bool is_uuid(std::string_view text) {
    if (text.size() != 36) return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !is_hex(text[i])) return false;
    }
    return true;
}

bool is_uuid7(std::string_view text) {
    return is_uuid(text) && text[14] == '7' && std::string_view("89abAB").find(text[19]) != std::string_view::npos;
}

// Decimal, no sign, no leading zeros: a generation has one spelling.
std::optional<std::uint32_t> read_generation(std::string_view text) {
    if (text.size() > 1 && text[0] == '0') return std::nullopt;
    std::uint32_t generation = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, generation);
    if (error != std::errc{} || rest != end) return std::nullopt;
    return generation;
}

}  // namespace

Scope::Scope(std::string tenant, std::string name, std::uint32_t generation)
    : tenant_(std::move(tenant)), name_(std::move(name)), generation_(generation) {}

Result<Scope> Scope::make(std::string tenant, std::string name, std::uint32_t generation) {
    if (tenant.size() > tenant_bytes_max || !std::ranges::all_of(tenant, is_tenant_char))
        return refused("tenant", tenant, "must be at most 255 printable ASCII characters without space, '/' and '#'");
    if (name.empty() || name.size() > name_bytes_max || !std::ranges::all_of(name, is_name_char))
        return refused("scope name", name, "must be 1 to 255 printable ASCII characters without '#'");
    return Scope(std::move(tenant), std::move(name), generation);
}

Result<Scope> Scope::parse(std::string_view text) {
    std::uint32_t generation = 0;
    std::string_view path = text;
    if (const auto hash = text.find('#'); hash != std::string_view::npos) {
        const auto read = read_generation(text.substr(hash + 1));
        if (!read)
            return refused("scope", text, "after '#' must come a generation from 0 to 4294967295, as in acme/orders#2");
        generation = *read;
        path = text.substr(0, hash);
    }
    const auto slash = path.find('/');
    if (slash == std::string_view::npos) return make({}, std::string(path), generation);
    return make(std::string(path.substr(0, slash)), std::string(path.substr(slash + 1)), generation);
}

std::string Scope::text() const {
    std::string text = tenant_;
    // A name with a '/' and no tenant needs the leading one, or its first part would be read as the tenant.
    if (!tenant_.empty() || name_.find('/') != std::string::npos) text += '/';
    text += name_;
    if (generation_ != 0) text += fmt::format("#{}", generation_);
    return text;
}

Scope Scope::with_generation(std::uint32_t generation) const { return {tenant_, name_, generation}; }

Result<Key> Key::parse(std::string text, KeyFormat format) {
    if (text.empty() || text.size() > bytes_max || !std::ranges::all_of(text, is_key_char))
        return refused("key", text, "must be 1 to 255 printable ASCII characters (0x20 to 0x7E)");
    switch (format) {
        case KeyFormat::any: break;
        case KeyFormat::uuid:
            if (!is_uuid(text))
                return refused("key", text,
                               "must be a UUID, as in 8e03978e-40d5-43e8-bc93-6894a57f9324 (format: uuid)");
            break;
        case KeyFormat::uuidv7:
            if (!is_uuid7(text))
                return refused(
                    "key", text,
                    "must be a UUID of version 7, as in 018bcfe5-687b-7000-8000-000000000000 (format: uuidv7)");
            break;
    }
    return Key(std::move(text));
}

std::optional<TimePoint> Key::time() const {
    if (!is_uuid7(text_)) return std::nullopt;
    const std::string digits = text_.substr(0, 8) + text_.substr(9, 4);
    std::int64_t millis = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), millis, 16);
    return TimePoint{std::chrono::milliseconds{millis}};
}

// docs/formats/keys.md: these bytes are for ever.
OperationId Operation::id() const {
    ByteWriter bytes;
    bytes.prefixed("semel/operation/1");
    bytes.prefixed(scope.tenant());
    bytes.prefixed(scope.name());
    bytes.be32(scope.generation());
    bytes.prefixed(key.text());
    return {first_half(sha256(bytes.bytes()))};
}

std::string Operation::text() const { return scope.text() + ' ' + key.text(); }

}  // namespace semel

std::size_t std::hash<semel::OperationId>::operator()(const semel::OperationId& id) const noexcept {
    // The bytes are a SHA-256 already: any of them will do.
    std::size_t value = 0;
    std::memcpy(&value, id.bytes.data(), sizeof value);
    return value;
}
