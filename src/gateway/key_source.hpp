// Which key a request names: looked for in the places its route lists, in their order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "gateway/config.hpp"
#include "http/fields.hpp"
#include "ledger/json_document.hpp"
#include "semel/operation.hpp"

namespace semel::gateway {

/// A body that is read as JSON when somebody asks, once. The text must outlive it.
class JsonBody {
public:
    explicit JsonBody(std::string_view text) : text_(text) {}
    [[nodiscard]] std::string_view text() const { return text_; }
    /// nullptr: it is not JSON (JsonDocument::parse).
    const JsonDocument* document();

private:
    std::string_view text_;
    std::optional<JsonDocument> document_;
    bool read_ = false;
};

/// In none of the places; key_places() says which these are.
struct KeyMissing {
    bool operator==(const KeyMissing&) const = default;
};
/// In one of them, and not a key, or not of the route's format.
struct KeyInvalid {
    std::string reason{};  ///< for the client; may quote what it sent as a key
    bool operator==(const KeyInvalid&) const = default;
};
using KeyFound = std::variant<Key, KeyMissing, KeyInvalid>;

/// The first place in which there is something decides.
/// - A header, quoted or bare (key_from_header). On two lines it is invalid, and so is an empty one.
/// - A JSON pointer into the body, to a string or to an integer in digits, which names the same key as the string of these
///   digits. Anything else there is invalid; a body that is no JSON, or has nothing there, goes on to the next place.
/// - A webhook's key is its event's id, and key_from does not apply.
KeyFound find_key(const Route& route, const http::Fields& fields, JsonBody& body);

/// "the header Idempotency-Key, or /idempotency_key in a JSON body": where find_key looks, for messages.
std::string key_places(const Route& route);

/// A webhook's fingerprint: the event's id and type, as those of a message (docs/formats/fingerprint.md). The type is the
/// string, number or literal at Webhook::type, and empty if there is none.
Fingerprint webhook_fingerprint(const Webhook& webhook, const Key& id, JsonBody& body);

}  // namespace semel::gateway
