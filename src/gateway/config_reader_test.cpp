#include "gateway/config_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace semel::gateway {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::map<std::string, std::string> variables{
    {"SECRET", "environment-secret"},
    {"EMPTY", ""},
    {"PORT", "9001"},
    {"LEASE", "45s"},
    {"YES", "true"},
    {"COUNT", "4"},
    {"YAML", "x\nthreads: 9"},
    {"SHORT", "env-short"},
    {"BAD", "env-made nonsense"},
    {"SIZE", "2MiB"},
    {"NUMBER", "123456789"},
    {"QUOTE", "a: [b"},
};

const char* variable(const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
}

ReadConfig read(std::string_view text) { return read_config_text(text, "semel.yaml", variable); }

std::string all(const std::vector<ConfigProblem>& problems) {
    std::string text;
    for (const ConfigProblem& problem : problems) text += problem.text() + "\n";
    return text;
}

/// `text` beside those of the four settings that every file needs which it does not write itself.
struct File {
    std::string text;
    int lines_before = 0;
};
File with_needed(const std::string& text) {
    File file;
    for (const std::string line :
         {"store: sqlite:semel.db", "listen: 127.0.0.1:8080", "upstream: http://127.0.0.1:9000", "tenant: none"}) {
        const std::string name = line.substr(0, line.find(':') + 1);
        if (text.starts_with(name) || text.find("\n" + name) != std::string::npos) continue;
        file.text += line + "\n";
        ++file.lines_before;
    }
    file.text += text + "\n";
    return file;
}

std::string a_route(const std::string& lines) {
    std::string text = "routes:\n  - match: POST /p";
    std::istringstream stream(lines);
    for (std::string line; std::getline(stream, line);) text += "\n    " + line;
    return text;
}

Config config_of(const std::string& text) {
    const ReadConfig found = read(with_needed(text).text);
    EXPECT_TRUE(found.config.has_value()) << text << "\n" << all(found.problems);
    return found.config.value_or(Config{});
}

Route route_of(const std::string& lines) {
    const Config config = config_of(a_route(lines));
    return config.routes.empty() ? Route{} : config.routes[0];
}

JsonPointer pointer(const char* text) { return *JsonPointer::parse(text); }

// ---- what is right -------------------------------------------------------------------------------------------------

TEST(ConfigReader, FourSettingsAreEnough) {
    const Config config = config_of("");
    EXPECT_EQ(config.file, "semel.yaml");
    EXPECT_EQ(config.store, "sqlite:semel.db");
    EXPECT_EQ(config.listen.address.text(), "127.0.0.1:8080");
    ASSERT_EQ(config.upstream.servers.size(), 1U);
    EXPECT_EQ(config.upstream.servers[0].text(), "http://127.0.0.1:9000");
    Config expected;
    expected.file = config.file;
    expected.store = config.store;
    expected.listen = config.listen;
    expected.upstream.servers = config.upstream.servers;
    EXPECT_EQ(config, expected) << "everything else has its default";
}

TEST(ConfigReader, ReadsEverySettingOfTheProcess) {
    const Config config = config_of(R"(store: postgres://semel@db/semel
listen:
  address: "[::1]:8443"
  tls: {certificate: server.pem, key: server.key, client_ca: clients.pem, client_certificate: optional}
admin:
  address: 0.0.0.0:8081
  token: 0123456789abcdef-token
  tls: {certificate: admin.pem, key: admin.key}
upstream:
  servers: ["https://a.example", "https://b.example:8443"]
  tls: {ca: ca.pem, certificate: client.pem, key: client.key, server_name: service.example}
  connect_timeout: 1s
  response_timeout: 2m
  connections_max: 100
  idle_connections_max: 0
  idle_timeout: 10s
  failures_max: 5
  failure_pause: 500ms
tenant: {header: X-Api-Key, secret: 0123456789abcdef-a, previous_secrets: [0123456789abcdef-b]}
mode: observe
correlation: {header: X-Request-Id}
seal:
  key: "0000000000000000000000000000000000000000000000000000000000000000"
  previous_keys: ["ffffffffffffffffffffffffffffffffFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"]
drain: 0s
threads: 3
log: {level: warning, file: semel.log})");
    EXPECT_EQ(config.listen.address.text(), "[::1]:8443");
    EXPECT_EQ(config.listen.tls, (ServerTls{"server.pem", "server.key", "clients.pem", false}));
    ASSERT_TRUE(config.admin.has_value());
    EXPECT_EQ(config.admin->address.text(), "0.0.0.0:8081");
    EXPECT_EQ(config.admin->token, "0123456789abcdef-token");
    EXPECT_EQ(config.admin->tls, (ServerTls{"admin.pem", "admin.key", "", true}));
    Upstream upstream;
    upstream.servers = {{true, "a.example", 443}, {true, "b.example", 8443}};
    upstream.tls = {"ca.pem", "client.pem", "client.key", "service.example"};
    upstream.connect_timeout = seconds{1};
    upstream.response_timeout = minutes{2};
    upstream.connections_max = 100;
    upstream.idle_connections_max = 0;
    upstream.idle_timeout = seconds{10};
    upstream.failures_max = 5;
    upstream.failure_pause = milliseconds{500};
    EXPECT_EQ(config.upstream, upstream);
    EXPECT_EQ(config.tenant.from, Tenant::From::header);
    EXPECT_EQ(config.tenant.header, "X-Api-Key");
    EXPECT_THAT(config.tenant.secrets, ElementsAre("0123456789abcdef-a", "0123456789abcdef-b"));
    EXPECT_EQ(config.mode, Mode::observe);
    EXPECT_EQ(config.correlation_header, "X-Request-Id");
    EXPECT_THAT(config.seal_keys, ElementsAre(std::string(64, '0'), std::string(32, 'f') + std::string(32, 'F')));
    EXPECT_EQ(config.drain, Duration{0});
    EXPECT_EQ(config.threads, 3U);
    EXPECT_EQ(config.log, (Log{Log::Level::warning, "semel.log"}));
}

TEST(ConfigReader, ReadsEveryLimit) {
    const Limits read_limits = config_of(R"(limits:
  head_bytes_max: 64KiB
  target_bytes_max: 4096
  field_bytes_max: 16KiB
  fields_max: 50
  connections_max: 1000
  pass_bytes_max: 2GiB
  waiting_max: 0
  unsettled_max: 10
  unsettled_bytes_max: 1MiB
  hot_bytes_max: 2MiB
  head_timeout: 1s
  body_timeout: 2s
  idle_timeout: 3s
  write_timeout: 4s
  claim_timeout: 5s
  settle_answer: 6s
  settle_timeout: 7s)")
                                   .limits;
    const Limits limits{64 << 10,   4096,       16 << 10,   50,         1000,       std::size_t{2} << 30,
                        0,          10,         1U << 20,   2U << 20,   seconds{1}, seconds{2},
                        seconds{3}, seconds{4}, seconds{5}, seconds{6}, seconds{7}};
    EXPECT_EQ(read_limits, limits);
}

