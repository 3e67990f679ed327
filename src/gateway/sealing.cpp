#include "gateway/sealing.hpp"

#include <fmt/format.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <span>

#include "base/assert.hpp"

namespace semel::gateway {
namespace {

/// What a sealed text is bound to: as another operation's, or as something else, it does not open.
std::string bound_to(const Sealing::Kind& kind, const OperationId& id, std::string_view bound) {
    ByteWriter bytes;
    bytes.prefixed(kind.name);
    bytes.raw(view(id.bytes));
    bytes.raw(bound);
    return bytes.take();
}

/// A key for each operation, so that no key ever comes near the number of texts that random nonces allow.
Key32 key_for(const HmacSha256& derive, const Sealing::Kind& kind, const OperationId& id) {
    return derive.of({kind.label, view(id.bytes)});
}

}  // namespace

Result<Sealing> Sealing::make(const std::vector<std::string>& seal_keys, Random& random) {
    Sealing sealing(random);
    for (const std::string& text : seal_keys) {
        auto key = from_hex(text);
        if (!key || key->size() != std::tuple_size_v<Key32>)
            return Failure{Code::invalid, "seal: a key has 64 hex digits (openssl rand -hex 32)"};
        const Sha256 hash = sha256("semel/seal-key/1" + *key);
        sealing.keys_.push_back({std::string(view(hash).substr(0, key_id_bytes)), HmacSha256(*key)});
        OPENSSL_cleanse(key->data(), key->size());
    }
    return sealing;
}

void Sealing::begin(std::string& out) const {
    SEMEL_ASSERT(on(), "there is a key to seal with");
    out.append(keys_.front().id).append(seal_nonce_bytes, '\0');
}

void Sealing::end(std::string& out, std::size_t began, const Kind& kind, const OperationId& id,
                  std::string_view bound) const {
    out.append(seal_tag_bytes, '\0');
    seal(key_for(keys_.front().derive, kind, id), *random_, bound_to(kind, id, bound),
         std::span(out).subspan(began + key_id_bytes));
}

Status Sealing::open(std::string& in, std::size_t began, const Kind& kind, const OperationId& id,
                     std::string_view bound) const {
    if (in.size() < began + key_id_bytes)
        return Failure{Code::corrupt, fmt::format("{}: it ends too early", kind.what)};
    const std::string_view key_id = std::string_view(in).substr(began, key_id_bytes);
    const auto key = std::ranges::find(keys_, key_id, &SealKey::id);
    if (key == keys_.end())
        return Failure{Code::unavailable,
                       fmt::format("{}: sealed with key {}, which is neither seal.key nor in seal.previous_keys",
                                   kind.what, to_hex(key_id))};
    if (!gateway::open(key_for(key->derive, kind, id), bound_to(kind, id, bound),
                       std::span(in).subspan(began + key_id_bytes)))
        return Failure{Code::corrupt, fmt::format("{}: sealed as something else, or changed since", kind.what)};
    in.resize(in.size() - seal_tag_bytes);
    in.erase(began, key_id_bytes + seal_nonce_bytes);
    return Done{};
}

}  // namespace semel::gateway
