// For tests: keys in files, and tokens signed with them.
#pragma once

#include <gtest/gtest.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/base64.hpp"
#include "gateway/crypto.hpp"

namespace semel::gateway {

inline std::string to_base64url(std::string_view bytes) {
    static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const auto byte = [&](std::size_t n) {
            return i + n < bytes.size() ? static_cast<unsigned>(static_cast<unsigned char>(bytes[i + n])) : 0U;
        };
        const unsigned bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        const std::size_t count = std::min<std::size_t>(bytes.size() - i, 3) + 1;
        for (std::size_t n = 0; n < count; ++n) out.push_back(digits[bits >> (18 - 6 * n) & 63]);
    }
    return out;
}

/// `head.payload`, to be signed.
inline std::string unsigned_token(std::string_view head, std::string_view payload) {
    return to_base64url(head) + "." + to_base64url(payload);
}

inline std::string hs256_token(std::string_view secret, std::string_view payload,
                               std::string_view head = R"({"alg":"HS256","typ":"JWT"})") {
    const std::string text = unsigned_token(head, payload);
    return text + "." + to_base64url(view(HmacSha256(secret).of({text})));
}

/// A key pair made for the test.
class TestKey {
public:
    static TestKey rsa(unsigned bits) { return TestKey(EVP_RSA_gen(bits)); }
    static TestKey curve(const char* name) { return TestKey(EVP_EC_gen(name)); }
    ~TestKey() { EVP_PKEY_free(pair_); }
    TestKey(const TestKey&) = delete;
    TestKey& operator=(const TestKey&) = delete;

    /// A file with the public half, or with both.
    [[nodiscard]] std::string file(bool with_private = false) const {
        std::string path = testing::TempDir() + "semel_jwt_" + std::to_string(getpid()) + "_" +
                           std::to_string(reinterpret_cast<std::uintptr_t>(pair_)) + ".pem";
        BIO* const out = BIO_new_file(path.c_str(), "w");
        if (with_private) PEM_write_bio_PrivateKey(out, pair_, nullptr, nullptr, 0, nullptr, nullptr);
        if (!with_private) PEM_write_bio_PUBKEY(out, pair_);
        BIO_free(out);
        return path;
    }

    [[nodiscard]] std::string rs256_token(std::string_view payload) const {
        const std::string text = unsigned_token(R"({"alg":"RS256"})", payload);
        return text + "." + to_base64url(signature(text));
    }

    [[nodiscard]] std::string es256_token(std::string_view payload) const {
        const std::string text = unsigned_token(R"({"alg":"ES256"})", payload);
        const std::string asn1 = signature(text);
        const auto* at = reinterpret_cast<const unsigned char*>(asn1.data());
        ECDSA_SIG* const numbers = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(asn1.size()));
        std::string raw(64, '\0');
        auto* const out = reinterpret_cast<unsigned char*>(raw.data());
        BN_bn2binpad(ECDSA_SIG_get0_r(numbers), out, 32);
        BN_bn2binpad(ECDSA_SIG_get0_s(numbers), out + 32, 32);
        ECDSA_SIG_free(numbers);
        return text + "." + to_base64url(raw);
    }

private:
    explicit TestKey(EVP_PKEY* pair) : pair_(pair) { EXPECT_NE(pair, nullptr); }

    [[nodiscard]] std::string signature(std::string_view text) const {
        EVP_MD_CTX* const context = EVP_MD_CTX_new();
        EXPECT_EQ(EVP_DigestSignInit_ex(context, nullptr, "SHA256", nullptr, nullptr, pair_, nullptr), 1);
        const auto* const bytes = reinterpret_cast<const unsigned char*>(text.data());
        std::size_t size = 0;
        EXPECT_EQ(EVP_DigestSign(context, nullptr, &size, bytes, text.size()), 1);
        std::string out(size, '\0');
        EXPECT_EQ(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(out.data()), &size, bytes, text.size()), 1);
        out.resize(size);
        EVP_MD_CTX_free(context);
        return out;
    }

    EVP_PKEY* pair_;
};

}  // namespace semel::gateway
