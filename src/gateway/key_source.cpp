#include "gateway/key_source.hpp"

#include <fmt/format.h>

#include "ledger/key_header.hpp"
#include "semel/fingerprint.hpp"

namespace semel::gateway {
namespace {

using Kind = JsonDocument::Kind;

KeyFound found(Result<Key> key) {
    if (!key) return KeyInvalid{std::move(key).failure().message};
    return std::move(*key);
}

KeyFound in_header(const std::string& name, const http::Fields& fields, KeyFormat format) {
    const http::Field* const field = fields.find(name);
    if (field == nullptr) return KeyMissing{};
    if (fields.count(name) > 1) return KeyInvalid{fmt::format("the header {} is there twice; send one key", name)};
    return found(key_from_header(field->value, format));
}

/// -0, 1.0 and 1e0 are integers by value, but not one spelling of one integer.
bool is_plain_integer(std::string_view number) {
    return number != "-0" && number.find_first_of(".eE") == std::string_view::npos;
}

KeyFound in_body(const JsonPointer& pointer, JsonBody& body, KeyFormat format) {
    const JsonDocument* const document = body.document();
    if (document == nullptr) return KeyMissing{};
    const auto index = document->find(pointer);
    if (!index) return KeyMissing{};
    const JsonDocument::Node& node = document->node(*index);
    if (node.kind == Kind::string || (node.kind == Kind::number && is_plain_integer(node.text)))
        return found(Key::parse(std::string(node.text), format));
    return KeyInvalid{fmt::format("{} in the body is neither a string nor an integer", pointer.text())};
}

KeyFound in_source(const KeySource& source, const http::Fields& fields, JsonBody& body, KeyFormat format) {
    switch (source.in) {
        case KeySource::In::header: return in_header(source.header, fields, format);
        case KeySource::In::body: return source.pointer ? in_body(*source.pointer, body, format) : KeyMissing{};
    }
    return KeyMissing{};
}

}  // namespace

const JsonDocument* JsonBody::document() {
    if (!read_) document_ = JsonDocument::parse(text_);
    read_ = true;
    return document_ ? &*document_ : nullptr;
}

KeyFound find_key(const Route& route, const http::Fields& fields, JsonBody& body) {
    if (route.webhook) return in_body(route.webhook->id, body, route.format);
    for (const KeySource& source : route.key_from) {
        KeyFound answer = in_source(source, fields, body, route.format);
        if (!std::holds_alternative<KeyMissing>(answer)) return answer;
    }
    return KeyMissing{};
}

std::string key_places(const Route& route) {
    if (route.webhook) return fmt::format("{} in a JSON body", route.webhook->id.text());
    std::string places;
    for (const KeySource& source : route.key_from) {
        if (!places.empty()) places += ", or ";
        places += source.in == KeySource::In::header
                      ? "the header " + source.header
                      : fmt::format("{} in a JSON body", source.pointer ? source.pointer->text() : "");
    }
    return places;
}

Fingerprint webhook_fingerprint(const Webhook& webhook, const Key& id, JsonBody& body) {
    std::string_view type;
    if (const JsonDocument* const document = webhook.type ? body.document() : nullptr; document != nullptr)
        if (const auto index = document->find(*webhook.type)) type = document->node(*index).text;
    return fingerprint_of_message(type, id.text());
}

}  // namespace semel::gateway
