#include "gateway/config_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "gateway/networks.hpp"
#include "gateway/route_reader.hpp"
#include "gateway/setting_values.hpp"
#include "gateway/shapes.hpp"
#include "http/chars.hpp"
#include "settings/listeners.hpp"
#include "settings/values.hpp"

namespace semel::gateway {
namespace {

using Word = std::string_view;

constexpr std::size_t seal_key_digits = 64;
constexpr std::size_t threads_max = 256;

// ---- where it listens ----------------------------------------------------------------------------------------------

std::optional<Listen> read_listen(const Setting& setting) {
    Listen listen;
    if (!setting.is_mapping()) {
        const auto address = read_address(setting);
        if (!address) return std::nullopt;
        listen.address = *address;
        return listen;
    }
    const auto in = setting.mapping(listen_shape, "");
    static_cast<void>(in->required("address", address_right));
    fill(*in, "address", listen.address, read_address);
    fill(*in, "tls", listen.tls, read_server_tls);
    return listen;
}

// ---- tenants -------------------------------------------------------------------------------------------------------

constexpr std::array<Word, 4> tenant_ways{"header", "jwt", "client_certificate", "peer_header"};

std::vector<std::string> read_algorithms(const Setting& setting) {
    constexpr std::array<Word, 3> known{"HS256", "RS256", "ES256"};
    std::vector<std::string> algorithms;
    for (const Setting& item : setting.some_items("a list of HS256, RS256 or ES256"))
        if (const auto found = item.word(known)) algorithms.emplace_back(known[*found]);
    return algorithms;
}

void read_jwt(const Setting& setting, Tenant& tenant) {
    const auto in = setting.mapping(jwt_shape, "a mapping with algorithms and key");
    if (!in) return;
    tenant.header = "Authorization";
    fill(*in, "header", tenant.header, read_request_header);
    fill(*in, "claim", tenant.claim, text_of("the name of a claim, as in sub"));
    fill(*in, "issuer", tenant.issuer, text_of("the issuer that tokens have to name"));
    fill(*in, "audience", tenant.audience, text_of("the audience that tokens have to name"));
    fill(*in, "leeway", tenant.leeway, duration_between(Duration{0}, minutes{10}));
    if (const auto algorithms = in->required("algorithms", "those that are accepted, as in [RS256]"))
        tenant.algorithms = read_algorithms(*algorithms);
    refuse_twice(*in, "algorithms", tenant.algorithms);
    const bool shared = std::ranges::find(tenant.algorithms, "HS256") != tenant.algorithms.end();
    if (shared && std::ranges::any_of(tenant.algorithms, [](const std::string& name) { return name != "HS256"; }))
        in->refuse("algorithms", "HS256 has a shared secret for a key, the others a public one; write one kind");
    const auto key = in->required("key", shared ? "the shared secret, best as ${NAME}" : pem_right);
    if (!key) return;
    // A secret might be here although the algorithms do not say so.
    const auto text = shared ? read_secret(*key, secret_bytes_min) : key->hidden().text(pem_right);
    if (text) tenant.key = *text;
}

/// Only a network without a prefix holds addresses that differ in their first bit.
bool holds_everyone(const Networks& network) {
    return (network.contain("1.0.0.1") && network.contain("129.0.0.1")) ||
           (network.contain("1::1") && network.contain("8000::1"));
}

std::vector<std::string> read_peers(const Setting& setting) {
    constexpr Word right = "an address or a network, as in 127.0.0.1 or 10.0.0.0/8 (no bits behind the prefix)";
    std::vector<std::string> peers;
    for (const Setting& item : setting.some_items("a list of addresses or networks, as in [10.0.0.0/8]")) {
        const auto text = item.text(right);
        if (!text) continue;
        const auto network = Networks::parse({*text});
        if (!network) item.expected(right);
        if (network && holds_everyone(*network))
            item.refuse(
                "everybody is in this network, so anybody could name any tenant; write that of your own proxies");
        peers.push_back(*text);
    }
    return peers;
}

void read_peer_header(const Mapping& in, Tenant& tenant) {
    fill(in, "peer_header", tenant.header, read_request_header);
    if (const auto peers = in.required("peers", "who may set the header: a list of addresses or networks"))
        tenant.peers = read_peers(*peers);
}

void read_client_certificate(const Mapping& in) {
    constexpr std::array<Word, 1> subject{"subject"};
    if (const auto part = in.find("client_certificate")) static_cast<void>(part->word(subject));
}

std::optional<Tenant> read_tenant(const Setting& setting) {
    if (setting.is("none")) return Tenant{};
    const auto in =
        setting.mapping(tenant_shape, "none, or a mapping with header, jwt, client_certificate or peer_header");
    if (!in) return std::nullopt;
    if (std::ranges::count_if(tenant_ways, [&](Word name) { return in->has(name); }) != 1) {
        setting.refuse(
            "there is one way to tell tenants; write one of header, jwt, client_certificate and peer_header");
        return std::nullopt;
    }
    Tenant tenant;
    fill(*in, "header", tenant.header, read_request_header);
    if (in->has("header")) tenant.from = Tenant::From::header;
    if (const auto jwt = in->find("jwt")) {
        tenant.from = Tenant::From::jwt;
        read_jwt(*jwt, tenant);
    } else if (in->has("client_certificate")) {
        tenant.from = Tenant::From::client_certificate;
        read_client_certificate(*in);
    } else if (in->has("peer_header")) {
        tenant.from = Tenant::From::peer_header;
        read_peer_header(*in, tenant);
    }
    if (in->has("peers") && !in->has("peer_header")) in->refuse("peers", "it belongs to peer_header; leave it out");
    tenant.secrets = read_secrets(*in, secret_bytes_min);
    return tenant;
}

// ---- the Ledger API ------------------------------------------------------------------------------------------------

/// A tenant of its own: not nobody's, where consumers and `tenant: none` keep theirs, and not the gateway's own.
std::optional<std::string> read_api_tenant(const Setting& setting) {
    constexpr Word right = "a tenant of 1 to 255 visible characters without / # and ~, as in acme";
    auto tenant = setting.text(right);
    if (!tenant || (Scope::make(*tenant, "x") && tenant->find('~') == std::string::npos)) return tenant;
    setting.expected(right);
    return std::nullopt;
}

void read_roles(const Setting& setting, ApiToken& token) {
    constexpr std::array<Word, 3> known{"hold", "read", "resolve"};
    for (const Setting& item : setting.some_items("a list of hold, read and resolve, as in [hold]")) {
        const auto found = item.word(known);
        if (!found) continue;
        bool& role = *found == 0 ? token.hold : *found == 1 ? token.read : token.resolve;
        if (role) item.refuse("it is in the list twice");
        role = true;
    }
}

ApiToken read_api_token(const Mapping& in) {
    ApiToken token;
    static_cast<void>(in.required("token", "the credential, best as ${NAME}"));
    static_cast<void>(in.required("tenant", "whose operations it may name, as in acme"));
    fill(in, "token", token.token, read_token);
    fill(in, "tenant", token.tenant, read_api_tenant);
    token.name = token.tenant;
    fill(in, "name", token.name, text_of("who it is, as in orders"));
    token.hold = !in.has("roles");
    if (const auto roles = in.find("roles")) read_roles(*roles, token);
    return token;
}

std::optional<std::optional<Api>> read_api(const Setting& setting) {
    const auto in = setting.mapping(api_shape, "a mapping with tokens");
    if (!in) return std::nullopt;
    Api api;
    std::set<std::string> seen;
    if (const auto tokens = in->required("tokens", "a list of tokens, each with token and tenant"))
        for (const Setting& item : tokens->some_items("a list of tokens, each with token and tenant")) {
            const auto each = item.mapping(api_token_shape, "a mapping with token and tenant");
            if (!each) continue;
            api.tokens.push_back(read_api_token(*each));
            const std::string& token = api.tokens.back().token;
            if (!token.empty() && !seen.insert(token).second)
                each->refuse("token", "two tokens are the same; one could not tell whose it is");
        }
    fill(*in, "listen", api.listen, read_listen);
    fill(*in, "body_bytes_max", api.body_bytes_max, bytes_between(1024, 64U << 20));
    fill(*in, "timeout", api.timeout, duration_between(milliseconds{1}, minutes{1}));
    return api;
}

// ---- the rest ------------------------------------------------------------------------------------------------------

std::optional<std::string> read_correlation(const Setting& setting) {
    std::string header = Config{}.correlation_header;
    const auto in = setting.mapping(correlation_shape, "a mapping with header");
    if (!in) return std::nullopt;
    fill(*in, "header", header, read_request_header);
    return header;
}

std::optional<std::vector<std::string>> read_seal(const Setting& setting) {
    const auto in = setting.mapping(seal_shape, "a mapping with key");
    if (!in) return std::nullopt;
    std::vector<std::string> keys;
    const auto add = [&](const Setting& written) {
        const std::string right = fmt::format("{} hexadecimal digits (32 bytes), best as ${{NAME}}", seal_key_digits);
        const auto key = written.hidden().text(right);
        if (!key) return;
        if (key->size() == seal_key_digits && http::all_of(*key, http::hex_char)) return keys.push_back(*key);
        written.hidden().expected(right);
    };
    if (const auto key = in->required("key", "64 hexadecimal digits, best as ${NAME}")) add(*key);
    if (const auto previous = in->find("previous_keys"))
        for (const Setting& item : previous->hidden().items("a list of keys")) add(item);
    refuse_twice(*in, "previous_keys", keys);
    return keys;
}

std::optional<Limits> read_limits(const Setting& setting) {
    const auto in = setting.mapping(limits_shape, "a mapping");
    if (!in) return std::nullopt;
    constexpr std::size_t mib = 1U << 20;
    constexpr Duration least = milliseconds{1};
    Limits limits;
    fill(*in, "head_bytes_max", limits.head_bytes_max, bytes_between(1024, mib));
    fill(*in, "target_bytes_max", limits.target_bytes_max, bytes_between(256, mib));
    fill(*in, "field_bytes_max", limits.field_bytes_max, bytes_between(256, mib));
    fill(*in, "fields_max", limits.fields_max, whole_between(8, 10'000));
    fill(*in, "connections_max", limits.connections_max, whole_between(1, 1'000'000));
    fill(*in, "pass_bytes_max", limits.pass_bytes_max, bytes_between(1, std::size_t{1} << 40));
    fill(*in, "waiting_max", limits.waiting_max, whole_between(0, 1'000'000));
    fill(*in, "unsettled_max", limits.unsettled_max, whole_between(1, 1'000'000));
    fill(*in, "unsettled_bytes_max", limits.unsettled_bytes_max, bytes_between(mib, std::size_t{1} << 36));
    fill(*in, "hot_bytes_max", limits.hot_bytes_max, bytes_between(0, std::size_t{1} << 36));
    fill(*in, "head_timeout", limits.head_timeout, duration_between(least, hours{1}));
    fill(*in, "body_timeout", limits.body_timeout, duration_between(least, hours{1}));
    fill(*in, "idle_timeout", limits.idle_timeout, duration_between(least, hours{24}));
    fill(*in, "write_timeout", limits.write_timeout, duration_between(least, hours{1}));
    fill(*in, "claim_timeout", limits.claim_timeout, duration_between(least, minutes{1}));
    fill(*in, "settle_answer", limits.settle_answer, duration_between(least, minutes{1}));
    fill(*in, "settle_timeout", limits.settle_timeout, duration_between(least, hours{24}));
    if (in->has("target_bytes_max") && limits.target_bytes_max > limits.head_bytes_max)
        in->refuse("target_bytes_max", "more than head_bytes_max, of which it is a part");
    if (in->has("field_bytes_max") && limits.field_bytes_max > limits.head_bytes_max)
        in->refuse("field_bytes_max", "more than head_bytes_max, of which it is a part");
    if (limits.settle_timeout < limits.settle_answer)
        in->refuse("settle_timeout", "shorter than settle_answer; settling goes on after the client has its answer");
    return limits;
}

std::optional<Log> read_log(const Setting& setting) {
    const auto in = setting.mapping(log_shape, "a mapping with level or file");
    if (!in) return std::nullopt;
    constexpr std::array<std::pair<Word, Log::Level>, 3> levels{
        {{"error", Log::Level::error}, {"warning", Log::Level::warning}, {"info", Log::Level::info}}};
    Log log;
    fill(*in, "level", log.level, word_of(levels));
    fill(*in, "file", log.file, text_of("the path of a file"));
    return log;
}

// ---- what has to fit together --------------------------------------------------------------------------------------

void check_listeners(const Mapping& in, const Config& config) {
    const Address& listen = config.listen.address;
    if (config.admin && listen.port != 0 && config.admin->address == listen)
        in.refuse("admin", "it is the address of listen; write another port");
    if (config.api && !config.api->listen && !config.admin)
        in.refuse("api", "it is served on the admin listener, and there is none; write admin, or api.listen");
    if (config.api && config.api->listen && config.api->listen->address.port != 0) {
        const Address& own = config.api->listen->address;
        if (own == listen || (config.admin && own == config.admin->address))
            in.refuse("api", "api.listen is the address of another listener; write another port");
    }
    if (config.api && config.admin && !config.admin->token.empty())
        for (const ApiToken& each : config.api->tokens)
            if (each.token == config.admin->token)
                in.refuse("api",
                          "one of its tokens is admin.token; write another, so that each gives its own rights only");
    const auto is_own = [&](const UpstreamServer& server) {
        const std::string host = server.host == "localhost" ? "127.0.0.1" : server.host;
        return !listen.host.empty() && host == listen.host && server.port == listen.port;
    };
    if (std::ranges::any_of(config.upstream.servers, is_own))
        in.refuse("upstream", "it is the address of listen: the gateway would call itself");
    if (config.tenant.from == Tenant::From::client_certificate &&
        !(config.listen.tls && !config.listen.tls->client_ca.empty()))
        in.refuse("tenant", "client_certificate needs listen.tls.client_ca, by which certificates are judged");
}

Config read_all(const Mapping& in, const std::string& file) {
    Config config;
    config.file = file;
    for (const auto& [name, right] :
         {std::pair<Word, Word>{"store", "where operations are kept, as in sqlite:semel.db"},
          {"listen", "where clients connect, as in 127.0.0.1:8080"},
          {"upstream", "the service behind the gateway, as in http://127.0.0.1:9000"},
          {"tenant", "how to tell whose request it is, as in {header: Authorization}, or none"}})
        static_cast<void>(in.required(name, right));
    fill(in, "store", config.store, read_store);
    fill(in, "listen", config.listen, read_listen);
    fill(in, "admin", config.admin, read_admin);
    fill(in, "api", config.api, read_api);
    fill(in, "upstream", config.upstream, read_upstream);
    fill(in, "tenant", config.tenant, read_tenant);
    constexpr std::array<std::pair<Word, Mode>, 2> modes{{{"enforce", Mode::enforce}, {"observe", Mode::observe}}};
    fill(in, "mode", config.mode, word_of(modes));
    fill(in, "correlation", config.correlation_header, read_correlation);
    fill(in, "seal", config.seal_keys, read_seal);
    fill(in, "drain", config.drain, duration_between(Duration{0}, hours{1}));
    fill(in, "threads", config.threads, whole_between(1, threads_max));
    fill(in, "limits", config.limits, read_limits);
    fill(in, "log", config.log, read_log);
    check_listeners(in, config);
    if (const auto routes = in.find("routes")) config.routes = read_routes(*routes, config);
    return config;
}

}  // namespace

ReadConfig read_config_text(std::string_view text, const std::string& file, const Environment& environment) {
    YamlParsed parsed = parse_yaml(text);
    if (!parsed.root) return {.problems = {{{file, parsed.fault.line}, parsed.fault.message}}};
    Problems problems(file);
    prepare(*parsed.root, environment, problems);
    std::optional<Config> config;
    const Setting root(*parsed.root, "", problems);
    if (const auto in = root.mapping(config_shape, "settings by their names, as in store: sqlite:semel.db"))
        config = read_all(*in, file);
    if (!problems.empty()) return {.problems = problems.take()};
    return {.config = std::move(config)};
}

ReadConfig read_config(const std::string& path) {
    const auto text = read_settings_file(path);
    if (!text) return {.problems = {{{path, 0}, text.failure().message}}};
    return read_config_text(*text, path, [](const std::string& name) { return std::getenv(name.c_str()); });
}

std::vector<Shape> config_shapes() {
    return {config_shape,   listen_shape,     admin_shape,  api_shape,        api_token_shape,   server_tls_shape,
            upstream_shape, client_tls_shape, tenant_shape, jwt_shape,        correlation_shape, seal_shape,
            limits_shape,   log_shape,        route_shape,  key_source_shape, fingerprint_shape, on_busy_shape,
            webhook_shape,  signature_shape,  quota_shape};
}

}  // namespace semel::gateway