TEST(ConfigReader, ReadsTheLedgerApi) {
    EXPECT_FALSE(config_of("threads: 1").api);
    const Config config = config_of(
        "admin: 127.0.0.1:1\napi:\n  listen: 127.0.0.1:2\n  body_bytes_max: 1MiB\n  timeout: 1s\n  tokens:\n"
        "    - {token: 0123456789abcdef-a, tenant: acme}\n"
        "    - {name: support, token: \"${SECRET}\", tenant: acme, roles: [read, resolve]}");
    ASSERT_TRUE(config.api);
    EXPECT_EQ(config.api->tokens[0], (ApiToken{"acme", "0123456789abcdef-a", "acme", true, false, false}));
    EXPECT_EQ(config.api->tokens[1], (ApiToken{"support", "environment-secret", "acme", false, true, true}));
    EXPECT_EQ(config.api->listen->address.port, 2);
    EXPECT_EQ(config.api->body_bytes_max, 1U << 20);
    EXPECT_EQ(config.api->timeout, seconds{1});
    const auto wrong = [](const std::string& text) { return all(read(with_needed(text).text).problems); };
    const std::string one = "{token: 0123456789abcdef-a, tenant: acme}";
    EXPECT_THAT(wrong("api: {tokens: [" + one + "]}"),
                HasSubstr("it is served on the admin listener, and there is none"));
    EXPECT_THAT(wrong("api: {listen: '127.0.0.1:8080', tokens: [" + one + "]}"), HasSubstr("another listener"));
    EXPECT_THAT(wrong("api: {listen: '127.0.0.1:2', tokens: [" + one + ", " + one + "]}"),
                HasSubstr("api.tokens[1].token: two tokens are the same"));
    EXPECT_THAT(
        wrong("api: {listen: '127.0.0.1:2', tokens: [{token: 0123456789abcdef-a, tenant: a, roles: [hold, hold]}]}"),
        HasSubstr("it is in the list twice"));
}

TEST(ConfigReader, ReadsEveryWayToTellTenants) {
    const Tenant jwt = config_of(R"(tenant:
  jwt: {header: X-Token, claim: org, algorithms: [RS256, ES256], key: issuer.pem, issuer: me, audience: you, leeway: 0s}
  secret: 0123456789abcdef)")
                           .tenant;
    EXPECT_EQ(jwt.from, Tenant::From::jwt);
    EXPECT_EQ(jwt.header, "X-Token");
    EXPECT_EQ(jwt.claim, "org");
    EXPECT_THAT(jwt.algorithms, ElementsAre("RS256", "ES256"));
    EXPECT_EQ(jwt.key, "issuer.pem");
    EXPECT_EQ(jwt.issuer, "me");
    EXPECT_EQ(jwt.audience, "you");
    EXPECT_EQ(jwt.leeway, Duration{0});
    EXPECT_THAT(jwt.secrets, ElementsAre("0123456789abcdef"));

    const Tenant shared = config_of("tenant: {jwt: {algorithms: [HS256], key: '${SECRET}'}}").tenant;
    EXPECT_EQ(shared.header, "Authorization");
    EXPECT_EQ(shared.claim, "sub");
    EXPECT_EQ(shared.key, "environment-secret");

    const Tenant certificate =
        config_of(R"(listen: {address: "127.0.0.1:1", tls: {certificate: a, key: b, client_ca: c}}
tenant: {client_certificate: subject})")
            .tenant;
    EXPECT_EQ(certificate.from, Tenant::From::client_certificate);

    const Tenant peer =
        config_of("tenant: {peer_header: X-Tenant, peers: [10.0.0.0/8, '::1'], secret: 0123456789abcdef}").tenant;
    EXPECT_THAT(peer.secrets, ElementsAre("0123456789abcdef"));
    EXPECT_EQ(peer.from, Tenant::From::peer_header);
    EXPECT_EQ(peer.header, "X-Tenant");
    EXPECT_THAT(peer.peers, ElementsAre("10.0.0.0/8", "::1"));

    EXPECT_EQ(config_of("tenant: none").tenant, Tenant{});
}

TEST(ConfigReader, ReadsEverySettingOfARoute) {
    const Route route = route_of(R"(name: payments
key: optional
key_from: [{header: Idempotency-Key}, {header: PayPal-Request-Id}, {body: /idempotency_key}]
format: uuidv7
generation: 4294967295
fingerprint: {include: [/amount], exclude: [/client_time, /a~1b]}
retention: 30d
response_retention: 1d
lease: 1s
effect_deadline: 0s
on_unknown: retry
dedup_window: 24h
on_busy: {wait: 2s}
on_store_failure: open
natural: true
mode: observe
release_on: [503, 408]
conclusive: [402]
drop_headers: [X-One-Time]
redact: [/client_secret]
keep: status
replay_auth: /authorize
quota: {new_keys_max: 100, window: 5m, open_max: 20}
upstream: ["http://a", "http://b"]
request_bytes_max: 64KiB
response_bytes_max: 1000)");
    EXPECT_EQ(route.mark.text(), "semel.yaml:6");
    EXPECT_EQ(route.name, "payments");
    EXPECT_EQ(route.match.text, "POST /p");
    EXPECT_EQ(route.key, KeyUse::optional);
    ASSERT_EQ(route.key_from.size(), 3U);
    EXPECT_EQ(route.key_from[1].header, "PayPal-Request-Id");
    EXPECT_EQ(route.key_from[2].in, KeySource::In::body);
    EXPECT_EQ(route.key_from[2].pointer, pointer("/idempotency_key"));
    EXPECT_EQ(route.format, KeyFormat::uuidv7);
    EXPECT_EQ(route.generation, 4294967295U);
    EXPECT_FALSE(route.fingerprint.raw);
    EXPECT_THAT(route.fingerprint.parts.include, ElementsAre(pointer("/amount")));
    EXPECT_THAT(route.fingerprint.parts.exclude, ElementsAre(pointer("/client_time"), pointer("/a~1b")));
    EXPECT_EQ(route.policy.retention, (Retention{hours{720}, hours{24}}));
    EXPECT_EQ(route.policy.lease, seconds{1});
    EXPECT_EQ(route.policy.effect_deadline, Duration{0});
    EXPECT_EQ(route.policy.on_unknown, OnUnknown::retry);
    EXPECT_EQ(route.policy.dedup_window, hours{24});
    EXPECT_EQ(route.busy_wait, seconds{2});
    EXPECT_EQ(route.on_store_failure, OnStoreFailure::open);
    EXPECT_TRUE(route.natural);
    EXPECT_EQ(route.mode, Mode::observe);
    EXPECT_THAT(route.release_on, ElementsAre(503, 408));
    EXPECT_THAT(route.conclusive, ElementsAre(402));
    EXPECT_THAT(route.drop_headers, ElementsAre("X-One-Time"));
    EXPECT_THAT(route.redact, ElementsAre(pointer("/client_secret")));
    EXPECT_EQ(route.keep, Keep::status);
    EXPECT_EQ(route.replay_auth, "/authorize");
    EXPECT_EQ(route.quota, (Quota{100, minutes{5}, 20}));
    ASSERT_TRUE(route.upstream.has_value());
    EXPECT_EQ(route.upstream->servers.size(), 2U);
    EXPECT_EQ(route.request_bytes_max, 65536U);
    EXPECT_EQ(route.response_bytes_max, 1000U);
}

