#include "gateway/crypto.hpp"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <limits>

#include "base/assert.hpp"

namespace semel::gateway {
namespace {

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes_of(std::span<char> text) { return reinterpret_cast<unsigned char*>(text.data()); }

int int_of(std::size_t size) {
    SEMEL_ASSERT(size <= static_cast<std::size_t>(std::numeric_limits<int>::max()), "OpenSSL counts in int");
    return static_cast<int>(size);
}

struct FreeCipher {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

// Looked up once: a look-up takes a lock.
const EVP_CIPHER* aes_256_gcm() {
    static const EVP_CIPHER* const algorithm = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
    SEMEL_ASSERT(algorithm != nullptr, "OpenSSL has AES-256-GCM");
    return algorithm;
}

}  // namespace

void HmacSha256::Free::operator()(evp_mac_ctx_st* context) const { EVP_MAC_CTX_free(context); }

HmacSha256::HmacSha256(std::string_view key) {
    static EVP_MAC* const algorithm = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    keyed_.reset(EVP_MAC_CTX_new(algorithm));
    std::string digest = "SHA256";
    const std::array<OSSL_PARAM, 2> settings{
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), digest.size()),
        OSSL_PARAM_construct_end()};
    // No key and an empty key are two things to OpenSSL.
    const unsigned char* const first = key.empty() ? reinterpret_cast<const unsigned char*>("") : bytes_of(key);
    const int ready = EVP_MAC_init(keyed_.get(), first, key.size(), settings.data());
    SEMEL_ASSERT(ready == 1, "OpenSSL has HMAC-SHA256");
}

Sha256 HmacSha256::of(std::span<const std::string_view> parts) const {
    const std::unique_ptr<evp_mac_ctx_st, Free> context(EVP_MAC_CTX_dup(keyed_.get()));
    SEMEL_ASSERT(context != nullptr, "a keyed HMAC can be copied");
    int done = 1;
    for (const std::string_view part : parts) done &= EVP_MAC_update(context.get(), bytes_of(part), part.size());
    Sha256 digest{};
    std::size_t size = 0;
    done &= EVP_MAC_final(context.get(), digest.data(), &size, digest.size());
    SEMEL_ASSERT(done == 1 && size == digest.size(), "HMAC-SHA256 takes any bytes");
    return digest;
}

bool same_bytes(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void seal(const Key32& key, Random& random, std::string_view bound, std::span<char> room) {
    SEMEL_ASSERT(room.size() >= seal_bytes, "room for nonce and tag");
    unsigned char* const nonce = bytes_of(room);
    random.fill({nonce, seal_nonce_bytes});
    const std::span<char> text = room.subspan(seal_nonce_bytes, room.size() - seal_bytes);
    unsigned char* const tag = bytes_of(room) + seal_nonce_bytes + text.size();
    const Cipher context(EVP_CIPHER_CTX_new());
    int written = 0;
    bool done = EVP_EncryptInit_ex2(context.get(), aes_256_gcm(), key.data(), nonce, nullptr) == 1;
    done = done && EVP_EncryptUpdate(context.get(), nullptr, &written, bytes_of(bound), int_of(bound.size())) == 1;
    done = done && EVP_EncryptUpdate(context.get(), bytes_of(text), &written, bytes_of(text), int_of(text.size())) == 1;
    done = done && EVP_EncryptFinal_ex(context.get(), tag, &written) == 1;
    done = done && EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, int{seal_tag_bytes}, tag) == 1;
    SEMEL_ASSERT(done, "AES-256-GCM takes any bytes");
}

std::optional<std::span<char>> open(const Key32& key, std::string_view bound, std::span<char> sealed) {
    if (sealed.size() < seal_bytes) return std::nullopt;
    unsigned char* const nonce = bytes_of(sealed);
    const std::span<char> text = sealed.subspan(seal_nonce_bytes, sealed.size() - seal_bytes);
    unsigned char* const tag = bytes_of(sealed) + seal_nonce_bytes + text.size();
    const Cipher context(EVP_CIPHER_CTX_new());
    int written = 0;
    bool done = EVP_DecryptInit_ex2(context.get(), aes_256_gcm(), key.data(), nonce, nullptr) == 1;
    done = done && EVP_DecryptUpdate(context.get(), nullptr, &written, bytes_of(bound), int_of(bound.size())) == 1;
    done = done && EVP_DecryptUpdate(context.get(), bytes_of(text), &written, bytes_of(text), int_of(text.size())) == 1;
    done = done && EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, int{seal_tag_bytes}, tag) == 1;
    std::array<unsigned char, 16> rest{};
    if (done && EVP_DecryptFinal_ex(context.get(), rest.data(), &written) == 1) return text;
    OPENSSL_cleanse(sealed.data(), sealed.size());
    return std::nullopt;
}

}  // namespace semel::gateway
