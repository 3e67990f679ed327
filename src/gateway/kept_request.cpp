#include "gateway/kept_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "http/writer.hpp"
#include "semel/record.hpp"

namespace semel::gateway {
namespace {

using http::Field;

// docs/formats/request.md: these bytes are for ever.
constexpr std::string_view magic = "\xf5SR";
constexpr char form_plain = 1;
constexpr char form_sealed = 2;
constexpr std::size_t prefix_bytes = magic.size() + 1;
constexpr std::uint8_t kept_whole = 1;
constexpr std::uint8_t kept_hash = 2;
constexpr std::size_t hash_bytes = std::tuple_size_v<Sha256>;
constexpr Sealing::Kind request_kind{.what = "kept request", .name = "semel/request/1", .label = "semel/request-key/1"};

constexpr std::array<std::string_view, 7> of_the_body{
    "content-type", "content-encoding", "content-language", "content-digest", "repr-digest", "digest", "content-md5"};

Failure corrupt(std::string_view what) { return {Code::corrupt, fmt::format("kept request: {}", what)}; }

std::string whole_text(const http::RequestHead& head, std::string_view body) {
    std::vector<const Field*> fields;
    for (const Field& field : head.fields)
        if (describes_body(field.name) && http::goes_on(field, head.connection)) fields.push_back(&field);
    ByteWriter out;
    out.u8(kept_whole);
    out.varint(fields.size());
    for (const Field* field : fields) {
        out.counted(field->name);
        out.counted(field->value);
    }
    out.counted(body);
    return out.take();
}

std::string hash_text(std::string_view body) {
    ByteWriter out;
    out.u8(kept_hash);
    out.raw(view(sha256(body)));
    return out.take();
}

/// `text`: the plain form after its prefix.
Result<KeptRequest> read_plain(std::string_view text) {
    KeptRequest request;
    ByteReader reader(text);
    const std::uint8_t kind = reader.u8();
    if (kind == kept_hash) {
        request.hash = reader.raw(hash_bytes);
    } else if (kind == kept_whole) {
        const std::uint64_t count = reader.varint();
        if (!reader.ok() || count > text.size() / 2) return corrupt("it ends too early");
        for (std::uint64_t i = 0; i < count; ++i) {
            const std::string_view name = reader.counted();
            const Field field{name, reader.counted()};
            if (!reader.ok()) return corrupt("it ends too early");
            if (!describes_body(field.name) || !http::is_field_value(field.value))
                return corrupt("a field that does not belong to a body");
            request.fields.add(field);
        }
        request.body = reader.counted();
    } else {
        return corrupt("a kind that this version does not know");
    }
    if (!reader.ok() || !reader.at_end()) return corrupt("its end is not where it says");
    return request;
}

}  // namespace

bool describes_body(std::string_view name) {
    return std::ranges::any_of(of_the_body, [&](std::string_view each) { return http::same_variable(name, each); });
}

bool keeps_requests(const Route& route, bool fingerprint_of_every_byte) {
    return route.policy.on_unknown == OnUnknown::retry && !route.webhook && !fingerprint_of_every_byte;
}

Result<RequestCodec> RequestCodec::make(const std::vector<std::string>& seal_keys, Random& random) {
    auto sealing = Sealing::make(seal_keys, random);
    if (!sealing) return sealing.failure();
    return RequestCodec(std::move(*sealing));
}

std::string RequestCodec::encode(const Route& route, const OperationId& id, const http::RequestHead& head,
                                 std::string_view body) const {
    const bool sealed = sealing_.on();
    const std::size_t around = prefix_bytes + (sealed ? Sealing::bytes : 0);
    std::string text;
    if (route.keep == Keep::response && body.size() < Record::request_bytes_max) text = whole_text(head, body);
    if (text.empty() || text.size() + around > Record::request_bytes_max) text = hash_text(body);

    std::string kept;
    kept.reserve(text.size() + around);
    kept.append(magic).push_back(sealed ? form_sealed : form_plain);
    if (sealed) sealing_.begin(kept);
    kept.append(text);
    if (sealed) sealing_.end(kept, prefix_bytes, request_kind, id, {});
    return kept;
}

Result<KeptRequest> RequestCodec::decode(const OperationId& id, std::string& kept) const {
    if (!kept.starts_with(magic) || kept.size() < prefix_bytes) return corrupt("not of this gateway");
    if (kept[magic.size()] == form_sealed) {
        if (auto opened = sealing_.open(kept, prefix_bytes, request_kind, id, {}); !opened)
            return std::move(opened).failure();
        kept[magic.size()] = form_plain;
    }
    if (kept[magic.size()] != form_plain) return corrupt("a form that this version does not know");
    return read_plain(std::string_view(kept).substr(prefix_bytes));
}

}  // namespace semel::gateway