TEST(ConfigReader, ARouteThatSaysNothingHasTheDefaults) {
    const Route route = route_of("");
    EXPECT_EQ(route.name, "POST /p");
    EXPECT_EQ(route.policy, Policy{});
    EXPECT_EQ(route.policy.retention, (Retention{std::nullopt, hours{24}}));
    EXPECT_EQ(route.key_from, std::vector<KeySource>{KeySource{}});
    EXPECT_EQ(route.key, KeyUse::required);
}

TEST(ConfigReader, ReadsWebhooks) {
    const Route stripe = route_of(R"(webhook:
  provider: stripe
  id: /id
  type: /type
  signature: {scheme: stripe, secret: "${SECRET}", previous_secrets: [whsec_before], tolerance: 1m})");
    ASSERT_TRUE(stripe.webhook && stripe.webhook->signature);
    EXPECT_EQ(stripe.webhook->provider, "stripe");
    EXPECT_EQ(stripe.webhook->id, pointer("/id"));
    EXPECT_EQ(stripe.webhook->type, pointer("/type"));
    EXPECT_EQ(stripe.webhook->signature->scheme, Signature::Scheme::stripe);
    EXPECT_THAT(stripe.webhook->signature->secrets, ElementsAre("environment-secret", "whsec_before"));
    EXPECT_EQ(stripe.webhook->signature->tolerance, minutes{1});
    ASSERT_EQ(stripe.key_from.size(), 1U);
    EXPECT_EQ(stripe.key_from[0].pointer, pointer("/id"));

    const Route hmac = route_of(R"(webhook:
  provider: shop
  id: /event/id
  signature:
    scheme: hmac
    secret: shop-secret
    header: X-Signature
    prefix: v1=
    encoding: base64
    timestamp_header: X-Timestamp
    payload: "{timestamp}.{body}")");
    ASSERT_TRUE(hmac.webhook && hmac.webhook->signature);
    const Signature& signature = *hmac.webhook->signature;
    EXPECT_EQ(signature.header, "X-Signature");
    EXPECT_EQ(signature.prefix, "v1=");
    EXPECT_EQ(signature.encoding, Signature::Encoding::base64);
    EXPECT_EQ(signature.timestamp_header, "X-Timestamp");
    EXPECT_EQ(signature.payload, "{timestamp}.{body}");
    EXPECT_EQ(signature.tolerance, minutes{5});
    EXPECT_FALSE(route_of("webhook: {provider: x, id: /id}").webhook->signature.has_value());
}

TEST(ConfigReader, TheMethodDecidesAboutTheKeyUnlessTheRouteDoes) {
    struct Row {
        const char* match;
        const char* key;
        const char* method;
        KeyUse use;
    };
    for (const Row& row : std::vector<Row>{{"POST /a", "", "POST", KeyUse::required},
                                           {"PATCH /a", "", "PATCH", KeyUse::required},
                                           {"PUT /a", "", "PUT", KeyUse::ignored},
                                           {"GET /a", "", "GET", KeyUse::ignored},
                                           {"HEAD /a", "", "HEAD", KeyUse::ignored},
                                           {"OPTIONS /a", "", "OPTIONS", KeyUse::ignored},
                                           {"DELETE /a", "", "DELETE", KeyUse::ignored},
                                           {"PURGE /a", "", "PURGE", KeyUse::ignored},
                                           {"PUT /a", "key: required", "PUT", KeyUse::required},
                                           {"DELETE /a", "key: optional", "DELETE", KeyUse::optional},
                                           {"POST /a", "key: ignored", "POST", KeyUse::ignored},
                                           {"* /a", "", "POST", KeyUse::required},
                                           {"* /a", "", "PATCH", KeyUse::required},
                                           {"* /a", "", "GET", KeyUse::ignored},
                                           {"* /a", "key: optional", "GET", KeyUse::optional},
                                           {"PUT /a", "webhook: {provider: x, id: /id}", "PUT", KeyUse::required}}) {
        const Config config = config_of("routes:\n  - match: '" + std::string(row.match) + "'\n    " + row.key);
        ASSERT_EQ(config.routes.size(), 1U);
        EXPECT_EQ(config.routes[0].key_for(row.method), row.use) << row.match << " " << row.key << " " << row.method;
    }
}

TEST(ConfigReader, TheFilesModeIsThatOfRoutesThatSayNone) {
    const Config config = config_of("mode: observe\nroutes: [{match: POST /a}, {match: POST /b, mode: enforce}]");
    EXPECT_EQ(config.routes.at(0).mode, Mode::observe);
    EXPECT_EQ(config.routes.at(1).mode, Mode::enforce);
}

TEST(ConfigReader, DefaultsFollowWhatTheyArePartOf) {
    EXPECT_EQ(route_of("format: uuidv7\nretention: 1h").policy.retention, (Retention{hours{1}, hours{1}}));
    EXPECT_EQ(route_of("response_retention: permanent").policy.retention, (Retention{std::nullopt, std::nullopt}));
    EXPECT_EQ(config_of("upstream: {servers: [http://a], connections_max: 8}").upstream.idle_connections_max, 8U);
}

TEST(ConfigReader, AValueMayComeFromTheEnvironment) {
    const Config config = config_of(R"(upstream: http://127.0.0.1:${PORT}
threads: ${COUNT}
log: {file: "$$${PORT}$$"}
routes:
  - match: POST /p
    name: ${NUMBER}
    lease: ${LEASE}
    natural: ${YES}
    request_bytes_max: ${SIZE}
    release_on: ["${COUNT}03"])");
    EXPECT_EQ(config.upstream.servers.at(0).port, 9001);
    EXPECT_EQ(config.threads, 4U);
    EXPECT_EQ(config.log.file, "$9001$");
    EXPECT_EQ(config.routes.at(0).name, "123456789");
    EXPECT_EQ(config.routes.at(0).policy.lease, seconds{45});
    EXPECT_TRUE(config.routes.at(0).natural);
    EXPECT_EQ(config.routes.at(0).request_bytes_max, 2U << 20);
    EXPECT_THAT(config.routes.at(0).release_on, ElementsAre(403));
}

