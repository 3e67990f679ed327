// Whose a request is: the tenant of its scope, from the one place the configuration names.
//
// Credentials rotate and may be of any length and characters, and a ledger is read by many: a tenant is only ever the
// keyed hash of what told it, 32 hex digits (docs/formats/tenant.md). No reason given here holds a part of a credential:
// they are fixed texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/clock.hpp"
#include "gateway/config.hpp"
#include "gateway/crypto.hpp"
#include "gateway/jwt.hpp"
#include "gateway/networks.hpp"
#include "http/fields.hpp"

namespace semel::gateway {

/// Nothing says whose it is.
struct TenantMissing {
    std::string_view reason{};
};
/// Something does, and cannot be believed.
struct TenantRefused {
    std::string_view reason{};
};
/// The text is the scope's tenant: 32 hex digits, or empty with Tenant::From::none.
using TenantAnswer = std::variant<std::string, TenantMissing, TenantRefused>;

/// Thread safe.
class TenantReader {
public:
    /// `hash_key`: from tenant_key(). `clock` must outlive the reader. `invalid`: bad peers, or as JwtVerifier::make.
    static Result<TenantReader> make(const Tenant& tenant, const Key32& hash_key, const Clock& clock);

    /// - header: the value of the one header of that name, byte for byte but for the letter case of Authorization's scheme.
    ///   Two of them are refused.
    /// - jwt: as JwtVerifier says; in Authorization after `Bearer`, in any other header alone. Two headers are refused.
    /// - client_certificate: `subject`, of the certificate that TLS has verified.
    /// - peer_header: the value of the one header of that name, if `peer` is trusted; from anyone else it is missing. A
    ///   second one, with '_' for '-' too, is refused.
    /// `peer`: the numeric address at the other end of the connection.
    [[nodiscard]] TenantAnswer read(const http::Fields& fields, std::string_view peer,
                                    std::optional<std::string_view> subject) const;

    /// Of peer_header: whether this peer may set it. False with any other way of telling.
    [[nodiscard]] bool peer_trusted(std::string_view peer) const { return peers_.contain(peer); }
    /// Of peer_header: the header that has to be removed (http::same_variable) from requests of peers that are not
    /// trusted. Empty with any other way of telling.
    [[nodiscard]] std::string_view peer_header() const;

private:
    TenantReader(const Tenant& tenant, const Key32& hash_key, const Clock& clock);
    [[nodiscard]] TenantAnswer from_header(const http::Fields& fields) const;
    [[nodiscard]] TenantAnswer from_token(const http::Fields& fields) const;
    [[nodiscard]] TenantAnswer from_peer(const http::Fields& fields, std::string_view peer) const;
    /// Over p(how) p(where) p(what), of which `where` may be empty.
    [[nodiscard]] std::string hashed(std::string_view how, std::string_view where, std::string_view what) const;

    Tenant::From from_;
    std::string header_;  // as configured
    std::string name_;    // in lower case
    HmacSha256 hash_;
    Networks peers_;
    std::optional<JwtVerifier> tokens_;
    const Clock* clock_;
};

}  // namespace semel::gateway
