// Whether an event is from the provider that says so: HMAC-SHA256 over what it sent, as Stripe writes it, as GitHub does,
// or as the configuration says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.hpp"
#include "gateway/crypto.hpp"
#include "http/fields.hpp"
#include "semel/time.hpp"

namespace semel::gateway {

/// Thread safe.
class SignatureChecker {
public:
    explicit SignatureChecker(const Signature& signature);

    /// Empty: one of the secrets signed this body, and the timestamp is within the tolerance of `now` (wall clock), both
    /// ways. Otherwise why not, in a fixed text without anything of secret, signature or body. `body` is raw, as it came.
    ///
    /// - stripe: `Stripe-Signature: t=<seconds>,v1=<hex>[,v1=<hex>…]` over `<seconds>.<body>`; any v1 will do, and other
    ///   schemes (v0) do not count. The secret is used as Stripe shows it, with its whsec_.
    /// - github: `X-Hub-Signature-256: sha256=<hex>` over the body; no timestamp.
    /// - hmac: the one Signature::header, after `prefix`, in `encoding`, over `payload`.
    /// A header on two lines is refused.
    [[nodiscard]] std::optional<std::string_view> fault(const http::Fields& fields, std::string_view body,
                                                        TimePoint now) const;

private:
    /// A piece of the payload's template.
    struct Piece {
        enum class Kind : std::uint8_t { text, body, timestamp };
        Kind kind = Kind::text;
        std::string text{};
    };
    static std::vector<Piece> pieces_of(std::string_view payload);
    [[nodiscard]] std::optional<std::string_view> stripe_fault(std::string_view value, std::string_view body,
                                                               TimePoint now) const;
    [[nodiscard]] std::optional<std::string_view> hmac_fault(std::string_view value, const http::Fields& fields,
                                                             std::string_view body, TimePoint now) const;
    [[nodiscard]] bool any_made(const std::vector<std::string>& signatures, std::string_view body,
                                std::string_view timestamp) const;
    [[nodiscard]] std::optional<std::string_view> untimely(std::string_view timestamp, TimePoint now) const;

    Signature signature_;  // with header, prefix and payload of its scheme; without the secrets
    std::vector<HmacSha256> secrets_;
    std::vector<Piece> pieces_;
};

}  // namespace semel::gateway
