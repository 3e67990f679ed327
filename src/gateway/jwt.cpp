#include "gateway/jwt.hpp"

#include <fmt/format.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <charconv>

#include "base/base64.hpp"
#include "ledger/json_document.hpp"

namespace semel::gateway {
namespace {

using Kind = JsonDocument::Kind;
using Node = JsonDocument::Node;

constexpr std::size_t shared_secret_bytes_min = 32;
constexpr int rsa_bits_min = 2048;
constexpr std::size_t p256_bytes = 32;

struct FreeBio {
    void operator()(BIO* file) const { BIO_free(file); }
};
struct FreeCertificate {
    void operator()(X509* certificate) const { X509_free(certificate); }
};
struct FreeDigest {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreeEcdsa {
    void operator()(ECDSA_SIG* signature) const { ECDSA_SIG_free(signature); }
};

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// ---- keys ------------------------------------------------------------------------------------------------------

Failure bad_key(const std::string& file, std::string_view why) {
    return {Code::invalid, fmt::format("tenant.jwt.key {}: {}", file, why)};
}

EVP_PKEY* read_public_key(BIO* file) {
    EVP_PKEY* key = PEM_read_bio_PUBKEY(file, nullptr, nullptr, nullptr);
    if (key == nullptr && BIO_seek(file, 0) == 0) {
        const std::unique_ptr<X509, FreeCertificate> certificate(PEM_read_bio_X509(file, nullptr, nullptr, nullptr));
        if (certificate != nullptr) key = X509_get_pubkey(certificate.get());
    }
    ERR_clear_error();
    return key;
}

bool is_rsa(const EVP_PKEY* key) {
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA && EVP_PKEY_get_bits(key) >= rsa_bits_min;
}

bool is_p256(const EVP_PKEY* key) {
    std::array<char, 32> name{};
    std::size_t size = 0;
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(key, name.data(), name.size(), &size) == 1 &&
           std::string_view(name.data(), size) == "prime256v1";
}

// ---- signatures ------------------------------------------------------------------------------------------------

// JWS has the two numbers as 32 bytes each (RFC 7518 3.4), OpenSSL as ASN.1. Empty: it is not that.
std::string asn1_of(std::string_view signature) {
    if (signature.size() != 2 * p256_bytes) return {};
    const std::unique_ptr<ECDSA_SIG, FreeEcdsa> numbers(ECDSA_SIG_new());
    BIGNUM* const r = BN_bin2bn(bytes_of(signature), int{p256_bytes}, nullptr);
    BIGNUM* const s = BN_bin2bn(bytes_of(signature) + p256_bytes, int{p256_bytes}, nullptr);
    if (ECDSA_SIG_set0(numbers.get(), r, s) != 1) {
        BN_free(r);
        BN_free(s);
        return {};
    }
    const int size = i2d_ECDSA_SIG(numbers.get(), nullptr);
    if (size <= 0) return {};
    std::string out(static_cast<std::size_t>(size), '\0');
    auto* at = reinterpret_cast<unsigned char*>(out.data());
    i2d_ECDSA_SIG(numbers.get(), &at);
    return out;
}

bool signed_by(EVP_PKEY* key, std::string_view text, std::string_view signature) {
    const std::unique_ptr<EVP_MD_CTX, FreeDigest> context(EVP_MD_CTX_new());
    const bool right =
        EVP_DigestVerifyInit_ex(context.get(), nullptr, "SHA256", nullptr, nullptr, key, nullptr) == 1 &&
        EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(text), text.size()) == 1;
    if (!right) ERR_clear_error();
    return right;
}

// ---- claims ----------------------------------------------------------------------------------------------------

const Node* member(const JsonDocument& document, std::string_view name) {
    const Node& whole = document.node(0);
    if (whole.kind != Kind::object) return nullptr;
    for (const JsonDocument::Index each : document.members(whole))
        if (document.node(each).text == name) return &document.node(each + 1);
    return nullptr;
}

// Seconds since 1970, with or without a fraction.
std::optional<double> numeric_date(const Node& node) {
    double seconds = 0;
    if (node.kind != Kind::number) return std::nullopt;
    const char* const end = node.text.data() + node.text.size();
    if (std::from_chars(node.text.data(), end, seconds).ec != std::errc{}) return std::nullopt;
    return seconds;
}

bool is_for(const JsonDocument& document, std::string_view audience) {
    const Node* const aud = member(document, "aud");
    if (aud == nullptr) return false;
    if (aud->kind == Kind::string) return aud->text == audience;
    if (aud->kind != Kind::array) return false;
    JsonDocument::Index at = static_cast<JsonDocument::Index>(aud - &document.node(0)) + 1;
    for (; at < aud->end; at = document.node(at).end)
        if (document.node(at).kind == Kind::string && document.node(at).text == audience) return true;
    return false;
}

double in_seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Empty: it is within its time.
std::string_view out_of_time(const JsonDocument& document, double now, double leeway) {
    if (const Node* const exp = member(document, "exp")) {
        const auto at = numeric_date(*exp);
        if (!at) return "the token's exp is not a number";
        if (now >= *at + leeway) return "the token has expired";
    }
    if (const Node* const nbf = member(document, "nbf")) {
        const auto at = numeric_date(*nbf);
        if (!at) return "the token's nbf is not a number";
        if (now < *at - leeway) return "the token is not valid yet";
    }
    return {};
}

bool is_name(const Node* node) {
    if (node == nullptr || node->text.empty()) return false;
    if (node->kind == Kind::string) return true;
    return node->kind == Kind::number && node->text.find_first_of(".eE") == std::string_view::npos;
}

}  // namespace

void JwtVerifier::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

Result<JwtVerifier> JwtVerifier::make(const Tenant& tenant) {
    const auto invalid = [](std::string why) { return Failure{Code::invalid, "tenant.jwt." + std::move(why)}; };
    JwtVerifier verifier;
    verifier.algorithms_ = tenant.algorithms;
    verifier.claim_ = tenant.claim;
    verifier.issuer_ = tenant.issuer;
    verifier.audience_ = tenant.audience;
    verifier.leeway_ = tenant.leeway;
    if (tenant.algorithms.empty()) return invalid("algorithms: none is accepted; write HS256, RS256 or ES256");
    for (const std::string& algorithm : tenant.algorithms)
        if (algorithm != "HS256" && algorithm != "RS256" && algorithm != "ES256")
            return invalid(fmt::format("algorithms: {} is none of HS256, RS256 or ES256", algorithm));
    if (std::ranges::find(tenant.algorithms, "HS256") == tenant.algorithms.end()) {
        if (auto loaded = verifier.load_key(tenant.key); !loaded) return std::move(loaded).failure();
        return verifier;
    }
    if (std::ranges::any_of(tenant.algorithms, [](const std::string& each) { return each != "HS256"; }))
        return invalid(
            "algorithms: HS256 has a shared secret and stands alone: whoever knows a public key could sign with it");
    if (tenant.key.size() < shared_secret_bytes_min)
        return invalid(fmt::format("key: a shared secret has at least {} bytes", shared_secret_bytes_min));
    verifier.secret_.emplace(tenant.key);
    return verifier;
}

Status JwtVerifier::load_key(const std::string& file) {
    const std::unique_ptr<BIO, FreeBio> bio(BIO_new_file(file.c_str(), "r"));
    ERR_clear_error();
    if (bio == nullptr) return bad_key(file, "cannot be read");
    public_.reset(read_public_key(bio.get()));
    if (public_ == nullptr) return bad_key(file, "neither a public key nor a certificate in PEM");
    for (const std::string& algorithm : algorithms_) {
        if (algorithm == "RS256" && !is_rsa(public_.get()))
            return bad_key(file, "RS256 needs RSA of 2048 bits or more");
        if (algorithm == "ES256" && !is_p256(public_.get())) return bad_key(file, "ES256 needs a key on P-256");
    }
    return Done{};
}

bool JwtVerifier::signature_right(std::string_view algorithm, std::string_view text, std::string_view signature) const {
    if (algorithm == "HS256") return secret_ && same_bytes(view(secret_->of({text})), signature);
    if (algorithm == "RS256") return signed_by(public_.get(), text, signature);
    const std::string asn1 = asn1_of(signature);
    return !asn1.empty() && signed_by(public_.get(), text, asn1);
}

JwtAnswer JwtVerifier::verify(std::string_view token, TimePoint now) const {
    constexpr JwtRefused malformed{"the token is not a JWT"};
    const std::size_t first = token.find('.');
    const std::size_t last = token.rfind('.');
    if (first == last || token.find('.', first + 1) != last) return malformed;
    const auto head_text = from_base64url(token.substr(0, first));
    const auto payload = from_base64url(token.substr(first + 1, last - first - 1));
    const auto signature = from_base64url(token.substr(last + 1));
    if (!head_text || !payload || !signature) return malformed;
    const auto head = JsonDocument::parse(*head_text);
    if (!head) return malformed;
    const Node* const algorithm = member(*head, "alg");
    if (algorithm == nullptr || algorithm->kind != Kind::string) return malformed;
    if (std::ranges::find(algorithms_, algorithm->text) == algorithms_.end())
        return JwtRefused{"the token is signed with an algorithm that is not accepted"};
    if (member(*head, "crit") != nullptr) return JwtRefused{"the token demands an extension that is not understood"};
    if (!signature_right(algorithm->text, token.substr(0, last), *signature))
        return JwtRefused{"the token's signature is wrong"};
    return read_claims(*payload, now);
}

JwtAnswer JwtVerifier::read_claims(std::string_view payload, TimePoint now) const {
    const auto document = JsonDocument::parse(payload);
    if (!document || document->node(0).kind != Kind::object) return JwtRefused{"the token's claims are not JSON"};
    const std::string_view late = out_of_time(*document, in_seconds(now.time_since_epoch()), in_seconds(leeway_));
    if (!late.empty()) return JwtRefused{late};
    const Node* const iss = member(*document, "iss");
    const std::string_view issuer = iss != nullptr && iss->kind == Kind::string ? iss->text : std::string_view{};
    if (!issuer_.empty() && issuer != issuer_) return JwtRefused{"the token is of another issuer"};
    if (!audience_.empty() && !is_for(*document, audience_)) return JwtRefused{"the token is for another audience"};
    const Node* const claim = member(*document, claim_);
    if (!is_name(claim)) return JwtRefused{"the token does not have the claim that says whose it is"};
    return JwtSubject{std::string(issuer), std::string(claim->text)};
}

}  // namespace semel::gateway