TEST(ConfigReader, AVariableCannotInjectYaml) {
    EXPECT_EQ(config_of("log: {file: '${QUOTE}'}").log.file, "a: [b");
    EXPECT_EQ(config_of("log:\n  file: ${QUOTE}").log.file, "a: [b");
    const ReadConfig found = read(with_needed("log: {file: '${YAML}'}").text);
    EXPECT_THAT(all(found.problems), HasSubstr("log.file: it has control characters"));
}

// ---- what is wrong -------------------------------------------------------------------------------------------------

struct Bad {
    const char* text;     ///< beside the needed settings
    int line;             ///< of the text
    const char* message;  ///< how the message begins
};

void expect_problem(const std::string& text, int line, const std::string& message) {
    const File file = with_needed(text);
    const ReadConfig found = read(file.text);
    EXPECT_FALSE(found.config.has_value()) << text;
    const std::string beginning = "semel.yaml:" + std::to_string(line + file.lines_before) + ": " + message;
    const bool is_there = std::ranges::any_of(
        found.problems, [&](const ConfigProblem& problem) { return problem.text().starts_with(beginning); });
    EXPECT_TRUE(is_there) << text << "\nwanted: " << beginning << "\n" << all(found.problems);
    EXPECT_EQ(found.problems.size(), 1U) << text << "\n" << all(found.problems);
}

