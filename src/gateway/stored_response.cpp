#include "gateway/stored_response.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "http/writer.hpp"
#include "ledger/json_document.hpp"

namespace semel::gateway {
namespace {

using http::Field;

// docs/formats/response.md: these bytes are for ever. 0xF5 is in no UTF-8 text, so no text or JSON begins like this.
constexpr std::string_view magic = "\xf5SM";
constexpr char form_plain = 1;
constexpr char form_sealed = 2;
constexpr std::size_t prefix_bytes = magic.size() + 1;
constexpr Sealing::Kind response_kind{
    .what = "stored response", .name = "semel/response/1", .label = "semel/response-key/1"};

constexpr std::array<std::string_view, 6> never_stored{"set-cookie",    "set-cookie2",         "www-authenticate",
                                                       "authorization", "authentication-info", "idempotent-replayed"};
// They describe the bytes of a body; once a part of it was cut they would be wrong.
constexpr std::array<std::string_view, 4> digests{"content-digest", "repr-digest", "digest", "content-md5"};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
    return std::ranges::any_of(names, [&](std::string_view each) { return http::same_variable(name, each); });
}

bool is_private(std::string_view name) {
    return is_one_of(never_stored, name) || http::variable_starts_with(name, "semel-");
}

bool has_no_body(int status) { return status == 204 || status == 304; }

// ---- writing ---------------------------------------------------------------------------------------------------

std::size_t varint_bytes(std::uint64_t value) {
    std::size_t bytes = 1;
    for (; value >= 0x80; value >>= 7) ++bytes;
    return bytes;
}
std::size_t counted_bytes(std::string_view text) { return varint_bytes(text.size()) + text.size(); }

void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
}
void put_counted(std::string& out, std::string_view text) {
    put_varint(out, text.size());
    out.append(text);
}

// What is written of an answer, and how long that will be.
struct Content {
    std::string_view reason{};
    std::vector<const Field*> fields{};
    std::string_view body{};

    [[nodiscard]] std::size_t bytes() const {
        std::size_t sum = counted_bytes(reason) + varint_bytes(fields.size()) + counted_bytes(body);
        for (const Field* field : fields) sum += counted_bytes(field->name) + counted_bytes(field->value);
        return sum;
    }
    void put(std::string& out) const {
        put_counted(out, reason);
        put_varint(out, fields.size());
        for (const Field* field : fields) {
            put_counted(out, field->name);
            put_counted(out, field->value);
        }
        put_counted(out, body);
    }
};

Content content_of(const Route& route, const http::ResponseHead& head, std::string_view body, bool cut) {
    Content content;
    if (head.reason != http::reason_of(head.status)) content.reason = head.reason;
    content.body = body;
    content.fields.reserve(head.fields.size());
    for (const Field& field : head.fields) {
        if (!may_be_stored(field, head.connection) || is_one_of(route.drop_headers, field.name)) continue;
        if (cut && is_one_of(digests, field.name)) continue;
        content.fields.push_back(&field);
    }
    return content;
}

// What a sealed response is bound to besides its operation: with another status it does not open.
std::string bound_to(std::int32_t status) {
    ByteWriter bytes;
    bytes.be32(static_cast<std::uint32_t>(status));
    return bytes.take();
}

// ---- reading ---------------------------------------------------------------------------------------------------

Failure corrupt(std::string_view what) { return {Code::corrupt, fmt::format("stored response: {}", what)}; }

bool is_clean(const Field& field) {
    return !field.name.empty() && http::all_of(field.name, http::token_char) && http::is_field_value(field.value);
}

// `bytes`: the plain form after its prefix.
Result<StoredResponse> read_plain(int status, std::string_view bytes) {
    if (status < 200 || status > 599) return corrupt("its status is not one of 200 to 599");
    StoredResponse response{.status = status, .reason = {}, .fields = {}, .body = {}};
    ByteReader reader(bytes);
    response.reason = reader.counted();
    const std::uint64_t count = reader.varint();
    if (!reader.ok() || count > bytes.size() / 2) return corrupt("it ends too early");
    if (!http::is_field_value(response.reason)) return corrupt("a control character in its reason");
    response.fields.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::string_view name = reader.counted();
        const Field field{name, reader.counted()};
        if (!reader.ok()) return corrupt("it ends too early");
        if (!is_clean(field)) return corrupt("a field that would split a head");
        if (!http::goes_on(field, {})) return corrupt("a field that belongs to one connection");
        if (!is_private(field.name)) response.fields.add(field);
    }
    response.body = reader.counted();
    if (!reader.ok() || !reader.at_end()) return corrupt("its end is not where it says");
    if (has_no_body(status) && !response.body.empty()) return corrupt("a body with a status that has none");
    return response;
}

// Stored by an application or a person.
Result<StoredResponse> read_foreign(const Outcome& outcome) {
    StoredResponse response{
        .status = outcome.status == 0 ? 200 : outcome.status, .reason = {}, .fields = {}, .body = {}};
    if (response.status < 200 || response.status > 599) return corrupt("its status is not one of 200 to 599");
    if (outcome.body.empty() || has_no_body(response.status)) return response;
    response.body = outcome.body;
    const auto type = [&]() -> std::string_view {
        if (JsonDocument::parse(outcome.body)) return "application/json";
        return simdjson::validate_utf8(outcome.body) ? "text/plain; charset=utf-8" : "application/octet-stream";
    }();
    response.fields.add({"Content-Type", type});
    return response;
}

