#include "gateway/tenant.hpp"

#include <gtest/gtest.h>

#include "gateway/jwt_test_tokens.hpp"

namespace semel::gateway {
namespace {

constexpr Key32 hash_key{1, 2, 3};
const ManualClock clock_at;

http::Fields fields_of(std::initializer_list<http::Field> all) {
    http::Fields fields;
    for (const http::Field& each : all) fields.add(each);
    return fields;
}

TenantReader reader_of(const Tenant& tenant) { return *TenantReader::make(tenant, hash_key, clock_at); }

Tenant of_header(Tenant::From from, std::string name) {
    Tenant tenant;
    tenant.from = from;
    tenant.header = std::move(name);
    return tenant;
}

/// The tenant, "(missing)" or "(refused)".
std::string shown(const TenantAnswer& answer) {
    if (const auto* tenant = std::get_if<std::string>(&answer)) return *tenant;
    if (const auto* missing = std::get_if<TenantMissing>(&answer)) {
        EXPECT_FALSE(missing->reason.empty());
        return "(missing)";
    }
    EXPECT_FALSE(std::get<TenantRefused>(answer).reason.empty());
    return "(refused)";
}

std::string by_header(std::string name, std::initializer_list<http::Field> fields) {
    return shown(reader_of(of_header(Tenant::From::header, std::move(name))).read(fields_of(fields), "10.0.0.1", {}));
}

bool is_tenant(const std::string& text) {
    return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The examples of docs/formats/tenant.md.
TEST(Tenant, HasTheBytesOfItsPage) {
    EXPECT_EQ(by_header("X-Api-Key", {{"x-api-key", "sk_1"}}), "ed2138797202eda56a891d1474cb0c1b");
    EXPECT_EQ(by_header("Authorization", {{"Authorization", "Bearer sk_1"}}), "dc65eade6c8c7dc90b0106aeda018236");
    const std::string secret = "0123456789abcdef0123456789abcdef";
    Tenant by_token = of_header(Tenant::From::jwt, "X-Token");
    by_token.algorithms = {"HS256"};
    by_token.key = secret;
    const std::string token = hs256_token(secret, R"({"iss":"https://id","sub":"acme"})");
    EXPECT_EQ(shown(reader_of(by_token).read(fields_of({{"X-Token", token}}), "", {})),
              "fcd4a5728bf1250bf574de52f37aeff9");
    Tenant by_peer = of_header(Tenant::From::peer_header, "X-Tenant");
    by_peer.peers = {"::1"};
    EXPECT_EQ(shown(reader_of(by_peer).read(fields_of({{"X-Tenant", "acme"}}), "::1", {})),
              "b7aa9517a53dd2f490290ce6a4ae5530");
    const TenantReader by_certificate = reader_of(of_header(Tenant::From::client_certificate, ""));
    EXPECT_EQ(shown(by_certificate.read({}, "", "CN=acme,O=Acme")), "e1fe4d7e77b67ebe2a39f6793c0fdcc7");
}

TEST(Tenant, OfNobodyIsEmpty) { EXPECT_EQ(shown(reader_of({}).read({}, "10.0.0.1", {})), ""); }

TEST(Tenant, IsTheHashOfTheWholeCredential) {
    const std::string one = by_header("X-Api-Key", {{"X-API-KEY", "a"}});
    EXPECT_EQ(one, by_header("x-api-key", {{"Other", "b"}, {"x-api-key", " a "}}));
    EXPECT_NE(one, by_header("X-Api-Key", {{"X-Api-Key", "A"}}));
    EXPECT_NE(one, by_header("X-Other", {{"X-Other", "a"}}));
    const auto with_another_key = TenantReader::make(of_header(Tenant::From::header, "X-Api-Key"), {9}, clock_at);
    EXPECT_NE(one, shown(with_another_key->read(fields_of({{"X-Api-Key", "a"}}), "", {})));
}

TEST(Tenant, HeaderIsThereExactlyOnce) {
    EXPECT_EQ(by_header("X-Api-Key", {}), "(missing)");
    EXPECT_EQ(by_header("X-Api-Key", {{"X-Api-Key", " "}}), "(missing)");
    EXPECT_EQ(by_header("X-Api-Key", {{"X-Api-Key", "a"}, {"x-api-key", "a"}}), "(refused)");
}

TEST(Tenant, OfAuthorizationIgnoresTheCaseOfTheSchemeOnly) {
    const std::string bearer = by_header("Authorization", {{"authorization", "Bearer Abc"}});
    EXPECT_EQ(bearer, by_header("authorization", {{"Authorization", "bEARER Abc"}}));
    EXPECT_NE(bearer, by_header("Authorization", {{"Authorization", "Bearer abc"}}));
    EXPECT_NE(bearer, by_header("Authorization", {{"Authorization", "Basic Abc"}}));
    EXPECT_NE(by_header("Authorization", {{"Authorization", "Abc"}}),
              by_header("Authorization", {{"Authorization", "abc"}}));
    EXPECT_NE(by_header("X-Api-Key", {{"X-Api-Key", "A b"}}), by_header("X-Api-Key", {{"X-Api-Key", "a b"}}));
}

TEST(Tenant, IsAVerifiedClaim) {
    const std::string secret = "0123456789abcdef0123456789abcdef";
    Tenant tenant = of_header(Tenant::From::jwt, "");
    tenant.algorithms = {"HS256"};
    tenant.key = secret;
    const auto read = [&](std::string_view name, const std::string& value) {
        return shown(reader_of(tenant).read(fields_of({{name, value}}), "10.0.0.1", {}));
    };
    const std::string one = hs256_token(secret, R"({"sub":"acme","exp":1700000001})");
    const std::string renewed = hs256_token(secret, R"({"exp":1700000002,"sub":"acme"})");
    const std::string acme = read("Authorization", "Bearer " + one);
    EXPECT_TRUE(is_tenant(acme));
    EXPECT_EQ(acme, read("authorization", "bearer   " + renewed));
    EXPECT_NE(acme, read("Authorization", "Bearer " + hs256_token(secret, R"({"sub":"other"})")));
    EXPECT_NE(acme, read("Authorization", "Bearer " + hs256_token(secret, R"({"sub":"acme","iss":"x"})")));
    EXPECT_EQ(read("Authorization", "Bearer " + hs256_token("another", R"({"sub":"acme"})")), "(refused)");
    EXPECT_EQ(read("Authorization", "Bearer " + hs256_token(secret, R"({"sub":"acme","exp":1})")), "(refused)");
    EXPECT_EQ(read("Authorization", "Bearer"), "(missing)");
    EXPECT_EQ(read("Authorization", one), "(missing)");
    EXPECT_EQ(read("Authorization", "Basic " + one), "(missing)");
    EXPECT_EQ(read("X-Token", one), "(missing)");
    const auto twice = fields_of({{"Authorization", "Bearer x"}, {"Authorization", "Bearer y"}});
    EXPECT_EQ(shown(reader_of(tenant).read(twice, "", {})), "(refused)");

    tenant.header = "X-Token";
    EXPECT_EQ(read("X-Token", one), acme);
    EXPECT_EQ(read("X-Token", "Bearer " + one), "(refused)");
}

TEST(Tenant, IsTheSubjectOfTheClientsCertificate) {
    const TenantReader reader = reader_of(of_header(Tenant::From::client_certificate, ""));
    const std::string acme = shown(reader.read({}, "10.0.0.1", "CN=acme,O=Acme"));
    EXPECT_TRUE(is_tenant(acme));
    EXPECT_NE(acme, shown(reader.read({}, "10.0.0.1", "CN=other")));
    EXPECT_EQ(shown(reader.read({}, "10.0.0.1", {})), "(missing)");
    EXPECT_EQ(shown(reader.read({}, "10.0.0.1", "")), "(missing)");
}

TEST(Tenant, IsWhatATrustedPeerSays) {
    Tenant tenant = of_header(Tenant::From::peer_header, "X-Tenant");
    tenant.peers = {"10.0.0.0/8", "::1"};
    const TenantReader reader = reader_of(tenant);
    const auto fields = fields_of({{"x-tenant", "acme"}});
    const std::string acme = shown(reader.read(fields, "10.1.2.3", {}));
    EXPECT_TRUE(is_tenant(acme));
    EXPECT_EQ(acme, shown(reader.read(fields, "::1", {})));
    EXPECT_EQ(shown(reader.read(fields, "11.0.0.1", {})), "(missing)");
    EXPECT_EQ(shown(reader.read({}, "10.1.2.3", {})), "(missing)");
    EXPECT_EQ(shown(reader.read(fields_of({{"X-Tenant", ""}}), "10.1.2.3", {})), "(missing)");
    EXPECT_EQ(shown(reader.read(fields_of({{"X_Tenant", "acme"}}), "10.1.2.3", {})), "(missing)");
    EXPECT_EQ(shown(reader.read(fields_of({{"X-Tenant", "a"}, {"X_Tenant", "b"}}), "10.1.2.3", {})), "(refused)");
    EXPECT_EQ(reader.peer_header(), "X-Tenant");
    EXPECT_TRUE(reader.peer_trusted("::ffff:10.0.0.1"));
    EXPECT_TRUE(reader.peer_trusted("::1%lo"));
    EXPECT_FALSE(reader.peer_trusted(""));
    EXPECT_FALSE(reader.peer_trusted("11.0.0.1"));

    const TenantReader other = reader_of(of_header(Tenant::From::header, "X-Tenant"));
    EXPECT_EQ(other.peer_header(), "");
    EXPECT_FALSE(other.peer_trusted("10.1.2.3"));
}

TEST(Tenant, TheSameTextFromAnotherPlaceIsAnotherTenant) {
    Tenant by_peer = of_header(Tenant::From::peer_header, "X-Tenant");
    by_peer.peers = {"10.0.0.1"};
    const auto fields = fields_of({{"X-Tenant", "acme"}});
    const std::string peer = shown(reader_of(by_peer).read(fields, "10.0.0.1", {}));
    const std::string header = by_header("X-Tenant", {{"X-Tenant", "acme"}});
    const std::string certificate =
        shown(reader_of(of_header(Tenant::From::client_certificate, "")).read({}, "", "acme"));
    EXPECT_NE(peer, header);
    EXPECT_NE(peer, certificate);
    EXPECT_NE(header, certificate);
}

TEST(Tenant, BadPeersAreRefusedAtStart) {
    Tenant tenant = of_header(Tenant::From::peer_header, "X-Tenant");
    tenant.peers = {"10.0.0.0/8", "gateway.local"};
    const auto reader = TenantReader::make(tenant, hash_key, clock_at);
    ASSERT_FALSE(reader.ok());
    EXPECT_NE(reader.failure().message.find("gateway.local"), std::string::npos);
}

}  // namespace
}  // namespace semel::gateway
