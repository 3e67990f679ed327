// JSON Web Tokens (RFC 7519), as far as they say whose a request is: one signed token, verified with one key.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gateway/config.hpp"
#include "gateway/crypto.hpp"
#include "semel/result.hpp"
#include "semel/time.hpp"

struct evp_pkey_st;

namespace semel::gateway {

/// Who a verified token speaks for.
struct JwtSubject {
    std::string issuer{};  ///< the token's `iss`; empty without one
    std::string claim{};   ///< not empty; of an integer its digits
    bool operator==(const JwtSubject&) const = default;
};
/// Why it was not believed. A fixed text: nothing of the token is in it.
struct JwtRefused {
    std::string_view reason{};
    bool operator==(const JwtRefused&) const = default;
};
using JwtAnswer = std::variant<JwtSubject, JwtRefused>;

/// Thread safe.
class JwtVerifier {
public:
    /// Takes claim, algorithms, key, issuer, audience and leeway of `tenant`. One key cannot be both a shared secret and a
    /// public key, so HS256 stands alone. `invalid`, naming the file but never a secret: no algorithm or an unknown one, a
    /// shared secret of less than 32 bytes (RFC 7518), a PEM file that cannot be read or holds neither a public key nor a
    /// certificate, a key that is not RSA of 2048 bits or more (RS256) or on P-256 (ES256).
    static Result<JwtVerifier> make(const Tenant& tenant);

    /// Believed is a token in compact form whose `alg` is one of the configured ones, without `crit`, with a right
    /// signature, not before `nbf` and before `exp` (leeway allowed; both may be absent), of the configured issuer and
    /// audience, and with the claim as a non-empty string or an integer.
    [[nodiscard]] JwtAnswer verify(std::string_view token, TimePoint now) const;

private:
    struct Free {
        void operator()(evp_pkey_st* key) const;
    };
    JwtVerifier() = default;
    Status load_key(const std::string& file);
    [[nodiscard]] bool signature_right(std::string_view algorithm, std::string_view text,
                                       std::string_view signature) const;
    [[nodiscard]] JwtAnswer read_claims(std::string_view payload, TimePoint now) const;

    std::vector<std::string> algorithms_;
    std::string claim_;
    std::string issuer_;
    std::string audience_;
    Duration leeway_{0};
    std::optional<HmacSha256> secret_;           // of HS256
    std::unique_ptr<evp_pkey_st, Free> public_;  // of the others
};

}  // namespace semel::gateway
