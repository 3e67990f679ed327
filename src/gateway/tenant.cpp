#include "gateway/tenant.hpp"

#include <algorithm>

namespace semel::gateway {
namespace {

constexpr TenantMissing no_header{"the header that says whose the request is, is missing or empty"};
constexpr TenantRefused header_twice{"the header that says whose the request is, is there twice"};

// The value of the one header of that name.
std::variant<std::string_view, TenantMissing, TenantRefused> only(const http::Fields& fields, std::string_view name) {
    const http::Field* const field = fields.find(name);
    if (field == nullptr) return no_header;
    if (fields.count(name) > 1) return header_twice;
    const std::string_view value = http::trimmed(field->value);
    if (value.empty()) return no_header;
    return value;
}

std::string in_lower(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), http::lower);
    return out;
}

std::array<char, 4> length_of(std::string_view text) {
    const auto size = static_cast<std::uint32_t>(text.size());
    return {static_cast<char>(size >> 24), static_cast<char>(size >> 16), static_cast<char>(size >> 8),
            static_cast<char>(size)};
}

constexpr std::string_view authorization = "authorization";

}  // namespace

TenantReader::TenantReader(const Tenant& tenant, const Key32& hash_key, const Clock& clock)
    : from_(tenant.from),
      header_(tenant.header),
      name_(in_lower(tenant.header)),
      hash_(view(hash_key)),
      clock_(&clock) {}

Result<TenantReader> TenantReader::make(const Tenant& tenant, const Key32& hash_key, const Clock& clock) {
    TenantReader reader(tenant, hash_key, clock);
    if (tenant.from == Tenant::From::jwt) {
        auto tokens = JwtVerifier::make(tenant);
        if (!tokens) return std::move(tokens).failure();
        reader.tokens_.emplace(std::move(*tokens));
        if (reader.name_.empty()) reader.name_ = authorization;
    }
    if (tenant.from == Tenant::From::peer_header) {
        auto peers = Networks::parse(tenant.peers);
        if (!peers) return Failure{Code::invalid, "tenant: peers: " + peers.failure().message};
        reader.peers_ = std::move(*peers);
    }
    return reader;
}

TenantAnswer TenantReader::read(const http::Fields& fields, std::string_view peer,
                                std::optional<std::string_view> subject) const {
    switch (from_) {
        case Tenant::From::none: return std::string();
        case Tenant::From::header: return from_header(fields);
        case Tenant::From::jwt: return from_token(fields);
        case Tenant::From::client_certificate:
            if (!subject || subject->empty()) return TenantMissing{"a client certificate is missing"};
            return hashed("client_certificate", {}, *subject);
        case Tenant::From::peer_header: return from_peer(fields, peer);
    }
    return TenantMissing{};
}

std::string_view TenantReader::peer_header() const {
    return from_ == Tenant::From::peer_header ? std::string_view(header_) : std::string_view();
}

TenantAnswer TenantReader::from_header(const http::Fields& fields) const {
    const auto found = only(fields, name_);
    if (const auto* missing = std::get_if<TenantMissing>(&found)) return *missing;
    if (const auto* refused = std::get_if<TenantRefused>(&found)) return *refused;
    const std::string_view value = std::get<std::string_view>(found);
    const std::size_t space = value.find(' ');
    if (name_ != authorization || space == std::string_view::npos) return hashed("header", name_, value);
    std::string credential(value);
    std::transform(credential.begin(), credential.begin() + static_cast<std::ptrdiff_t>(space), credential.begin(),
                   http::lower);
    return hashed("header", name_, credential);
}

TenantAnswer TenantReader::from_token(const http::Fields& fields) const {
    const auto found = only(fields, name_);
    if (const auto* missing = std::get_if<TenantMissing>(&found)) return *missing;
    if (const auto* refused = std::get_if<TenantRefused>(&found)) return *refused;
    std::string_view token = std::get<std::string_view>(found);
    if (name_ == authorization) {
        if (!http::name_starts_with(token, "bearer ")) return TenantMissing{"the request has no bearer token"};
        token = http::trimmed(token.substr(7));
    }
    const JwtAnswer answer = tokens_->verify(token, clock_->wall());
    if (const auto* refused = std::get_if<JwtRefused>(&answer)) return TenantRefused{refused->reason};
    const auto& who = std::get<JwtSubject>(answer);
    return hashed("jwt", who.issuer, who.claim);
}

TenantAnswer TenantReader::from_peer(const http::Fields& fields, std::string_view peer) const {
    if (!peer_trusted(peer)) return TenantMissing{"the peer may not say whose the request is"};
    const auto spellings =
        std::ranges::count_if(fields, [&](const http::Field& field) { return http::same_variable(field.name, name_); });
    if (spellings > 1) return header_twice;
    const auto found = only(fields, name_);
    if (const auto* value = std::get_if<std::string_view>(&found)) return hashed("peer_header", {}, *value);
    return no_header;
}

std::string TenantReader::hashed(std::string_view how, std::string_view where, std::string_view what) const {
    const auto a = length_of(how);
    const auto b = length_of(where);
    const auto c = length_of(what);
    const Sha256 digest =
        hash_.of({{a.data(), a.size()}, how, {b.data(), b.size()}, where, {c.data(), c.size()}, what});
    return to_hex(first_half(digest));
}

}  // namespace semel::gateway
