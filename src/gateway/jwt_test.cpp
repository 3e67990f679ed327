#include "gateway/jwt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gateway/jwt_test_tokens.hpp"

namespace semel::gateway {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string secret = "0123456789abcdef0123456789abcdef";
constexpr TimePoint now = time_from_micros(1'700'000'000'000'000);

Tenant hs256() {
    Tenant tenant;
    tenant.from = Tenant::From::jwt;
    tenant.algorithms = {"HS256"};
    tenant.key = secret;
    return tenant;
}

Tenant with_file(std::string algorithm, std::string file) {
    Tenant tenant;
    tenant.from = Tenant::From::jwt;
    tenant.algorithms = {std::move(algorithm)};
    tenant.key = std::move(file);
    return tenant;
}

/// "issuer|claim", or the reason in brackets.
std::string shown(const Tenant& tenant, std::string_view token, TimePoint at = now) {
    const auto verifier = JwtVerifier::make(tenant);
    if (!verifier) return verifier.failure().message;
    const JwtAnswer answer = verifier->verify(token, at);
    if (const auto* refused = std::get_if<JwtRefused>(&answer)) return "(" + std::string(refused->reason) + ")";
    const auto& who = std::get<JwtSubject>(answer);
    return who.issuer + "|" + who.claim;
}

std::string why_not(const Tenant& tenant) {
    const auto verifier = JwtVerifier::make(tenant);
    EXPECT_FALSE(verifier.ok());
    if (verifier) return {};
    EXPECT_EQ(verifier.failure().code, Code::invalid);
    return verifier.failure().message;
}

// RFC 7515, A.1 and A.3.
TEST(Jwt, VerifiesTheExamplesOfItsRfc) {
    constexpr TimePoint then = time_from_micros(1'300'819'000'000'000);
    constexpr std::string_view payload =
        ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.";
    Tenant shared = hs256();
    shared.claim = "iss";
    shared.key =
        *from_base64url("AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow");
    const std::string a1 = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9" + std::string(payload) +
                           "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    EXPECT_EQ(shown(shared, a1, then), "joe|joe");
    EXPECT_EQ(shown(shared, a1), "(the token has expired)");

    const std::string file = testing::TempDir() + "semel_rfc7515_" + std::to_string(getpid()) + ".pem";
    std::ofstream(file) << "-----BEGIN PUBLIC KEY-----\n"
                           "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7\n"
                           "6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==\n"
                           "-----END PUBLIC KEY-----\n";
    Tenant curve = with_file("ES256", file);
    curve.claim = "iss";
    const std::string a3 = "eyJhbGciOiJFUzI1NiJ9" + std::string(payload) +
                           "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    EXPECT_EQ(shown(curve, a3, then), "joe|joe");
    EXPECT_EQ(shown(shared, a3, then), "(the token is signed with an algorithm that is not accepted)");
    std::filesystem::remove(file);
}

TEST(Jwt, VerifiesWithAPublicKey) {
    const TestKey rsa = TestKey::rsa(2048);
    const TestKey curve = TestKey::curve("P-256");
    const std::string rsa_file = rsa.file();
    const std::string curve_file = curve.file();
    const Tenant by_rsa = with_file("RS256", rsa_file);
    const Tenant by_curve = with_file("ES256", curve_file);
    constexpr std::string_view payload = R"({"sub":"acme"})";
    EXPECT_EQ(shown(by_rsa, rsa.rs256_token(payload)), "|acme");
    EXPECT_EQ(shown(by_curve, curve.es256_token(payload)), "|acme");

    const auto changed = [](std::string token) {
        const std::size_t at = token.find('.') + 8;
        token[at] = token[at] == 'A' ? 'B' : 'A';
        return token;
    };
    EXPECT_EQ(shown(by_rsa, changed(rsa.rs256_token(payload))), "(the token's signature is wrong)");
    EXPECT_EQ(shown(by_curve, changed(curve.es256_token(payload))), "(the token's signature is wrong)");
    const TestKey other = TestKey::curve("P-256");
    EXPECT_EQ(shown(by_curve, other.es256_token(payload)), "(the token's signature is wrong)");
    std::string cut = curve.es256_token(payload);
    cut.resize(cut.size() - 2);
    EXPECT_EQ(shown(by_curve, cut), "(the token's signature is wrong)");
    std::filesystem::remove(rsa_file);
    std::filesystem::remove(curve_file);
}

TEST(Jwt, APublicKeyIsNoSharedSecret) {
    const TestKey rsa = TestKey::rsa(2048);
    const std::string file = rsa.file();
    std::ifstream in(file);
    const std::string pem(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(shown(with_file("RS256", file), hs256_token(pem, R"({"sub":"acme"})")),
              "(the token is signed with an algorithm that is not accepted)");
    std::filesystem::remove(file);
}

TEST(Jwt, BelievesNothingElse) {
    constexpr std::string_view fine = R"({"sub":"acme"})";
    const std::string good = hs256_token(secret, fine);
    ASSERT_EQ(shown(hs256(), good), "|acme");
    const std::string malformed = "(the token is not a JWT)";
    const std::string algorithm = "(the token is signed with an algorithm that is not accepted)";
    const struct {
        std::string token;
        std::string shown;
    } rows[] = {
        {"", malformed},
        {"a.b", malformed},
        {"..", malformed},
        {good + ".x", malformed},
        {good + "=", malformed},
        {" " + good, malformed},
        {good.substr(0, good.size() - 43), "(the token's signature is wrong)"},
        {unsigned_token(R"({"alg":"none"})", fine) + ".", algorithm},
        {unsigned_token(R"({"alg":"None"})", fine) + ".", algorithm},
        {hs256_token(secret, fine, R"({"alg":"none"})"), algorithm},
        {hs256_token(secret, fine, R"({"alg":"hs256"})"), algorithm},
        {hs256_token(secret, fine, R"({"alg":"HS384"})"), algorithm},
        {hs256_token(secret, fine, R"({"alg":["HS256"]})"), malformed},
        {hs256_token(secret, fine, R"({"typ":"JWT"})"), malformed},
        {hs256_token(secret, fine, R"({"alg":"HS256","alg":"HS256"})"), malformed},
        {hs256_token(secret, fine, R"("HS256")"), malformed},
        {hs256_token(secret, fine, R"({"alg":"HS256","crit":["exp"]})"),
         "(the token demands an extension that is not understood)"},
        {hs256_token(secret + "x", fine), "(the token's signature is wrong)"},
        {hs256_token(secret, "acme"), "(the token's claims are not JSON)"},
        {hs256_token(secret, R"(["acme"])"), "(the token's claims are not JSON)"},
        {hs256_token(secret, R"({"sub":"acme","sub":"other"})"), "(the token's claims are not JSON)"},
    };
    for (const auto& row : rows) EXPECT_EQ(shown(hs256(), row.token), row.shown) << row.token;
}

TEST(Jwt, TheClaimIsAStringOrAnInteger) {
    const std::string without = "(the token does not have the claim that says whose it is)";
    const struct {
        std::string_view payload;
        std::string shown;
    } rows[] = {
        {R"({"sub":"acme","iss":"https://id"})", "https://id|acme"},
        {R"({"sub":"\u00e9/#"})", "|\xc3\xa9/#"},
        {R"({"sub":42})", "|42"},
        {R"({"sub":"acme","iss":7})", "|acme"},
        {R"({"sub":4.2})", without},
        {R"({"sub":""})", without},
        {R"({"sub":null})", without},
        {R"({"sub":true})", without},
        {R"({"sub":["acme"]})", without},
        {R"({"Sub":"acme"})", without},
        {R"({})", without},
    };
    for (const auto& row : rows) EXPECT_EQ(shown(hs256(), hs256_token(secret, row.payload)), row.shown) << row.payload;
}

TEST(Jwt, IsBelievedWithinItsTimeAndTheLeeway) {
    const struct {
        std::string_view payload;
        std::string_view shown;
    } rows[] = {
        {R"({"sub":"a","exp":1700000001})", "|a"},
        {R"({"sub":"a","exp":1699999971})", "|a"},
        {R"({"sub":"a","exp":1699999970})", "(the token has expired)"},
        {R"({"sub":"a","exp":1699999970.5})", "|a"},
        {R"({"sub":"a","exp":1.7e9})", "|a"},
        {R"({"sub":"a","exp":-1})", "(the token has expired)"},
        {R"({"sub":"a","exp":"1800000000"})", "(the token's exp is not a number)"},
        {R"({"sub":"a","exp":null})", "(the token's exp is not a number)"},
        {R"({"sub":"a","exp":1e999})", "(the token's exp is not a number)"},
        {R"({"sub":"a","nbf":1700000030})", "|a"},
        {R"({"sub":"a","nbf":1700000031})", "(the token is not valid yet)"},
        {R"({"sub":"a","nbf":{}})", "(the token's nbf is not a number)"},
    };
    for (const auto& row : rows) EXPECT_EQ(shown(hs256(), hs256_token(secret, row.payload)), row.shown) << row.payload;
}

TEST(Jwt, IsOfTheIssuerAndForTheAudience) {
    Tenant tenant = hs256();
    tenant.issuer = "https://id";
    tenant.audience = "semel";
    const struct {
        std::string_view payload;
        std::string_view shown;
    } rows[] = {
        {R"({"sub":"a","iss":"https://id","aud":"semel"})", "https://id|a"},
        {R"({"sub":"a","iss":"https://id","aud":["x",["y"],"semel"]})", "https://id|a"},
        {R"({"sub":"a","iss":"https://id","aud":["x",["semel"]],"semel":"semel"})",
         "(the token is for another audience)"},
        {R"({"sub":"a","iss":"https://id","aud":[]})", "(the token is for another audience)"},
        {R"({"sub":"a","iss":"https://id"})", "(the token is for another audience)"},
        {R"({"sub":"a","iss":"https://id/","aud":"semel"})", "(the token is of another issuer)"},
        {R"({"sub":"a","aud":"semel"})", "(the token is of another issuer)"},
    };
    for (const auto& row : rows) EXPECT_EQ(shown(tenant, hs256_token(secret, row.payload)), row.shown) << row.payload;
}

TEST(Jwt, AKeyThatCannotDoIsNamedButNeverShown) {
    EXPECT_THAT(why_not(with_file("RS256", "/nowhere/key.pem")), HasSubstr("/nowhere/key.pem"));
    EXPECT_THAT(why_not(with_file("none", "x")), HasSubstr("none"));
    EXPECT_THAT(why_not(with_file("", "x")), HasSubstr("HS256, RS256 or ES256"));
    Tenant tenant = hs256();
    tenant.key = "short-secret";
    EXPECT_THAT(why_not(tenant), Not(HasSubstr("short-secret")));
    tenant = hs256();
    tenant.algorithms = {"HS256", "RS256"};
    EXPECT_THAT(why_not(tenant), Not(HasSubstr(secret)));
    tenant.algorithms = {};
    why_not(tenant);

    const TestKey small = TestKey::rsa(1024);
    const TestKey other_curve = TestKey::curve("P-384");
    for (const TestKey* key : {&small, &other_curve})
        for (const char* algorithm : {"RS256", "ES256"}) {
            const std::string file = key->file();
            EXPECT_THAT(why_not(with_file(algorithm, file)), HasSubstr(file));
            std::filesystem::remove(file);
        }
    const TestKey pair = TestKey::curve("P-256");
    const std::string file = pair.file(true);
    EXPECT_THAT(why_not(with_file("ES256", file)), HasSubstr("neither a public key nor a certificate"));
    std::filesystem::remove(file);
}

}  // namespace
}  // namespace semel::gateway