TEST(ConfigReader, SaysWhatIsWrongWithTheProcesssSettings) {
    for (
        const Bad& bad : std::vector<Bad>{
            {"store: mysql://db", 1, "store: found \"mysql://db\"; write sqlite:PATH"},
            {"store: 'sqlite:'", 1, "store: found \"sqlite:\"; write sqlite:PATH"},
            {"store: mysql://me:password-1@db", 1, "store: found a value that is not shown; write sqlite:PATH"},
            {"store: 5", 1, "store: found a value that is not shown; write sqlite:PATH"},
            {"store: [a]", 1, "store: found a list; write sqlite:PATH"},
            {"store:", 1, "store: found nothing; write sqlite:PATH"},
            {"store: ''", 1, "store: found a value that is not shown; write sqlite:PATH"},
            {"listen: 8080", 1, "listen: found 8080; write a numeric address and a port, as in 127.0.0.1:8080"},
            {"listen: example.org:80", 1, "listen: found \"example.org:80\"; write a numeric address"},
            {"listen: {adress: '127.0.0.1:1', address: '127.0.0.1:1'}", 1,
             "listen.adress: unknown name; did you mean address?"},
            {"listen: {tls: {certificate: a, key: b}}", 1, "listen.address: missing; write a numeric address"},
            {"listen:\n  address: 127.0.0.1:1\n  tls:\n    certificate: a", 3,
             "listen.tls.key: missing; write the path"},
            {"listen:\n  address: 127.0.0.1:1\n  tls: true", 3,
             "listen.tls: found true; write a mapping with certificate"},
            {"listen:\n  address: 127.0.0.1:1\n  tls: {certificate: a, key: b, client_certificate: optional}", 3,
             "listen.tls.client_certificate: it is judged by client_ca"},
            {"listen:\n  address: 127.0.0.1:1\n  tls: {certificate: a, key: b, client_ca: c, client_certificate: "
             "maybe}",
             3, "listen.tls.client_certificate: found \"maybe\"; write required or optional"},
            {"admin: 0.0.0.0:8081", 1, "admin: not on loopback"},
            {"admin: {address: '[::]:8081', tls: {certificate: a, key: b}}", 1, "admin: not on loopback"},
            {"admin: {address: '0.0.0.0:1', tls: {certificate: a, key: b, client_ca: c, client_certificate: optional}}",
             1, "admin: not on loopback"},
            {"admin: {address: 127.0.0.1:1, token: short-token}", 1,
             "admin.token: found a value that is not shown; write a secret of at least 16 characters"},
            {"admin: {address: 127.0.0.1:1, token: a token with spaces}", 1,
             "admin.token: found a value that is not shown; write visible ASCII"},
            {"admin: 127.0.0.1:8080", 1, "admin: it is the address of listen; write another port"},
            {"upstream: 127.0.0.1:9000", 1, "upstream: found \"127.0.0.1:9000\"; write http:// or https://"},
            {"upstream: http://a/path", 1, "upstream: found \"http://a/path\"; write http:// or https://"},
            {"upstream: http://me:password-1@a", 1, "upstream: found a value that is not shown; write http://"},
            {"upstream: [http://a, http://a]", 1, "upstream[1]: this server is in the list already"},
            {"upstream: []", 1, "upstream: found an empty list; write a list of one or more URLs"},
            {"upstream: {connect_timeout: 1s}", 1, "upstream.servers: missing; write a list"},
            {"upstream:\n  servers: [http://a]\n  connect_timeout: 0s", 3,
             "upstream.connect_timeout: found \"0s\"; write a duration from 1ms to 10m"},
            {"upstream: {servers: [http://a], tls: {ca: ca.pem}}", 1,
             "upstream.tls: none of the servers is an https:// one"},
            {"upstream: {servers: [https://a], tls: {certificate: a.pem}}", 1,
             "upstream.tls.key: a certificate and its key belong together"},
            {"upstream: {servers: [http://a], connections_max: 10, idle_connections_max: 11}", 1,
             "upstream.idle_connections_max: more than connections_max"},
            {"upstream: {servers: [http://a], failures_max: -1}", 1,
             "upstream.failures_max: found -1; write a whole number from 1 to 1000"},
            {"upstream: http://localhost:8080", 1, "upstream: it is the address of listen"},
            {"tenant: some", 1, "tenant: found \"some\"; write none, or a mapping with header, jwt"},
            {"tenant: {}", 1, "tenant: there is one way to tell tenants"},
            {"tenant: {header: A, peer_header: B, peers: ['::1']}", 1, "tenant: there is one way to tell tenants"},
            {"tenant: {header: 'X Y'}", 1, "tenant.header: found \"X Y\"; write the name of a header"},
            {"tenant: {header: Connection}", 1, "tenant.header: found \"Connection\"; write a header that belongs"},
            {"tenant: {header: semel_token}", 1, "tenant.header: found \"semel_token\"; write another header"},
            {"tenant: {header: A, secret: too-short-secre}", 1,
             "tenant.secret: found a value that is not shown; write a secret of at least 16 characters"},
            {"tenant: {header: A, secret: 12345678901234567890}", 1,
             "tenant.secret: found a value that is not shown; write a secret of at least 16 characters"},
            {"tenant: {header: A, previous_secrets: [0123456789abcdef-a]}", 1,
             "tenant.previous_secrets: there is no secret that replaces them"},
            {"tenant: {header: A, secret: 0123456789abcdef-a, previous_secrets: [0123456789abcdef-a]}", 1,
             "tenant.previous_secrets: one of them is written twice"},
            {"tenant: {client_certificate: subject}", 1, "tenant: client_certificate needs listen.tls.client_ca"},
            {"listen: {address: '127.0.0.1:1', tls: {certificate: a, key: b, client_ca: c}}\n"
             "tenant: {client_certificate: issuer}",
             2, "tenant.client_certificate: found \"issuer\"; write subject"},
            {"tenant: {peer_header: X-Tenant}", 1, "tenant.peers: missing; write who may set the header"},
            {"tenant: {peer_header: X-Tenant, peers: []}", 1, "tenant.peers: found an empty list; write a list"},
            {"tenant: {peer_header: X-Tenant, peers: [10.0.0.1/8]}", 1,
             "tenant.peers[0]: found \"10.0.0.1/8\"; write an address"},
            {"tenant: {peer_header: X-Tenant, peers: ['::1', proxy]}", 1,
             "tenant.peers[1]: found \"proxy\"; write an address"},
            {"tenant: {peer_header: X-Tenant, peers: [0.0.0.0/0]}", 1, "tenant.peers[0]: everybody is in this network"},
            {"tenant: {peer_header: X-Tenant, peers: ['::/0']}", 1, "tenant.peers[0]: everybody is in this network"},
            {"tenant: {header: A, peers: ['::1']}", 1, "tenant.peers: it belongs to peer_header"},
            {"tenant: {jwt: {key: k.pem}}", 1, "tenant.jwt.algorithms: missing; write those that are accepted"},
            {"tenant: {jwt: {algorithms: [none], key: k.pem}}", 1,
             "tenant.jwt.algorithms[0]: found \"none\"; write HS256 or RS256 or ES256"},
            {"tenant: {jwt: {algorithms: [HS256, RS256], key: 0123456789abcdef}}", 1,
             "tenant.jwt.algorithms: HS256 has a shared secret"},
            {"tenant: {jwt: {algorithms: [HS256], key: 0123456789abcde}}", 1,
             "tenant.jwt.key: found a value that is not shown; write a secret of at least 16 characters"},
            {"tenant: {jwt: {algorithms: [RS256]}}", 1, "tenant.jwt.key: missing; write the path of a PEM file"},
            {"tenant: {jwt: RS256}", 1, "tenant.jwt: found \"RS256\"; write a mapping with algorithms and key"},
            {"mode: watch", 1, "mode: found \"watch\"; write enforce or observe"},
            {"correlation: X-Id", 1, "correlation: found \"X-Id\"; write a mapping with header"},
            {"correlation: {header: 'a:b'}", 1, "correlation.header: found \"a:b\"; write the name of a header"},
            {"seal: {}", 1, "seal.key: missing; write 64 hexadecimal digits"},
            {"seal: {key: 0123456789abcdef}", 1,
             "seal.key: found a value that is not shown; write 64 hexadecimal digits"},
            {"drain: 30", 1, "drain: found 30; write a duration from 0s to 1h"},
            {"drain: 2h", 1, "drain: found \"2h\"; write a duration from 0s to 1h"},
            {"threads: 0", 1, "threads: found 0; write a whole number from 1 to 256"},
            {"threads: 2.0", 1, "threads: found 2.0; write a whole number"},
            {"threads: '2'", 1, "threads: found \"2\"; write a whole number from 1 to 256, without quotes"},
            {"limits: 5", 1, "limits: found 5; write a mapping"},
            {"limits:\n  head_byte_max: 5", 2, "limits.head_byte_max: unknown name; did you mean head_bytes_max?"},
            {"limits:\n  head_bytes_max: 64kb", 2,
             "limits.head_bytes_max: found \"64kb\"; write a size from 1KiB to 1MiB"},
            {"limits:\n  head_bytes_max: '4096'", 2, "limits.head_bytes_max: found \"4096\"; write a size"},
            {"limits:\n  head_bytes_max: 99999999999GiB", 2,
             "limits.head_bytes_max: found \"99999999999GiB\"; write a size"},
            {"limits:\n  head_bytes_max: 2KiB\n  target_bytes_max: 4KiB", 3,
             "limits.target_bytes_max: more than head_bytes_max"},
            {"limits:\n  settle_answer: 10s\n  settle_timeout: 5s", 3,
             "limits.settle_timeout: shorter than settle_answer"},
            {"limits:\n  idle_timeout: 0ms", 2, "limits.idle_timeout: found \"0ms\"; write a duration from 1ms to 1d"},
            {"log: {level: debug}", 1, "log.level: found \"debug\"; write error or warning or info"},
            {"log: {file: true}", 1, "log.file: found true; write the path of a file, in quotes"},
            {"routes: {match: POST /a}", 1, "routes: found a mapping; write a list of routes"},
            {"routes: [POST /a]", 1, "routes[0]: found \"POST /a\"; write a mapping with a match"},
            {"hot: redis://127.0.0.1", 1, "hot: unknown name; known here: store, listen, admin"},
            {"\"no\\nname\": 1", 1, "\"no\\x0aname\": unknown name; known here: store"},
        })
        expect_problem(bad.text, bad.line, bad.message);
}