// ---- redacting -------------------------------------------------------------------------------------------------

// Where a string, a number or a literal that begins at `at` ends, in text that is known to be JSON.
std::size_t scalar_end(std::string_view text, std::size_t at) {
    if (text[at] != '"') return std::min(text.find_first_of(" \t\r\n,]}", at), text.size());
    for (++at; text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
    return at + 1;
}

// Where the value that begins at `at` ends.
std::size_t value_end(std::string_view text, std::size_t at) {
    std::size_t depth = 0;
    do {
        const char c = text[at];
        if (c == '{' || c == '[') {
            ++depth;
            ++at;
        } else if (c == '}' || c == ']') {
            --depth;
            ++at;
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ':') {
            ++at;
        } else {
            at = scalar_end(text, at);
        }
    } while (depth > 0);
    return at;
}

}  // namespace

bool may_be_stored(const http::Field& field, const http::ConnectionOptions& connection) {
    return http::goes_on(field, connection) && !is_private(field.name);
}

std::optional<std::string> redacted(std::string_view body, const std::vector<JsonPointer>& pointers) {
    const auto document = JsonDocument::parse(body);
    if (!document) return std::nullopt;
    std::vector<JsonDocument::Index> targets;
    for (const JsonPointer& pointer : pointers)
        if (const auto found = document->find(pointer)) targets.push_back(*found);
    std::ranges::sort(targets);

    // The document's nodes are in reading order: the n-th thing that begins in the text is node n.
    std::string out;
    out.reserve(body.size() + targets.size() * redacted_value.size());
    JsonDocument::Index node = 0;
    std::size_t at = 0;
    std::size_t copied = 0;
    for (const JsonDocument::Index target : targets) {
        if (target < node) continue;  // inside of what is cut already
        while (true) {
            at = body.find_first_not_of(" \t\r\n,:]}", at);
            if (node == target) break;
            at = body[at] == '{' || body[at] == '[' ? at + 1 : scalar_end(body, at);
            ++node;
        }
        out.append(body.substr(copied, at - copied)).append(redacted_value);
        at = copied = value_end(body, at);
        node = document->node(target).end;
    }
    out.append(body.substr(copied));
    return out;
}

Result<ResponseCodec> ResponseCodec::make(const std::vector<std::string>& seal_keys, Random& random) {
    auto sealing = Sealing::make(seal_keys, random);
    if (!sealing) return sealing.failure();
    return ResponseCodec(std::move(*sealing));
}

Outcome ResponseCodec::encode(const Route& route, const OperationId& id, const http::ResponseHead& head,
                              std::string_view body) const {
    SEMEL_ASSERT(head.status >= 200 && head.status <= 599, "only a final answer is stored");
    Outcome tombstone = Outcome::tombstone(head.status);
    if (route.keep == Keep::status) return tombstone;
    std::string cut;
    if (!route.redact.empty() && !body.empty()) {
        auto without = redacted(body, route.redact);
        if (!without) return tombstone;
        if (*without != body) cut = std::move(*without);
    }
    const Content content = content_of(route, head, cut.empty() ? body : cut, !cut.empty());
    const bool sealed = sealing_.on();
    const std::size_t bytes = content.bytes() + prefix_bytes + (sealed ? Sealing::bytes : 0);
    if (bytes > route.response_bytes_max || bytes > stored_bytes_max) return tombstone;

    Outcome outcome{.status = head.status};
    outcome.body.reserve(bytes);
    outcome.body.append(magic).push_back(sealed ? form_sealed : form_plain);
    if (sealed) sealing_.begin(outcome.body);
    content.put(outcome.body);
    if (sealed) sealing_.end(outcome.body, prefix_bytes, response_kind, id, bound_to(outcome.status));
    SEMEL_ASSERT(outcome.body.size() == bytes, "the size was told before");
    return outcome;
}

Status ResponseCodec::open_in_place(const OperationId& id, Outcome& outcome) const {
    if (auto opened = sealing_.open(outcome.body, prefix_bytes, response_kind, id, bound_to(outcome.status)); !opened)
        return opened;
    outcome.body[magic.size()] = form_plain;
    return Done{};
}

Result<StoredResponse> ResponseCodec::decode(const OperationId& id, Outcome& outcome) const {
    SEMEL_ASSERT(outcome.kept, "a tombstone holds no response");
    if (!outcome.body.starts_with(magic)) return read_foreign(outcome);
    if (outcome.body.size() < prefix_bytes) return corrupt("it ends too early");
    if (outcome.body[magic.size()] == form_sealed)
        if (auto opened = open_in_place(id, outcome); !opened) return std::move(opened).failure();
    if (outcome.body[magic.size()] != form_plain) return corrupt("a form that this version does not know");
    return read_plain(outcome.status, std::string_view(outcome.body).substr(prefix_bytes));
}

}  // namespace semel::gateway
