#include "gateway/tenant_key.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <thread>

#include "base/assert.hpp"
#include "semel/fingerprint.hpp"

namespace semel::gateway {
namespace {

using std::chrono::steady_clock;

// docs/formats/tenant.md: these bytes are for ever.
constexpr std::uint8_t form_plain = 1;
constexpr std::uint8_t form_wrapped = 2;
constexpr std::string_view kdf_salt = "semel/tenant-secret/1";
constexpr std::size_t secret_id_bytes = 16;
constexpr std::size_t wrapped_bytes = std::tuple_size_v<Key32> + seal_bytes;
// What scrypt costs: 16 MiB and some tens of milliseconds for each secret, once per start.
constexpr std::uint64_t scrypt_n = 1 << 14;
constexpr std::uint64_t scrypt_r = 8;
constexpr std::uint64_t scrypt_p = 1;
constexpr std::uint64_t scrypt_memory_max = 64U << 20;

constexpr Duration lease = std::chrono::seconds{5};
constexpr Duration look_again_after = std::chrono::milliseconds{20};

/// A configured secret, stretched: what may be known of it, and what wraps.
struct Secret {
    std::string id;
    Key32 wraps;
};

Secret stretched(const std::string& text) {
    std::array<unsigned char, secret_id_bytes + std::tuple_size_v<Key32>> out{};
    const auto* const salt = reinterpret_cast<const unsigned char*>(kdf_salt.data());
    const int done = EVP_PBE_scrypt(text.data(), text.size(), salt, kdf_salt.size(), scrypt_n, scrypt_r, scrypt_p,
                                    scrypt_memory_max, out.data(), out.size());
    SEMEL_ASSERT(done == 1, "OpenSSL has scrypt");
    Secret secret{std::string(view(out).substr(0, secret_id_bytes)), {}};
    std::copy(out.begin() + secret_id_bytes, out.end(), secret.wraps.begin());
    return secret;
}

// ---- the bytes -------------------------------------------------------------------------------------------------

std::string bound_to(const std::string& secret_id) { return "semel/tenant-key/1" + secret_id; }

std::string plain(const Key32& key) {
    ByteWriter bytes;
    bytes.u8(form_plain);
    bytes.raw(view(key));
    return bytes.take();
}

std::string wrapped(const Key32& key, const Secret& secret, Random& random) {
    ByteWriter bytes;
    bytes.u8(form_wrapped);
    bytes.raw(secret.id);
    const std::size_t begin = bytes.bytes().size();
    std::string out = bytes.take();
    out.append(seal_nonce_bytes, '\0').append(view(key)).append(seal_tag_bytes, '\0');
    seal(secret.wraps, random, bound_to(secret.id), std::span(out).subspan(begin));
    return out;
}

Key32 key_of(std::span<const char> bytes) {
    SEMEL_ASSERT(bytes.size() == std::tuple_size_v<Key32>, "a key has 32 bytes");
    Key32 key{};
    std::ranges::transform(bytes, key.begin(), [](char c) { return static_cast<unsigned char>(c); });
    return key;
}

Failure corrupt() { return {Code::corrupt, "tenant key: what the store holds under ~semel/tenant-key is no key"}; }

Failure wrong_secret(bool none) {
    return {Code::invalid, none ? "tenant key: this store was first used with a tenant.secret, and none is set"
                                : "tenant key: tenant.secret is not the one this store was first used with; if it was "
                                  "replaced, write the old one in tenant.previous_secrets"};
}

/// Opens what plain() or wrapped() made. `invalid`: it was wrapped by none of the secrets.
Result<Key32> unwrapped(std::string body, const std::vector<Secret>& secrets) {
    if (body.empty()) return corrupt();
    if (body[0] == form_plain) {
        if (body.size() != 1 + std::tuple_size_v<Key32>) return corrupt();
        return key_of(std::span(body).subspan(1));
    }
    if (body[0] != form_wrapped || body.size() != 1 + secret_id_bytes + wrapped_bytes) return corrupt();
    const std::string id = body.substr(1, secret_id_bytes);
    const auto secret = std::ranges::find(secrets, id, &Secret::id);
    if (secret == secrets.end()) return wrong_secret(secrets.empty());
    const auto key = open(secret->wraps, bound_to(id), std::span(body).subspan(1 + secret_id_bytes));
    if (!key) return corrupt();
    return key_of(*key);
}

// ---- the operations --------------------------------------------------------------------------------------------

Operation operation_of(std::string key) { return {*Scope::make("~semel", "tenant-key"), *Key::parse(std::move(key))}; }
Operation first_operation() { return operation_of("first"); }
Operation operation_of(const Secret& secret) { return operation_of("secret-" + to_hex(secret.id)); }

Claim claim_of(const Operation& operation) {
    return {.operation = operation,
            .fingerprint = fingerprint_of_bytes("semel/tenant-key/1"),
            .attempt = {},
            .policy = {.on_unknown = OnUnknown::resume,
                       .lease = lease,
                       .effect_deadline = Duration{0},
                       .retention = {std::nullopt, std::nullopt}},
            .correlation = {}};
}

/// Settles the operation with `body` unless it is settled; what it is settled with. Waits while somebody else is at it.
Result<std::string> settled_with(Committer& committer, const Operation& operation, const std::string& body) {
    const auto give_up = steady_clock::now() + tenant_key_wait_max;
    while (steady_clock::now() < give_up) {
        auto claim = committer.claim(claim_of(operation));
        if (!claim) return std::move(claim).failure();
        if (auto* replay = std::get_if<Replay>(&*claim)) return std::move(replay->outcome.body);
        if (const auto* claimed = std::get_if<Claimed>(&*claim)) {
            auto settled = committer.settle({operation.id(), claimed->token, claimed->attempt}, {.body = body});
            if (!settled) return std::move(settled).failure();
            if (std::holds_alternative<Ok>(*settled)) return body;
            if (auto* before = std::get_if<Settled>(&*settled)) return std::move(before->outcome.body);
            continue;  // fenced: the lease was over and another one took over
        }
        const auto* const busy = std::get_if<Busy>(&*claim);
        if (busy == nullptr) return corrupt();  // nobody else claims these keys, or with another fingerprint
        std::this_thread::sleep_for(std::min(busy->retry_after, look_again_after));
    }
    return Failure{Code::unavailable,
                   fmt::format("tenant key: {} is held by another instance; start again", operation.text())};
}

/// The key by a record of one of the secrets; nothing without one. A settled outcome never changes, so that looking is
/// as good as claiming.
Result<std::optional<Key32>> by_secret(Store& store, const std::vector<Secret>& secrets) {
    for (const Secret& secret : secrets) {
        auto record = store.find(operation_of(secret).id());
        if (!record) return std::move(record).failure();
        if (!*record || (*record)->state != State::settled) continue;
        auto key = unwrapped(std::move((*record)->outcome.body), secrets);
        if (!key) return std::move(key).failure();
        return std::optional(*key);
    }
    return std::optional<Key32>();
}

Result<Key32> by_first(Committer& committer, const std::vector<Secret>& secrets, Random& random) {
    Key32 fresh{};
    random.fill(fresh);
    auto body = settled_with(committer, first_operation(),
                             secrets.empty() ? plain(fresh) : wrapped(fresh, secrets.front(), random));
    if (!body) return std::move(body).failure();
    return unwrapped(std::move(*body), secrets);
}

/// Makes sure that the first secret alone will do.
Status add_record(Committer& committer, const std::vector<Secret>& secrets, const Key32& key, Random& random) {
    auto body = settled_with(committer, operation_of(secrets.front()), wrapped(key, secrets.front(), random));
    if (!body) return std::move(body).failure();
    const auto stored = unwrapped(std::move(*body), secrets);
    if (!stored) return stored.failure();
    if (*stored != key) return corrupt();
    return Done{};
}

}  // namespace

Result<Key32> tenant_key(Committer& committer, const std::vector<std::string>& secrets, Random& random) {
    std::vector<Secret> all;
    all.reserve(secrets.size());
    for (const std::string& text : secrets) all.push_back(stretched(text));

    auto known = by_secret(committer.store(), all);
    if (!known) return std::move(known).failure();
    auto key = *known ? Result<Key32>(**known) : by_first(committer, all, random);
    if (!key || all.empty()) return key;
    if (auto added = add_record(committer, all, *key, random); !added) return std::move(added).failure();
    return key;
}

Result<Key32> tenant_key(Committer& committer, const std::vector<std::string>& secrets) {
    SystemRandom random;
    return tenant_key(committer, secrets, random);
}

}  // namespace semel::gateway