TEST(ConfigReader, SaysWhatIsWrongWithARoute) {
    for (const Bad& bad : std::vector<Bad>{
             {"name: ''", 1, "name: found \"\"; write a name of 1 to 255"},
             {"name: 'a#b'", 1, "name: found \"a#b\"; write a name of 1 to 255"},
             {"name: caf\xc3\xa9", 1, "name: found \"caf\\xc3\\xa9\"; write a name"},
             {"name: 5", 1, "name: found 5; write a name of 1 to 255 printable ASCII characters without #, in quotes"},
             {"key: yes", 1, "key: found \"yes\"; write required or optional or ignored"},
             {"key_from: Idempotency-Key", 1, "key_from: found \"Idempotency-Key\"; write a list of places"},
             {"key_from: []", 1, "key_from: found an empty list; write a list of places"},
             {"key_from:\n  - Idempotency-Key", 2, "key_from[0]: found \"Idempotency-Key\"; write {header: NAME}"},
             {"key_from: [{}]", 1, "key_from[0]: a place is a header or a part of the body"},
             {"key_from: [{header: A, body: /a}]", 1, "key_from[0]: a place is a header or a part of the body"},
             {"key_from: [{header: A}, {header: A}]", 1, "key_from[1]: this place is in the list already"},
             {"key_from: [{header: 'A B'}]", 1, "key_from[0].header: found \"A B\"; write the name of a header"},
             {"key_from: [{body: idempotency_key}]", 1,
              "key_from[0].body: found \"idempotency_key\"; write a JSON pointer"},
             {"key_from: [{body: /a~2}]", 1, "key_from[0].body: found \"/a~2\"; write a JSON pointer"},
             {"key_from: [{body: ''}]", 1, "key_from[0].body: found \"\"; write a JSON pointer to a part"},
             {"format: ulid", 1, "format: found \"ulid\"; write any or uuid or uuidv7"},
             {"generation: -1", 1, "generation: found -1; write a whole number from 0 to 4294967295"},
             {"generation: 4294967296", 1, "generation: found 4294967296; write a whole number"},
             {"fingerprint: body", 1, "fingerprint: found \"body\"; write canonical or raw"},
             {"fingerprint: [/a]", 1, "fingerprint: found a list; write canonical, raw, or a mapping"},
             {"fingerprint: {exclude: /a}", 1, "fingerprint.exclude: found \"/a\"; write a list of JSON pointers"},
             {"fingerprint: {exlude: [/a]}", 1, "fingerprint.exlude: unknown name; did you mean exclude?"},
             {"retention: forever", 1, "retention: found \"forever\"; write permanent, or a duration from 1s"},
             {"retention: 24h", 1, "retention: a late retry would run again"},
             {"retention: 24h\nformat: uuid", 1, "retention: a late retry would run again"},
             {"format: uuidv7\nretention: 1h\nresponse_retention: 2h", 3, "response_retention: longer than retention"},
             {"format: uuidv7\nretention: 1h\nresponse_retention: permanent", 3,
              "response_retention: longer than retention"},
             {"format: uuidv7\nretention: 10s\nlease: 30s", 3, "lease: longer than retention"},
             {"response_retention: 0s", 1, "response_retention: found \"0s\"; write permanent, or a duration from 1s"},
             {"lease: 30", 1, "lease: found 30; write a duration from 1s to 1h"},
             {"lease: 30 s", 1, "lease: found \"30 s\"; write a duration from 1s to 1h"},
             {"lease: 500ms", 1, "lease: found \"500ms\"; write a duration from 1s to 1h"},
             {"lease: 2h", 1, "lease: found \"2h\"; write a duration from 1s to 1h"},
             {"lease: 99999999999999999999h", 1, "lease: found \"99999999999999999999h\"; write a duration"},
             {"lease: [30s]", 1, "lease: found a list; write a duration"},
             {"effect_deadline: 2d", 1, "effect_deadline: found \"2d\"; write a duration from 0s to 1d"},
             {"on_unknown: resume", 1, "on_unknown: resume is for workflows"},
             {"on_unknown: ignore", 1, "on_unknown: found \"ignore\"; write refuse or retry or joined"},
             {"on_unknown: retry", 1, "on_unknown: retry needs dedup_window"},
             {"on_unknown: joined", 1, "on_unknown: joined needs a postgres:// store"},
             {"dedup_window: 24h", 1, "dedup_window: it belongs to on_unknown: retry"},
             {"on_busy: wait", 1, "on_busy: found \"wait\"; write conflict, or {wait: 2s}"},
             {"on_busy: {}", 1, "on_busy.wait: missing; write how long a duplicate waits"},
             {"on_busy: {wait: 0s}", 1, "on_busy.wait: found \"0s\"; write a duration from 1ms to 5m"},
             {"on_store_failure: open", 1, "on_store_failure: open lets doubles through"},
             {"on_store_failure: shut", 1, "on_store_failure: found \"shut\"; write closed or open"},
             {"natural: yes", 1, "natural: found \"yes\"; write true or false"},
             {"natural: 'true'", 1, "natural: found \"true\"; write true or false, without quotes"},
             {"mode: off", 1, "mode: found \"off\"; write enforce or observe"},
             {"release_on: 503", 1, "release_on: found 503; write a list of statuses, as in [503]"},
             {"release_on: [200]", 1, "release_on[0]: found 200; write a whole number from 400 to 599"},
             {"release_on: [503, 503]", 1, "release_on[1]: this status is in the list already"},
             {"conclusive: [ok]", 1, "conclusive[0]: found \"ok\"; write a whole number from 400 to 599"},
             {"release_on: [503]\nconclusive: [503]", 1, "release_on: one of them is in conclusive, too"},
             {"drop_headers: ['X One']", 1, "drop_headers[0]: found \"X One\"; write the name of a header"},
             {"redact: [client_secret]", 1, "redact[0]: found \"client_secret\"; write a JSON pointer"},
             {"keep: headers", 1, "keep: found \"headers\"; write response or status"},
             {"replay_auth: authorize", 1, "replay_auth: found \"authorize\"; write a path at the upstream"},
             {"replay_auth: /a?b", 1, "replay_auth: found \"/a?b\"; write a path at the upstream"},
             {"replay_auth: /a//b", 1, "replay_auth: found \"/a//b\"; write a path at the upstream"},
             {"webhook: stripe", 1, "webhook: found \"stripe\"; write a mapping with provider and id"},
             {"webhook: {id: /id}", 1, "webhook.provider: missing; write the name"},
             {"webhook: {provider: a/b, id: /id}", 1, "webhook.provider: found \"a/b\"; write a name"},
             {"webhook: {provider: ~semel, id: /id}", 1, "webhook.provider: found \"~semel\"; write a name"},
             {"webhook: {provider: a, id: id}", 1, "webhook.id: found \"id\"; write a JSON pointer"},
             {"webhook: {provider: a, id: /id}\nformat: uuid", 2, "format: of a webhook, key and fingerprint are"},
             {"webhook: {provider: a, id: /id}\nkey_from: [{header: A}]", 2,
              "key_from: of a webhook, key and fingerprint"},
             {"webhook: {provider: a, id: /id}\nfingerprint: raw", 2,
              "fingerprint: of a webhook, key and fingerprint are"},
             {"webhook: {provider: a, id: /id}\nrelease_on: [503]", 2, "release_on: of a webhook, 2xx settles"},
             {"webhook: {provider: a, id: /id}\nkey: optional", 2, "key: an event without an id is none"},
             {"webhook: {provider: a, id: /id, signature: {secret: 0123456x}}", 1, "webhook.signature.scheme: missing"},
             {"webhook: {provider: a, id: /id, signature: {scheme: stripe}}", 1, "webhook.signature.secret: missing"},
             {"webhook: {provider: a, id: /id, signature: {scheme: rsa, secret: 0123456x}}", 1,
              "webhook.signature.scheme: found \"rsa\"; write stripe or github or hmac"},
             {"webhook: {provider: a, id: /id, signature: {scheme: github, secret: short}}", 1,
              "webhook.signature.secret: found a value that is not shown; write a secret of at least 8"},
             {"webhook: {provider: a, id: /id, signature: {scheme: github, secret: 0123456x, tolerance: 1m}}", 1,
              "webhook.signature.tolerance: the scheme github has no timestamp"},
             {"webhook: {provider: a, id: /id, signature: {scheme: stripe, secret: 0123456x, header: X}}", 1,
              "webhook.signature.header: the scheme says that already"},
             {"webhook: {provider: a, id: /id, signature: {scheme: hmac, secret: 0123456x}}", 1,
              "webhook.signature.header: missing; write the header"},
             {"webhook: {provider: a, id: /id, signature: {scheme: hmac, secret: 0123456x, header: X, payload: "
              "'{bdy}'}}",
              1, "webhook.signature.payload: found \"{bdy}\"; write a template"},
             {"webhook: {provider: a, id: /id, signature: {scheme: hmac, secret: 0123456x, header: X, "
              "payload: '{timestamp}{body}'}}",
              1, "webhook.signature.payload: it has {timestamp}; write timestamp_header"},
             {"webhook: {provider: a, id: /id, signature: {scheme: hmac, secret: 0123456x, header: X, "
              "timestamp_header: T}}",
              1, "webhook.signature.timestamp_header: the timestamp is not signed"},
             {"webhook: {provider: a, id: /id, signature: {scheme: hmac, secret: 0123456x, header: X, tolerance: 1m}}",
              1, "webhook.signature.tolerance: there is no timestamp"},
             {"quota: 100", 1, "quota: found 100; write a mapping with new_keys_max"},
             {"quota: {new_keys_max: 0}", 1, "quota.new_keys_max: found 0; write a whole number from 1"},
             {"quota: {window: 1m}", 1, "quota.window: it counts for new_keys_max"},
             {"upstream: nowhere", 1, "upstream: found \"nowhere\"; write http:// or https://"},
             {"request_bytes_max: 2GiB", 1, "request_bytes_max: found \"2GiB\"; write a size from 1 to 1GiB"},
             {"response_bytes_max: 65MiB", 1, "response_bytes_max: found \"65MiB\"; write a size from 1 to 64MiB"},
             {"retentoin: 24h", 1, "retentoin: unknown name; did you mean retention?"},
             {"lease: 30s\nlease: 31s", 2, "lease: written twice, first in line 7; keep one of them"},
         })
        expect_problem(a_route(bad.text), bad.line + 2, std::string("routes[0].") + bad.message);
}

