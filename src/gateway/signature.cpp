#include "gateway/signature.hpp"

#include <algorithm>
#include <charconv>

#include "base/base64.hpp"
#include "base/bytes.hpp"

namespace semel::gateway {
namespace {

constexpr std::string_view missing = "the signature is missing";
constexpr std::string_view repeated = "the signature's header is there twice";
constexpr std::string_view malformed = "the signature is not in the provider's form";
constexpr std::string_view wrong = "the signature is wrong";
constexpr std::string_view bad_time = "the signature's timestamp is missing or not a number of seconds";
constexpr std::string_view untimely_text = "the signature's timestamp is too far from now";

constexpr std::size_t timestamp_digits_max = 12;

// Both providers' forms are cases of the configurable one, but for Stripe's header, which is a list.
Signature completed(Signature signature) {
    switch (signature.scheme) {
        case Signature::Scheme::stripe:
            signature.header = "Stripe-Signature";
            signature.encoding = Signature::Encoding::hex;
            signature.payload = "{timestamp}.{body}";
            break;
        case Signature::Scheme::github:
            signature.header = "X-Hub-Signature-256";
            signature.prefix = "sha256=";
            signature.encoding = Signature::Encoding::hex;
            signature.timestamp_header = {};
            signature.payload = "{body}";
            break;
        case Signature::Scheme::hmac: break;
    }
    return signature;
}

std::optional<std::string> decoded(std::string_view text, Signature::Encoding encoding) {
    return encoding == Signature::Encoding::hex ? from_hex(text) : from_base64(text);
}

}  // namespace

SignatureChecker::SignatureChecker(const Signature& signature)
    : signature_(completed(signature)), pieces_(pieces_of(signature_.payload)) {
    // Anybody can sign with an empty one.
    for (const std::string& secret : signature_.secrets)
        if (!secret.empty()) secrets_.emplace_back(secret);
    signature_.secrets.clear();
}

std::vector<SignatureChecker::Piece> SignatureChecker::pieces_of(std::string_view payload) {
    constexpr std::string_view body = "{body}";
    constexpr std::string_view timestamp = "{timestamp}";
    std::vector<Piece> pieces;
    while (!payload.empty()) {
        if (payload.starts_with(body)) {
            pieces.push_back({Piece::Kind::body});
            payload.remove_prefix(body.size());
        } else if (payload.starts_with(timestamp)) {
            pieces.push_back({Piece::Kind::timestamp});
            payload.remove_prefix(timestamp.size());
        } else {
            const std::size_t size = std::min(payload.find('{', 1), payload.size());
            pieces.push_back({Piece::Kind::text, std::string(payload.substr(0, size))});
            payload.remove_prefix(size);
        }
    }
    return pieces;
}

std::optional<std::string_view> SignatureChecker::fault(const http::Fields& fields, std::string_view body,
                                                        TimePoint now) const {
    const http::Field* const field = fields.find(signature_.header);
    if (field == nullptr) return missing;
    if (fields.count(signature_.header) > 1) return repeated;
    if (signature_.scheme == Signature::Scheme::stripe) return stripe_fault(field->value, body, now);
    return hmac_fault(http::trimmed(field->value), fields, body, now);
}

std::optional<std::string_view> SignatureChecker::stripe_fault(std::string_view value, std::string_view body,
                                                               TimePoint now) const {
    std::string_view timestamp;
    std::vector<std::string> signatures;
    for (http::CommaList list(value); const auto element = list.next();) {
        if (element->starts_with("t=")) {
            if (!timestamp.empty()) return malformed;
            timestamp = element->substr(2);
        } else if (element->starts_with("v1=")) {
            if (auto bytes = from_hex(element->substr(3))) signatures.push_back(std::move(*bytes));
        }
    }
    if (signatures.empty()) return malformed;
    if (!any_made(signatures, body, timestamp)) return wrong;
    return untimely(timestamp, now);
}

std::optional<std::string_view> SignatureChecker::hmac_fault(std::string_view value, const http::Fields& fields,
                                                             std::string_view body, TimePoint now) const {
    if (!value.starts_with(signature_.prefix)) return malformed;
    auto bytes = decoded(value.substr(signature_.prefix.size()), signature_.encoding);
    if (!bytes) return malformed;
    std::string_view timestamp;
    if (!signature_.timestamp_header.empty()) {
        if (fields.count(signature_.timestamp_header) > 1) return bad_time;
        timestamp = http::trimmed(fields.value(signature_.timestamp_header).value_or(""));
    }
    if (!any_made({std::move(*bytes)}, body, timestamp)) return wrong;
    if (signature_.timestamp_header.empty()) return std::nullopt;
    return untimely(timestamp, now);
}

bool SignatureChecker::any_made(const std::vector<std::string>& signatures, std::string_view body,
                                std::string_view timestamp) const {
    std::vector<std::string_view> parts;
    parts.reserve(pieces_.size());
    for (const Piece& piece : pieces_) {
        switch (piece.kind) {
            case Piece::Kind::text: parts.emplace_back(piece.text); break;
            case Piece::Kind::body: parts.push_back(body); break;
            case Piece::Kind::timestamp: parts.push_back(timestamp); break;
        }
    }
    bool made = false;
    for (const HmacSha256& secret : secrets_) {
        const Sha256 right = secret.of(parts);
        for (const std::string& signature : signatures) made |= same_bytes(view(right), signature);
    }
    return made;
}

std::optional<std::string_view> SignatureChecker::untimely(std::string_view timestamp, TimePoint now) const {
    std::int64_t value = 0;
    const char* const end = timestamp.data() + timestamp.size();
    if (timestamp.empty() || timestamp.size() > timestamp_digits_max || !http::all_of(timestamp, http::digit_char) ||
        std::from_chars(timestamp.data(), end, value).ec != std::errc{})
        return bad_time;
    const TimePoint at{seconds{value}};
    if (at < now - signature_.tolerance || at > now + signature_.tolerance) return untimely_text;
    return std::nullopt;
}

}  // namespace semel::gateway
