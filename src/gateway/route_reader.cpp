#include "gateway/route_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "gateway/route_match.hpp"
#include "gateway/setting_values.hpp"
#include "gateway/shapes.hpp"
#include "http/chars.hpp"
#include "http/fields.hpp"
#include "http/target.hpp"
#include "settings/values.hpp"

namespace semel::gateway {
namespace {

using Word = std::string_view;
template <class Value, std::size_t count>
using Words = std::array<std::pair<Word, Value>, count>;

constexpr Words<KeyUse, 3> key_uses{
    {{"required", KeyUse::required}, {"optional", KeyUse::optional}, {"ignored", KeyUse::ignored}}};
constexpr Words<KeyFormat, 3> key_formats{
    {{"any", KeyFormat::any}, {"uuid", KeyFormat::uuid}, {"uuidv7", KeyFormat::uuidv7}}};
constexpr Words<Mode, 2> modes{{{"enforce", Mode::enforce}, {"observe", Mode::observe}}};
constexpr Words<OnStoreFailure, 2> store_failures{{{"closed", OnStoreFailure::closed}, {"open", OnStoreFailure::open}}};
constexpr Words<Keep, 2> keeps{{{"response", Keep::response}, {"status", Keep::status}}};
constexpr Words<bool, 2> fingerprints{{{"canonical", false}, {"raw", true}}};
constexpr Words<Signature::Scheme, 3> schemes{
    {{"stripe", Signature::Scheme::stripe}, {"github", Signature::Scheme::github}, {"hmac", Signature::Scheme::hmac}}};
constexpr Words<Signature::Encoding, 2> encodings{
    {{"hex", Signature::Encoding::hex}, {"base64", Signature::Encoding::base64}}};

constexpr Duration lease_min = seconds{1};
constexpr Duration lease_max = hours{1};
constexpr Duration effect_deadline_max = hours{24};
constexpr Duration span_min = seconds{1};
constexpr Duration span_max = hours{24 * 366 * 100};
constexpr Duration busy_wait_max = minutes{5};
constexpr std::size_t request_bytes_most = 1U << 30;
constexpr std::size_t response_bytes_most = 64U << 20;  ///< of an outcome in the ledger
constexpr std::size_t routes_max = 10'000;

// ---- pieces --------------------------------------------------------------------------------------------------------

std::optional<Match> read_match(const Setting& setting) {
    const auto text = setting.text("METHOD PATH, as in POST /v1/payments/{id}");
    if (!text) return std::nullopt;
    auto match = parse_match(*text);
    if (match) return std::move(*match);
    setting.refuse(fmt::format("found {}: {}", setting.shown(), match.failure().message));
    return std::nullopt;
}

std::optional<std::string> read_name(const Setting& setting) {
    constexpr Word right = "a name of 1 to 255 printable ASCII characters without #";
    auto name = setting.text(right);
    if (!name || Scope::make("", *name)) return name;
    setting.expected(right);
    return std::nullopt;
}

std::optional<std::vector<KeySource>> read_key_from(const Setting& setting) {
    std::vector<KeySource> sources;
    for (const Setting& item : setting.some_items("a list of places, as in [{header: Idempotency-Key}]")) {
        const auto in = item.mapping(key_source_shape, "{header: NAME} or {body: /POINTER}");
        if (!in) continue;
        if (in->has("header") == in->has("body")) {
            item.refuse("a place is a header or a part of the body; write {header: NAME} or {body: /POINTER}");
            continue;
        }
        KeySource source;
        fill(*in, "header", source.header, read_request_header);
        if (const auto body = in->find("body")) {
            source.in = KeySource::In::body;
            source.header.clear();
            source.pointer = read_pointer(*body);
        }
        if (std::ranges::find(sources, source) != sources.end()) item.refuse("this place is in the list already");
        sources.push_back(std::move(source));
    }
    return sources;
}

std::optional<FingerprintOptions> read_fingerprint(const Setting& setting) {
    FingerprintOptions options;
    if (setting.is_mapping()) {
        const auto in = setting.mapping(fingerprint_shape, "");
        if (const auto include = in->find("include")) options.parts.include = read_pointers(*include);
        if (const auto exclude = in->find("exclude")) options.parts.exclude = read_pointers(*exclude);
        return options;
    }
    if (!setting.is_scalar()) {
        setting.expected("canonical, raw, or a mapping with include or exclude");
        return std::nullopt;
    }
    const auto raw = word_of(fingerprints)(setting);
    if (!raw) return std::nullopt;
    options.raw = *raw;
    return options;
}

/// A duration, or `permanent`: an empty one.
std::optional<std::optional<Duration>> read_span(const Setting& setting) {
    if (setting.is("permanent")) return std::optional<Duration>{};
    if (const auto span = setting.duration(span_min, span_max, "permanent, or ")) return std::optional<Duration>{*span};
    return std::nullopt;
}

std::optional<OnUnknown> read_on_unknown(const Setting& setting) {
    if (setting.is("resume")) {
        setting.refuse("resume is for workflows, whose steps are operations; write refuse, retry or joined");
        return std::nullopt;
    }
    constexpr Words<OnUnknown, 3> policies{
        {{"refuse", OnUnknown::refuse}, {"retry", OnUnknown::retry}, {"joined", OnUnknown::joined}}};
    return word_of(policies)(setting);
}

std::optional<std::optional<Duration>> read_on_busy(const Setting& setting) {
    if (setting.is("conflict")) return std::optional<Duration>{};
    constexpr Word right = "conflict, or {wait: 2s}";
    const auto in = setting.mapping(on_busy_shape, right);
    if (!in) return std::nullopt;
    const auto wait = in->required("wait", "how long a duplicate waits, as in 2s");
    const auto length = wait ? wait->duration(milliseconds{1}, busy_wait_max) : std::nullopt;
    return length ? std::optional(length) : std::nullopt;
}

std::optional<std::vector<int>> read_statuses(const Setting& setting) {
    std::vector<int> statuses;
    for (const Setting& item : setting.items("a list of statuses, as in [503]")) {
        const auto status = item.whole(400, 599);
        if (!status) continue;
        if (std::ranges::find(statuses, static_cast<int>(*status)) != statuses.end())
            item.refuse("this status is in the list already");
        statuses.push_back(static_cast<int>(*status));
    }
    return statuses;
}

std::optional<std::vector<std::string>> read_header_names(const Setting& setting) {
    std::vector<std::string> names;
    for (const Setting& item : setting.items("a list of header names, as in [X-One-Time]"))
        if (auto name = read_header_name(item)) names.push_back(std::move(*name));
    return names;
}

std::optional<std::string> read_path(const Setting& setting) {
    constexpr Word right = "a path at the upstream without a query, as in /authorize";
    auto path = setting.text(right);
    if (!path) return std::nullopt;
    if (path->starts_with('/') && path->find('?') == std::string::npos && http::all_of(*path, http::target_char) &&
        http::is_plain_path(*path))
        return path;
    setting.expected(right);
    return std::nullopt;
}

std::optional<Quota> read_quota(const Setting& setting) {
    constexpr std::uint64_t most = 1'000'000'000;
    const auto in = setting.mapping(quota_shape, "a mapping with new_keys_max, window or open_max");
    if (!in) return std::nullopt;
    Quota quota;
    fill(*in, "new_keys_max", quota.new_keys_max, whole_between(1, most));
    fill(*in, "window", quota.window, duration_between(seconds{1}, hours{24}));
    fill(*in, "open_max", quota.open_max, whole_between(1, most));
    if (in->has("window") && !in->has("new_keys_max"))
        in->refuse("window", "it counts for new_keys_max, which is not there; write both");
    return quota;
}

// ---- webhooks ------------------------------------------------------------------------------------------------------

/// Every `{word}` in a template is one of the two; {body} is there.
std::optional<std::string> read_payload(const Setting& setting) {
    constexpr Word right =
        R"(a template with {body} and if need be {timestamp}, in quotes, as in "{timestamp}.{body}")";
    auto payload = setting.text(right);
    if (!payload) return std::nullopt;
    std::string left = *payload;
    const auto take = [&left](Word word) {
        const auto at = left.find(word);
        if (at != std::string::npos) left.erase(at, word.size());
        return at != std::string::npos;
    };
    const bool has_body = take("{body}");
    take("{timestamp}");
    if (has_body && left.find_first_of("{}") == std::string::npos) return payload;
    setting.expected(right);
    return std::nullopt;
}

void check_hmac(const Mapping& in, const Signature& signature) {
    if (!in.has("header")) in.refuse("header", "missing; write the header that holds the signature");
    const bool signed_time = signature.payload.find("{timestamp}") != std::string::npos;
    if (signed_time && !in.has("timestamp_header"))
        in.refuse("payload", "it has {timestamp}; write timestamp_header, which holds it");
    if (!signed_time && in.has("timestamp_header"))
        in.refuse("timestamp_header",
                  "the timestamp is not signed, so anybody can set it; write payload with {timestamp}");
    if (in.has("tolerance") && !in.has("timestamp_header"))
        in.refuse("tolerance", "there is no timestamp; write timestamp_header, or leave tolerance out");
}

/// What the scheme fixes is not to be written.
void check_fixed(const Mapping& in, const Signature& signature) {
    for (const Word name : {"header", "prefix", "encoding", "timestamp_header", "payload"})
        if (in.has(name)) in.refuse(name, "the scheme says that already; leave it out, or write scheme: hmac");
    if (signature.scheme == Signature::Scheme::github && in.has("tolerance"))
        in.refuse("tolerance", "the scheme github has no timestamp; leave it out");
}

std::optional<std::optional<Signature>> read_signature(const Setting& setting) {
    const auto in = setting.mapping(signature_shape, "a mapping with scheme and secret");
    if (!in) return std::nullopt;
    Signature signature;
    static_cast<void>(in->required("scheme", "stripe, github or hmac"));
    fill(*in, "scheme", signature.scheme, word_of(schemes));
    static_cast<void>(in->required("secret", "the secret that the provider signs with, best as ${NAME}"));
    signature.secrets = read_secrets(*in, webhook_secret_bytes_min);
    fill(*in, "header", signature.header, read_request_header);
    fill(*in, "prefix", signature.prefix, [](const Setting& s) { return s.text_or_empty("what is before it"); });
    fill(*in, "encoding", signature.encoding, word_of(encodings));
    fill(*in, "timestamp_header", signature.timestamp_header, read_request_header);
    fill(*in, "payload", signature.payload, read_payload);
    fill(*in, "tolerance", signature.tolerance, duration_between(seconds{1}, hours{24}));
    if (signature.scheme != Signature::Scheme::hmac)
        check_fixed(*in, signature);
    else if (const auto scheme = in->find("scheme"); scheme && scheme->is("hmac"))
        check_hmac(*in, signature);
    return signature;
}

std::optional<std::string> read_provider(const Setting& setting) {
    constexpr Word right = "a name of 1 to 255 visible ASCII characters without /, # and ~, as in stripe";
    auto provider = setting.text(right);
    if (!provider || (Scope::make(*provider, "x") && provider->find('~') == std::string::npos)) return provider;
    setting.expected(right);
    return std::nullopt;
}

std::optional<std::optional<Webhook>> read_webhook(const Setting& setting) {
    const auto in = setting.mapping(webhook_shape, "a mapping with provider and id");
    if (!in) return std::nullopt;
    const auto provider = in->required("provider", "the name of who sends the events, as in stripe");
    const auto name = provider ? read_provider(*provider) : std::nullopt;
    const auto id_setting = in->required("id", "where the event's id is, as in /id");
    auto id = id_setting ? read_pointer(*id_setting) : std::nullopt;
    std::optional<JsonPointer> type;
    fill(*in, "type", type, read_pointer);
    std::optional<Signature> signature;
    fill(*in, "signature", signature, read_signature);
    if (!name || !id) return std::nullopt;
    return Webhook{*name, std::move(*id), std::move(type), std::move(signature)};
}

// ---- one route -----------------------------------------------------------------------------------------------------

/// Unless the route says it, the method decides: POST and PATCH have keys.
void read_key(const Mapping& in, Route& route) {
    const std::string& method = route.match.method;
    const bool keyed_method = method == "POST" || method == "PATCH" || in.has("webhook");
    if (in.has("key")) {
        fill(in, "key", route.key, word_of(key_uses));
    } else if (method == "*") {
        route.key_of_post_and_patch = true;
    } else if (!keyed_method && !method.empty()) {
        route.key = KeyUse::ignored;
        for (const Word name : {"key_from", "format"})
            if (in.has(name))
                in.refuse(name, "requests of this method have no key unless the route asks; write key: required");
    }
}

void check_webhook(const Mapping& in, Route& route) {
    if (!in.has("webhook")) return;
    for (const Word name : {"key_from", "format", "fingerprint"})
        if (in.has(name))
            in.refuse(name, "of a webhook, key and fingerprint are the event's id and type; leave it out");
    for (const Word name : {"release_on", "conclusive"})
        if (in.has(name)) in.refuse(name, "of a webhook, 2xx settles and anything else is released; leave it out");
    if (in.has("key") && route.key != KeyUse::required)
        in.refuse("key", "an event without an id is none; write key: required, or leave it out");
    if (!route.webhook) return;
    KeySource source;
    source.in = KeySource::In::body;
    source.header.clear();
    source.pointer = route.webhook->id;
    route.key_from = {std::move(source)};
}

void check_spans(const Mapping& in, Route& route) {
    Retention& retention = route.policy.retention;
    if (!retention.identity) return;
    if (!in.has("response_retention") && retention.response > retention.identity)
        retention.response = retention.identity;
    if (!retention.response || *retention.response > *retention.identity)
        in.refuse("response_retention", "longer than retention; an answer does not outlive its key");
    if (route.policy.lease > *retention.identity)
        in.refuse("lease", "longer than retention; a record has to outlive its effect");
    if (route.format != KeyFormat::uuidv7 && !route.natural)
        in.refuse(
            "retention",
            "a late retry would run again once its record is swept; write permanent, or format: uuidv7 (keys that "
            "tell their age), or natural: true if the service itself refuses doubles for ever");
}

void check_policy(const Mapping& in, const Route& route) {
    const bool retries = route.policy.on_unknown == OnUnknown::retry;
    if (retries && !in.has("dedup_window"))
        in.refuse("on_unknown", "retry needs dedup_window: how long the upstream remembers our key");
    if (!retries && in.has("dedup_window"))
        in.refuse("dedup_window", "it belongs to on_unknown: retry; write that, too, or leave it out");
    if (route.on_store_failure == OnStoreFailure::open && !route.natural)
        in.refuse("on_store_failure",
                  "open lets doubles through; write closed, or natural: true if the service itself refuses doubles");
    for (const int status : route.release_on)
        if (std::ranges::find(route.conclusive, status) != route.conclusive.end())
            in.refuse("release_on", "one of them is in conclusive, too; a status means not executed, or executed");
}

/// A crash in the middle of an event is no other than a failure the provider hears of: its retry is the recovery.
void repeat_events(const Mapping& in, Route& route) {
    if (!route.webhook || in.has("on_unknown")) return;
    route.policy.on_unknown = OnUnknown::retry;
    route.policy.dedup_window = span_max;
}

void check_others(const Mapping& in, const Route& route, const Config& others) {
    if (route.policy.on_unknown == OnUnknown::joined && others.store.starts_with("sqlite:"))
        in.refuse("on_unknown",
                  "joined needs a postgres:// store, which the application shares; write refuse or retry");
    const auto tells_tenant = [&](const KeySource& source) {
        return source.in == KeySource::In::header && http::same_name(source.header, others.tenant.header);
    };
    if (std::ranges::any_of(route.key_from, tells_tenant))
        in.refuse("key_from", "the header that tells the tenant cannot be the key; write another");
}

void read_policy(const Mapping& in, Policy& policy) {
    fill(in, "retention", policy.retention.identity, read_span);
    fill(in, "response_retention", policy.retention.response, read_span);
    fill(in, "lease", policy.lease, duration_between(lease_min, lease_max));
    fill(in, "effect_deadline", policy.effect_deadline, duration_between(Duration{0}, effect_deadline_max));
    fill(in, "on_unknown", policy.on_unknown, read_on_unknown);
    fill(in, "dedup_window", policy.dedup_window, duration_between(span_min, span_max));
}

Route read_route(const Mapping& in, const Config& others) {
    Route route;
    route.mark = in.setting().mark();
    route.mode = others.mode;
    if (const auto match = in.required("match", "METHOD PATH, as in POST /v1/payments"))
        if (auto found = read_match(*match)) route.match = std::move(*found);
    route.name = route.match.text;
    fill(in, "name", route.name, read_name);
    if (!in.has("name") && route.name.size() > Scope::name_bytes_max)
        in.refuse("name", "missing, and the match is too long to be one; write a name of up to 255 characters");
    read_key(in, route);
    fill(in, "key_from", route.key_from, read_key_from);
    fill(in, "format", route.format, word_of(key_formats));
    fill(in, "generation", route.generation, whole_between(0, std::numeric_limits<std::uint32_t>::max()));
    fill(in, "fingerprint", route.fingerprint, read_fingerprint);
    read_policy(in, route.policy);
    fill(in, "on_busy", route.busy_wait, read_on_busy);
    fill(in, "on_store_failure", route.on_store_failure, word_of(store_failures));
    fill(in, "natural", route.natural, flag());
    fill(in, "mode", route.mode, word_of(modes));
    fill(in, "release_on", route.release_on, read_statuses);
    fill(in, "conclusive", route.conclusive, read_statuses);
    fill(in, "drop_headers", route.drop_headers, read_header_names);
    if (const auto redact = in.find("redact")) route.redact = read_pointers(*redact);
    fill(in, "keep", route.keep, word_of(keeps));
    fill(in, "replay_auth", route.replay_auth, read_path);
    fill(in, "webhook", route.webhook, read_webhook);
    fill(in, "quota", route.quota, read_quota);
    fill(in, "upstream", route.upstream, [](const Setting& s) { return std::optional(read_upstream(s)); });
    fill(in, "request_bytes_max", route.request_bytes_max, bytes_between(1, request_bytes_most));
    fill(in, "response_bytes_max", route.response_bytes_max, bytes_between(1, response_bytes_most));
    check_webhook(in, route);
    check_spans(in, route);
    check_policy(in, route);
    repeat_events(in, route);
    check_others(in, route, others);
    return route;
}

// ---- all of them ---------------------------------------------------------------------------------------------------

struct Known {
    Route route;
    Mapping mapping;
};

void check_together(const std::vector<Known>& known) {
    std::map<std::pair<std::string, std::uint32_t>, int> names;
    for (std::size_t i = 0; i < known.size(); ++i) {
        const Route& route = known[i].route;
        if (route.match.text.empty()) continue;
        const auto [first, is_first] = names.emplace(std::pair(route.name, route.generation), route.mark.line);
        if (!is_first)
            known[i].mapping.refuse("name",
                                    fmt::format("the route in line {} has this name (and generation), too; names "
                                                "are part of the identity, so each is used once",
                                                first->second));
        for (std::size_t j = 0; j < i; ++j) {
            const Route& earlier = known[j].route;
            if (earlier.match.text.empty() || !covers(earlier.match, route.match)) continue;
            known[i].mapping.refuse("match",
                                    fmt::format("never reached: the route in line {} takes all of it; the first "
                                                "that matches counts, so write this one before",
                                                earlier.mark.line));
            break;
        }
    }
}

}  // namespace

std::vector<Route> read_routes(const Setting& setting, const Config& others) {
    std::vector<Known> known;
    const std::vector<Setting> items = setting.items("a list of routes, each with a match");
    if (items.size() > routes_max) {
        setting.refuse(fmt::format("more than {} routes", routes_max));
        return {};
    }
    for (const Setting& item : items)
        if (const auto in = item.mapping(route_shape, "a mapping with a match"))
            known.push_back({read_route(*in, others), *in});
    check_together(known);
    std::vector<Route> routes;
    for (Known& one : known) routes.push_back(std::move(one.route));
    return routes;
}

}  // namespace semel::gateway