TEST(ConfigReader, SaysWhichRoutesDoNotGoTogether) {
    for (const Bad& bad : std::vector<Bad>{
             {"routes:\n  - name: a", 2, "routes[0].match: missing; write METHOD PATH"},
             {"routes:\n  - match: /a", 2, "routes[0].match: found \"/a\": no space between a method and a path"},
             {"routes:\n  - match: post /a", 2, "routes[0].match: found \"post /a\": a method is in capitals"},
             {"routes:\n  - match: POST /a*", 2,
              "routes[0].match: found \"POST /a*\": {name} and * are whole segments"},
             {"routes:\n  - match: GET /a\n    format: uuid", 3,
              "routes[0].format: requests of this method have no key"},
             {"routes:\n  - {match: POST /a, name: x}\n  - {match: POST /b, name: x}", 3,
              "routes[1].name: the route in line 6 has this name"},
             {"routes:\n  - {match: POST /b, name: POST /a}\n  - {match: POST /a}", 3,
              "routes[1].name: the route in line 6 has this name"},
             {"routes:\n  - {match: POST /a/*, name: x}\n  - {match: 'POST /a/{id}', name: y}", 3,
              "routes[1].match: never reached: the route in line 6 takes all of it"},
             {"routes:\n  - match: '* /*'\n  - match: POST /a", 3, "routes[1].match: never reached"},
             {"tenant: {header: X-Key}\nroutes:\n  - match: POST /a\n    key_from: [{header: x-key}]", 4,
              "routes[0].key_from: the header that tells the tenant cannot be the key"},
         })
        expect_problem(bad.text, bad.line, bad.message);
    config_of("routes:\n  - {match: POST /a, name: x}\n  - {match: POST /b, name: x, generation: 1}");
    config_of("routes: []");
}

TEST(ConfigReader, AMatchTooLongForANameNeedsOne) {
    const std::string path(300, 'a');
    expect_problem("routes:\n  - match: POST /" + path, 2, "routes[0].name: missing, and the match is too long");
    config_of("routes:\n  - name: long\n    match: POST /" + path);
}

TEST(ConfigReader, SaysWhatIsWrongWithVariables) {
    for (const Bad& bad : std::vector<Bad>{
             {"threads: ${ABSENT}", 1, "threads: the environment has no variable ABSENT"},
             {"log:\n  file: a ${ABSENT} b", 2, "log.file: the environment has no variable ABSENT"},
             {"log: {file: $HOME}", 1, "log.file: a $ stands alone; write ${NAME}"},
             {"log: {file: '${'}", 1, "log.file: a $ stands alone"},
             {"log: {file: '${}'}", 1, "log.file: a $ stands alone"},
             {"log: {file: '${1A}'}", 1, "log.file: a $ stands alone"},
             {"log: {file: '${A-B}'}", 1, "log.file: a $ stands alone"},
             {"log: {file: 'a$'}", 1, "log.file: a $ stands alone"},
             {"log: {file: '${EMPTY}'}", 1, "log.file: found what ${EMPTY} holds; write the path of a file"},
             {"threads: ${BAD}", 1, "threads: found what ${BAD} holds; write a whole number from 1 to 256"},
             {"drain: ${BAD}", 1, "drain: found what ${BAD} holds; write a duration"},
             {"mode: ${BAD}", 1, "mode: found what ${BAD} holds; write enforce or observe"},
             {"tenant: {header: A, secret: '${SHORT}'}", 1, "tenant.secret: found what ${SHORT} holds; write a secret"},
             {"routes:\n  - match: ${BAD}", 2, "routes[0].match: found what ${BAD} holds: a method is in capitals"},
         })
        expect_problem(bad.text, bad.line, bad.message);
}

