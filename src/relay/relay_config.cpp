#include "relay/relay_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "settings/values.hpp"
#include "settings/yaml_tree.hpp"

namespace semel::relay {
namespace {

using namespace settings;  // NOLINT(google-build-using-namespace): what every configuration is made of
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Word = std::string_view;

constexpr Duration span_min = seconds{1};
constexpr Duration span_max = hours{24 * 365 * 100};
constexpr Duration least = milliseconds{1};
constexpr std::size_t mib = 1U << 20;
constexpr std::size_t relays_max = 1000;

// ---- the names of every mapping ------------------------------------------------------------------------------------

constexpr auto config_names = std::to_array<Word>({"store", "admin", "relays"});
constexpr Shape config_shape{"relay_config", config_names};

constexpr auto relay_names =
    std::to_array<Word>({"name", "from", "envelope", "key", "to", "concurrency", "order", "retries", "lease",
                         "retention", "response_retention", "body_bytes_max"});
constexpr Shape relay_shape{"relay", relay_names};

constexpr auto from_names = std::to_array<Word>({"kafka", "rabbitmq", "nats", "redis"});
constexpr Shape from_shape{"from", from_names};

constexpr auto kafka_names = std::to_array<Word>({"brokers", "group", "topics", "commit_every", "settings"});
constexpr Shape kafka_shape{"kafka", kafka_names};

constexpr auto rabbitmq_names = std::to_array<Word>(
    {"url", "queue", "prefetch", "declare", "ordering_header", "heartbeat", "connect_timeout", "ca"});
constexpr Shape rabbitmq_shape{"rabbitmq", rabbitmq_names};

constexpr auto nats_names = std::to_array<Word>({"url", "stream", "durable", "subject", "ack_wait", "ack_pending_max",
                                                 "ordering_header", "credentials", "ca", "connect_timeout"});
constexpr Shape nats_shape{"nats", nats_names};

constexpr auto redis_names = std::to_array<Word>(
    {"url", "stream", "group", "consumer", "idle_max", "ordering_field", "connect_timeout", "timeout"});
constexpr Shape redis_shape{"redis", redis_names};

constexpr auto envelope_names = std::to_array<Word>({"json"});
constexpr Shape envelope_shape{"envelope", envelope_names};

constexpr auto json_names = std::to_array<Word>({"id", "type", "source", "source_from", "subject", "time"});
constexpr Shape json_shape{"json_envelope", json_names};

constexpr auto key_names = std::to_array<Word>({"producer", "sequence"});
constexpr Shape key_shape{"message_key", key_names};

constexpr auto to_names =
    std::to_array<Word>({"url", "method", "mode", "headers", "body", "correlation_header", "timeout", "connect_timeout",
                         "idle_max", "answer_bytes_max", "tls", "retry_on", "deduplicates", "retry_after_max"});
constexpr Shape to_shape{"to", to_names};

constexpr auto retries_names = std::to_array<Word>({"limit", "first", "max"});
constexpr Shape retries_shape{"retries", retries_names};

// ---- values --------------------------------------------------------------------------------------------------------

/// A duration, or for ever.
std::optional<std::optional<Duration>> read_span(const Setting& setting) {
    if (setting.is("permanent")) return std::optional<Duration>{};
    if (const auto span = setting.duration(span_min, span_max, "permanent, or ")) return std::optional<Duration>{*span};
    return std::nullopt;
}

std::vector<std::string> read_texts(const Setting& setting, Word list_right, Word right) {
    std::vector<std::string> all;
    for (const Setting& item : setting.some_items(list_right))
        if (auto text = item.text(right)) all.push_back(std::move(*text));
    return all;
}

// ---- from ----------------------------------------------------------------------------------------------------------

kafka::Options read_kafka(const Mapping& in, const std::string& relay) {
    kafka::Options options{.group = relay};
    constexpr Word brokers = "host:port, several separated by commas";
    fill_required(in, "brokers", options.brokers, brokers, text_of(brokers));
    fill(in, "group", options.group, text_of("the name of the consumer group"));
    if (const auto topics = in.required("topics", "a list of topics, as in [orders]"))
        options.topics = read_texts(*topics, "a list of topics, as in [orders]", "the name of a topic");
    refuse_twice(in, "topics", options.topics);
    fill(in, "commit_every", options.commit_every, duration_between(least, minutes{10}));
    if (const auto further = in.find("settings"))
        for (const auto& [name, value] : further->hidden().entries("librdkafka's settings by their names"))
            if (auto text = value.as_written("a value of librdkafka's")) options.settings[name] = std::move(*text);
    return options;
}

rabbitmq::Options read_rabbitmq(const Mapping& in) {
    rabbitmq::Options options;
    constexpr Word url = "amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…, best as ${NAME}";
    fill_required(in, "url", options.url, url, url_of(url, {"amqp://", "amqps://"}));
    fill_required(in, "queue", options.queue, "the name of a queue", text_of("the name of a queue"));
    fill(in, "prefetch", options.prefetch, whole_between(1, 65535));
    fill(in, "declare", options.declare, flag());
    fill(in, "ordering_header", options.ordering_header, text_of("the name of the header that keeps order"));
    fill(in, "heartbeat", options.heartbeat, duration_between(seconds{1}, hours{1}));
    fill(in, "connect_timeout", options.connect_timeout, duration_between(least, minutes{10}));
    fill(in, "ca", options.ca_file, text_of(pem_right));
    return options;
}

nats::Options read_nats(const Mapping& in, const std::string& relay) {
    nats::Options options{.durable = relay};
    constexpr Word url = "nats://HOST:PORT or tls://…, several separated by commas";
    fill_required(in, "url", options.url, url, url_of(url, {"nats://", "tls://"}));
    fill_required(in, "stream", options.stream, "the name of a stream", text_of("the name of a stream"));
    fill(in, "durable", options.durable, text_of("the name of the durable consumer"));
    fill(in, "subject", options.subject, text_of("a subject, as in orders.>"));
    fill(in, "ack_wait", options.ack_wait, duration_between(seconds{1}, hours{24}));
    fill(in, "ack_pending_max", options.ack_pending_max, whole_between(1, 1'000'000));
    fill(in, "ordering_header", options.ordering_header, text_of("the name of the header that keeps order"));
    fill(in, "credentials", options.credentials_file, text_of("the path of a credentials file"));
    fill(in, "ca", options.ca_file, text_of(pem_right));
    fill(in, "connect_timeout", options.connect_timeout, duration_between(least, minutes{10}));
    return options;
}

redis::Options read_redis(const Mapping& in, const std::string& relay) {
    redis::Options options{.group = relay};
    constexpr Word url = "redis://HOST:PORT, best as ${NAME} if it holds a password";
    fill_required(in, "url", options.url, url, url_of(url, {"redis://"}));
    fill_required(in, "stream", options.stream, "the name of a stream", text_of("the name of a stream"));
    fill(in, "group", options.group, text_of("the name of the consumer group"));
    fill(in, "consumer", options.consumer, text_of("this process's name in the group"));
    fill(in, "idle_max", options.idle_max, duration_between(seconds{1}, hours{24}));
    fill(in, "ordering_field", options.ordering_field, text_of("the name of the field that keeps order"));
    fill(in, "connect_timeout", options.connect_timeout, duration_between(least, minutes{10}));
    fill(in, "timeout", options.timeout, duration_between(least, minutes{10}));
    return options;
}

std::optional<From> read_from(const Setting& setting, const std::string& relay) {
    const auto in = setting.mapping(from_shape, "a mapping with kafka, rabbitmq, nats or redis");
    if (!in) return std::nullopt;
    if (std::ranges::count_if(from_names, [&](Word name) { return in->has(name); }) != 1) {
        setting.refuse("messages come from one broker; write one of kafka, rabbitmq, nats and redis");
        return std::nullopt;
    }
    const auto part = [&](Word name, const Shape& shape) -> std::optional<Mapping> {
        const auto found = in->find(name);
        return found ? found->mapping(shape, "a mapping") : std::nullopt;
    };
    if (const auto kafka = part("kafka", kafka_shape)) return From(read_kafka(*kafka, relay));
    if (const auto rabbitmq = part("rabbitmq", rabbitmq_shape)) return From(read_rabbitmq(*rabbitmq));
    if (const auto nats = part("nats", nats_shape)) return From(read_nats(*nats, relay));
    if (const auto redis = part("redis", redis_shape)) return From(read_redis(*redis, relay));
    return std::nullopt;
}

// ---- envelope and key ----------------------------------------------------------------------------------------------

void fill_pointer(const Mapping& in, Word name, std::string& pointer) {
    if (const auto setting = in.find(name))
        if (const auto found = read_pointer(*setting)) pointer = found->text();
}

std::optional<EnvelopeOptions> read_envelope_options(const Setting& setting) {
    EnvelopeOptions options;
    if (setting.is("cloudevents")) return options;
    constexpr Word right = "cloudevents, or {json: {id: /id}}";
    const auto outer = setting.mapping(envelope_shape, right);
    if (!outer) return std::nullopt;
    const auto json = outer->required("json", "where the parts of an event are, as in {id: /id}");
    const auto in = json ? json->mapping(json_shape, "a mapping with id") : std::nullopt;
    if (!in) return std::nullopt;
    options.kind = EnvelopeKind::json;
    static_cast<void>(in->required("id", "a JSON pointer to the id, as in /id"));
    fill_pointer(*in, "id", options.id_pointer);
    if (const auto type = in->find("type")) {
        const auto text = type->text("a JSON pointer, as in /type, or the type of all messages");
        if (text && text->starts_with('/'))
            fill_pointer(*in, "type", options.type_pointer);
        else
            options.type = text.value_or("");
    }
    fill(*in, "source", options.source, text_of("the source of all messages, as in /shop"));
    fill_pointer(*in, "source_from", options.source_pointer);
    fill_pointer(*in, "subject", options.subject_pointer);
    fill_pointer(*in, "time", options.time_pointer);
    if (in->has("source") && in->has("source_from"))
        in->refuse("source_from", "the source is the same for all messages, or in each; write one of them");
    return options;
}

std::optional<MessageKeyOptions> read_key(const Setting& setting) {
    if (setting.is_mapping()) {
        MessageKeyOptions options{.source = KeySource::producer};
        const auto in = setting.mapping(key_shape, "");
        fill_required(*in, "producer", options.producer_header, "the header with the producer's id",
                      text_of("the name of a header"));
        fill_required(*in, "sequence", options.sequence_header, "the header with the sequence number",
                      text_of("the name of a header"));
        return options;
    }
    if (setting.is("producer")) {
        setting.refuse("its headers have to be named; write {producer: HEADER, sequence: HEADER}");
        return std::nullopt;
    }
    constexpr std::array<std::pair<Word, KeySource>, 3> words{
        {{"envelope", KeySource::envelope}, {"position", KeySource::position}, {"content", KeySource::content}}};
    const auto source = word_of(words)(setting);
    if (!source) return std::nullopt;
    return MessageKeyOptions{.source = *source};
}

// ---- to ------------------------------------------------------------------------------------------------------------

std::vector<HttpField> read_headers(const Setting& setting) {
    std::vector<HttpField> headers;
    for (const auto& [name, value] : setting.hidden().entries("headers by their names"))
        if (auto text = value.text_or_empty("the value of the header, best as ${NAME} if it is a secret"))
            headers.push_back({name, std::move(*text)});
    return headers;
}

std::vector<int> read_statuses(const Setting& setting) {
    std::vector<int> statuses;
    for (const Setting& item : setting.items("a list of statuses, as in [503]"))
        if (const auto status = item.whole(400, 599)) statuses.push_back(static_cast<int>(*status));
    return statuses;
}

/// What the parts come to; RequestMaker is the judge, so that start-up and use cannot differ.
void check_request(const Setting& setting, const RequestOptions& options) {
    const auto maker = RequestMaker::make(options);
    if (!maker) setting.refuse(maker.failure().message);
}

void read_request(const Mapping& in, RequestOptions& request) {
    constexpr Word url = "http:// or https://, a host and a path, as in http://127.0.0.1:9000/orders";
    fill_required(in, "url", request.url, url, text_of(url));
    if (const auto method = in.find("method"))
        if (const auto found = method->word(delivery_methods)) request.method = delivery_methods[*found];
    constexpr std::array<std::pair<Word, DeliveryMode>, 3> modes{
        {{"binary", DeliveryMode::binary}, {"structured", DeliveryMode::structured}, {"plain", DeliveryMode::plain}}};
    fill(in, "mode", request.mode, word_of(modes));
    if (const auto headers = in.find("headers")) request.headers = read_headers(*headers);
    fill(in, "body", request.body, [](const Setting& s) { return s.text("JSON, as in '{\"order\": \"{/id}\"}'"); });
    fill(in, "correlation_header", request.correlation_header, read_header_name);
}

void read_to(const Setting& setting, Relay& relay) {
    EndpointOptions& to = relay.to;
    if (!setting.is_mapping()) {
        if (auto url = setting.text("a URL, or a mapping with url")) to.request.url = std::move(*url);
        if (!to.request.url.empty()) check_request(setting, to.request);
        return;
    }
    const auto in = setting.mapping(to_shape, "");
    read_request(*in, to.request);
    if (!to.request.url.empty()) check_request(setting, to.request);
    fill(*in, "timeout", to.call.timeout, duration_between(least, hours{1}));
    fill(*in, "connect_timeout", to.call.connect_timeout, duration_between(least, minutes{10}));
    fill(*in, "idle_max", to.call.idle_max, duration_between(seconds{1}, hours{1}));
    fill(*in, "answer_bytes_max", to.call.answer_bytes_max, bytes_between(0, 64 * mib));
    fill(*in, "tls", to.call.tls, read_endpoint_tls);
    if (const auto retry_on = in->find("retry_on")) relay.rules.retry_on = read_statuses(*retry_on);
    if (const auto window = in->find("deduplicates"))
        if (const auto span = read_span(*window)) relay.rules.deduplicates = span->value_or(Duration::max());
    fill(*in, "retry_after_max", relay.rules.retry_after_max, duration_between(seconds{1}, hours{24}));
    if (in->has("tls") && to.request.url.starts_with("http://"))
        in->refuse("tls", "the url begins with http://; write https://, or leave it out");
    if (to.call.connect_timeout > to.call.timeout)
        in->refuse(in->has("connect_timeout") ? "connect_timeout" : "timeout",
                   "connecting would take longer than timeout");
}

// ---- a relay -------------------------------------------------------------------------------------------------------

std::optional<std::string> read_name(const Setting& setting) {
    constexpr Word right = "1 to 255 printable characters without #";
    auto name = setting.text(right);
    if (!name || Scope::make("", *name).ok()) return name;
    setting.expected(right);
    return std::nullopt;
}

std::optional<Retries> read_retries(const Setting& setting) {
    const auto in = setting.mapping(retries_shape, "a mapping with limit, first or max");
    if (!in) return std::nullopt;
    Retries retries;
    fill(*in, "limit", retries.limit, whole_between(0, 1'000'000));
    fill(*in, "first", retries.first, duration_between(least, hours{24}));
    fill(*in, "max", retries.max, duration_between(least, hours{24 * 30}));
    if (retries.max < retries.first) in->refuse(in->has("max") ? "max" : "first", "the first pause is longer than max");
    return retries;
}

void read_retention(const Mapping& in, Relay& relay) {
    Retention& retention = relay.retention;
    fill(in, "retention", retention.identity, read_span);
    fill(in, "response_retention", retention.response, read_span);
    if (!retention.identity) return;
    if (!in.has("response_retention") && retention.response > retention.identity)
        retention.response = retention.identity;
    if (!retention.response || *retention.response > *retention.identity)
        in.refuse("response_retention", "longer than retention; an answer does not outlive its key");
    if (relay.lease > *retention.identity)
        in.refuse("lease", "longer than retention; a record has to outlive its effect");
}

/// What one part says that another cannot keep.
void check_relay(const Mapping& in, const Relay& relay) {
    if (relay.key.source == KeySource::position && std::holds_alternative<rabbitmq::Options>(relay.from))
        in.refuse("key",
                  "RabbitMQ keeps no position of a message; write envelope, content or {producer: …, sequence: …}");
    const EnvelopeOptions& envelope = relay.envelope;
    const bool has_type = !envelope.type.empty() || !envelope.type_pointer.empty();
    const bool has_source = !envelope.source.empty() || !envelope.source_pointer.empty();
    if (envelope.kind == EnvelopeKind::json && relay.to.request.mode != DeliveryMode::plain &&
        !(has_type && has_source))
        in.refuse("envelope",
                  "CloudEvents need type and source; write envelope.json.type and .source, or to.mode: plain");
}

Relay read_relay(const Mapping& in) {
    Relay relay;
    relay.mark = in.setting().mark();
    fill_required(in, "name", relay.name, "a name that stays, since it is part of the identity", read_name);
    if (const auto from = in.required("from", "where messages come from, as in {kafka: {…}}"))
        if (auto found = read_from(*from, relay.name)) relay.from = std::move(*found);
    fill(in, "envelope", relay.envelope, read_envelope_options);
    fill(in, "body_bytes_max", relay.envelope.body_bytes_max, bytes_between(1, 256 * mib));
    fill(in, "key", relay.key, read_key);
    if (const auto to = in.required("to", "the endpoint, as in http://127.0.0.1:9000/orders")) read_to(*to, relay);
    fill(in, "concurrency", relay.concurrency, whole_between(1, 10'000));
    constexpr std::array<std::pair<Word, Order>, 2> orders{{{"key", Order::key}, {"none", Order::none}}};
    fill(in, "order", relay.order, word_of(orders));
    fill(in, "retries", relay.retries, read_retries);
    fill(in, "lease", relay.lease, duration_between(seconds{1}, hours{1}));
    read_retention(in, relay);
    check_relay(in, relay);
    return relay;
}

RelayConfig read_all(const Mapping& in, const std::string& file) {
    RelayConfig config;
    config.file = file;
    fill_required(in, "store", config.store, "where operations are kept, as in sqlite:semel.db", read_store);
    fill(in, "admin", config.admin, read_admin);
    const auto relays = in.required("relays", "a list of relays");
    if (!relays) return config;
    const std::vector<Setting> items = relays->some_items("a list of one or more relays");
    if (items.size() > relays_max) {
        relays->refuse(fmt::format("more than {} relays", relays_max));
        return config;
    }
    std::set<std::string> names;
    for (const Setting& item : items) {
        const auto mapping = item.mapping(relay_shape, "a mapping with name, from and to");
        if (!mapping) continue;
        config.relays.push_back(read_relay(*mapping));
        const std::string& name = config.relays.back().name;
        if (!name.empty() && !names.insert(name).second)
            mapping->refuse("name", "another relay has this name; their operations would be the same");
    }
    return config;
}

}  // namespace

ReadRelayConfig read_relay_config_text(std::string_view text, const std::string& file, const Environment& environment) {
    YamlParsed parsed = parse_yaml(text);
    if (!parsed.root) return {.problems = {{{file, parsed.fault.line}, parsed.fault.message}}};
    Problems problems(file);
    prepare(*parsed.root, environment, problems);
    std::optional<RelayConfig> config;
    const Setting root(*parsed.root, "", problems);
    if (const auto in = root.mapping(config_shape, "settings by their names, as in store: sqlite:semel.db"))
        config = read_all(*in, file);
    if (!problems.empty()) return {.problems = problems.take()};
    return {.config = std::move(config)};
}

ReadRelayConfig read_relay_config(const std::string& path) {
    const auto text = read_settings_file(path);
    if (!text) return {.problems = {{{path, 0}, text.failure().message}}};
    return read_relay_config_text(*text, path, [](const std::string& name) { return std::getenv(name.c_str()); });
}

std::vector<Shape> relay_config_shapes() {
    return {config_shape, relay_shape, from_shape,         kafka_shape,    rabbitmq_shape,
            nats_shape,   redis_shape, admin_shape,        envelope_shape, json_shape,
            key_shape,    to_shape,    endpoint_tls_shape, retries_shape,  server_tls_shape};
}

}  // namespace semel::relay
