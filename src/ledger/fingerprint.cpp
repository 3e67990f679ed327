#include "ledger/fingerprint.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace semel {
namespace {

constexpr std::uint8_t body_is_raw = 0;
constexpr std::uint8_t body_is_json = 1;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string media_type(std::string_view content_type) {
    content_type = content_type.substr(0, content_type.find(';'));
    const auto first = content_type.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    std::string type(content_type.substr(first, content_type.find_last_not_of(" \t") - first + 1));
    std::ranges::transform(type, type.begin(), lower);
    return type;
}

bool is_json(std::string_view media_type) { return media_type == "application/json" || media_type.ends_with("+json"); }

std::optional<std::string> canonical_body(std::string_view media_type, std::string_view body,
                                          const FingerprintOptions& options) {
    if (options.raw || !is_json(media_type)) return std::nullopt;
    return canonical_json(body, options.parts);
}

Fingerprint finished(const ByteWriter& bytes) { return {.bytes = first_half(sha256(bytes.bytes())), .version = 1}; }

}  // namespace

// docs/formats/fingerprint.md: the bytes of version 1 are for ever.
Fingerprint fingerprint_of(const Request& request) { return fingerprint_of(request, FingerprintOptions{}); }

Fingerprint fingerprint_of(const Request& request, const FingerprintOptions& options) {
    return print_of(request, options).fingerprint;
}

RequestPrint print_of(const Request& request, const FingerprintOptions& options) {
    const std::string type = media_type(request.content_type);
    const auto canonical = canonical_body(type, request.body, options);
    ByteWriter bytes;
    bytes.prefixed("semel/fingerprint/request/1");
    bytes.prefixed(request.method);
    bytes.prefixed(request.path);
    bytes.prefixed(request.query);
    bytes.prefixed(type);
    bytes.prefixed(request.if_match);
    bytes.u8(canonical ? body_is_json : body_is_raw);
    bytes.prefixed(canonical ? std::string_view(*canonical) : request.body);
    return {.fingerprint = finished(bytes), .of_every_byte = !canonical};
}

std::optional<std::string> canonical_body(const Request& request, const FingerprintOptions& options) {
    return canonical_body(media_type(request.content_type), request.body, options);
}

Fingerprint fingerprint_of_message(std::string_view type, std::string_view data) {
    ByteWriter bytes;
    bytes.prefixed("semel/fingerprint/message/1");
    bytes.prefixed(type);
    bytes.prefixed(data);
    return finished(bytes);
}

Fingerprint fingerprint_of_bytes(std::string_view input) {
    ByteWriter bytes;
    bytes.prefixed("semel/fingerprint/bytes/1");
    bytes.prefixed(input);
    return finished(bytes);
}

}  // namespace semel