TEST(ConfigReader, NeverShowsWhatCameFromTheEnvironmentOrIsASecret) {
    const ReadConfig found = read(R"(store: ${BAD}
listen: ${BAD}
admin: {address: "${BAD}", token: hush-token}
upstream: [http://hush@a, "${BAD}"]
tenant: {jwt: {algorithms: ["${BAD}"], key: hush}, secret: hush-secret, previous_secrets: [hush-hush]}
correlation: {header: "${BAD}"}
seal: {key: hush-key, previous_keys: [hush-old-key]}
drain: ${BAD}
threads: ${BAD}
limits: {head_bytes_max: "${BAD}", head_timeout: "${BAD}"}
log: {level: "${BAD}", file: "${YAML}"}
routes:
  - match: POST /a
    name: "${YAML}"
    key: ${BAD}
    key_from: [{header: "${BAD}"}, {body: "${BAD}"}]
    retention: ${BAD}
    on_busy: ${BAD}
    natural: ${BAD}
    release_on: ["${BAD}"]
    replay_auth: ${BAD}
    webhook: {provider: "${BAD}", id: "${BAD}", signature: {scheme: "${BAD}", secret: hush, payload: "${BAD}"}}
)");
    EXPECT_FALSE(found.config.has_value());
    EXPECT_GT(found.problems.size(), 25U);
    EXPECT_THAT(all(found.problems), Not(HasSubstr("hush")));
    EXPECT_THAT(all(found.problems), Not(HasSubstr("nonsense")));
    EXPECT_THAT(all(found.problems), Not(HasSubstr("threads: 9")));
}

TEST(ConfigReader, SaysWhatIsWrongWithTheFile) {
    struct Row {
        std::string text;
        const char* problem;
    };
    const std::string deep = std::string(17, '[') + std::string(17, ']');
    std::string many = "routes: [";
    for (std::size_t i = 0; i < yaml_nodes_max; ++i) many += "1,";
    for (const Row& row : std::vector<Row>{
             {"", "semel.yaml: the file is empty"},
             {"# nothing\n\n", "semel.yaml: the file is empty"},
             {"---\n", "semel.yaml:2: the file: found nothing; write settings by their names"},
             {"just text", "semel.yaml:1: the file: found \"just text\"; write settings by their names"},
             {"- store: a", "semel.yaml:1: the file: found a list; write settings by their names"},
             {"store: a\nlisten: [b\n", "semel.yaml:3: not well-formed YAML: "},
             {"store: a\n  listen: b\n", "semel.yaml:2: not well-formed YAML: "},
             {"store: \"a\n", "semel.yaml:1: not well-formed YAML: a quote is not closed"},
             {"store: 'it''s \n", "semel.yaml:1: not well-formed YAML: a quote is not closed"},
             {"store: \"a\\\"\n", "semel.yaml:1: not well-formed YAML: a quote is not closed"},
             {"store: \"a", "semel.yaml:1: not well-formed YAML: "},
             {"store: a\n\tlisten: b\n", "semel.yaml:"},
             {"store: a\n---\nstore: b\n", "semel.yaml:"},
             {"store: &a x\nlisten: *a\n", "semel.yaml:1: anchors (&) and aliases (*) are not read here"},
             {"store: *a\n", "semel.yaml:1: "},
             {"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "semel.yaml:1: anchors (&) and aliases (*)"},
             {"store: !!str 5\n", "semel.yaml:1: tags like \"tag:yaml.org,2002:str\" are not read here"},
             {"store: a\n? [x]\n: y\n", "semel.yaml:2: a list or a mapping cannot be a name"},
             {"store: a\n: y\n", "semel.yaml:2: "},
             {std::string(200, 'n') + ": 1\n", "semel.yaml:1: \"nnnnnnnn"},
             {"store: a\nroutes: " + deep, "semel.yaml:2: nested more than 16 deep"},
             {"store: a\nroutes: " + std::string(200'000, '['), "semel.yaml:2: "},
             {"store: a\nroutes: " + std::string(200'000, '{'), "semel.yaml:2: "},
             {many, "semel.yaml:1: more than 100000 values in one file"},
             {"store: a\nlisten: \x04\n", "semel.yaml:2: control character \"\\x04\""},
             {std::string("store: a\0b", 10), "semel.yaml:1: control character \"\\x00\""},
             {"store: a\nlisten: \xff\n", "semel.yaml:2: not UTF-8"},
             {"\xff\xfes\0t\0", "semel.yaml:"},
             {"#" + std::string(yaml_bytes_max, 'x'), "semel.yaml: the file has more than 1048576 bytes"},
         }) {
        const ReadConfig found = read(row.text);
        EXPECT_FALSE(found.config.has_value());
        ASSERT_EQ(found.problems.size(), 1U) << row.problem << "\n"
                                             << row.text.substr(0, 100) << "\n"
                                             << all(found.problems);
        EXPECT_THAT(found.problems[0].text(), testing::StartsWith(row.problem)) << row.text.substr(0, 100);
    }
}

TEST(ConfigReader, ListsEveryProblemInTheOrderOfLines) {
    const ReadConfig found = read("listen: x\nupstream: y\nlog: {level: z}\nthreads: 0\nwhat: ever\n");
    std::vector<int> lines;
    for (const ConfigProblem& problem : found.problems) lines.push_back(problem.mark.line);
    EXPECT_THAT(lines, ElementsAre(1, 1, 1, 2, 3, 4, 5)) << all(found.problems);
    EXPECT_THAT(all(found.problems), HasSubstr("semel.yaml:1: store: missing; write where operations are kept"));
    EXPECT_THAT(all(found.problems), HasSubstr("semel.yaml:1: tenant: missing; write how to tell whose request it is"));
}

TEST(ConfigReader, CountsProblemsBeyondTheHundredth) {
    std::string text;
    for (int i = 0; i < 150; ++i) text += "x" + std::to_string(i) + ": 1\n";
    const ReadConfig found = read(with_needed(text).text);
    ASSERT_EQ(found.problems.size(), Problems::count_max + 1);
    EXPECT_EQ(found.problems.back().text(), "semel.yaml: and 50 problems more");
}

TEST(ConfigReader, ReadsAFile) {
    const auto path = std::filesystem::path(testing::TempDir()) / "semel-config-reader-test.yaml";
    std::ofstream(path) << with_needed("").text;
    EXPECT_TRUE(read_config(path.string()).config.has_value());
    std::filesystem::remove(path);
    const ReadConfig absent = read_config(path.string());
    EXPECT_EQ(all(absent.problems), path.string() + ": cannot be opened: No such file or directory\n");
    const ReadConfig folder = read_config(testing::TempDir());
    EXPECT_EQ(folder.problems.size(), 1U);
    EXPECT_THAT(all(folder.problems), HasSubstr("cannot be read; name a file, not a folder"));
}

TEST(ConfigReader, EveryKindOfMappingHasItsNamesOnce) {
    std::set<std::string_view> kinds;
    for (const Shape& shape : config_shapes()) {
        EXPECT_TRUE(kinds.insert(shape.kind).second) << shape.kind;
        const std::set<std::string_view> names(shape.names.begin(), shape.names.end());
        EXPECT_EQ(names.size(), shape.names.size()) << shape.kind;
    }
}

}  // namespace
}  // namespace semel::gateway
