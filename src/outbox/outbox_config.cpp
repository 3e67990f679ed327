#include "outbox/outbox_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>

#include "settings/values.hpp"
#include "settings/yaml_tree.hpp"

namespace semel::outbox {
namespace {

using namespace settings;  // NOLINT(google-build-using-namespace): what every configuration is made of
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Word = std::string_view;

constexpr Duration least = milliseconds{1};
constexpr std::size_t outboxes_max = 100;

// ---- the names of every mapping ------------------------------------------------------------------------------------

constexpr auto config_names = std::to_array<Word>({"store", "admin", "outboxes"});
constexpr Shape config_shape{"outbox_config", config_names};

constexpr auto outbox_names = std::to_array<Word>({"name", "to", "lease", "batch", "poll", "retries", "alarm"});
constexpr Shape outbox_shape{"outbox", outbox_names};

constexpr auto to_names = std::to_array<Word>({"kafka", "rabbitmq", "nats", "redis", "http"});
constexpr Shape to_shape{"to", to_names};

constexpr auto kafka_names = std::to_array<Word>({"brokers", "settings"});
constexpr Shape kafka_shape{"kafka", kafka_names};

constexpr auto rabbitmq_names = std::to_array<Word>({"url", "exchange", "heartbeat", "connect_timeout", "ca"});
constexpr Shape rabbitmq_shape{"rabbitmq", rabbitmq_names};

constexpr auto nats_names = std::to_array<Word>({"url", "credentials", "ca", "connect_timeout"});
constexpr Shape nats_shape{"nats", nats_names};

constexpr auto redis_names = std::to_array<Word>({"url", "entries_max", "timeout"});
constexpr Shape redis_shape{"redis", redis_names};

constexpr auto http_names = std::to_array<Word>({"url", "headers", "concurrency", "timeout", "connect_timeout", "tls"});
constexpr Shape http_shape{"http", http_names};

constexpr auto retries_names = std::to_array<Word>({"first", "max"});
constexpr Shape retries_shape{"retries", retries_names};

// ---- to --------------------------------------------------------------------------------------------------------------

KafkaOptions read_kafka(const Mapping& in) {
    KafkaOptions options;
    constexpr Word brokers = "host:port, several separated by commas";
    fill_required(in, "brokers", options.brokers, brokers, text_of(brokers));
    if (const auto further = in.find("settings"))
        for (const auto& [name, value] : further->hidden().entries("librdkafka's settings by their names"))
            if (auto text = value.as_written("a value of librdkafka's")) options.settings[name] = std::move(*text);
    return options;
}

RabbitmqOptions read_rabbitmq(const Mapping& in) {
    RabbitmqOptions options;
    constexpr Word url = "amqp://USER:PASSWORD@HOST:PORT/VHOST or amqps://…, best as ${NAME}";
    fill_required(in, "url", options.connection.url, url, url_of(url, {"amqp://", "amqps://"}));
    fill(in, "exchange", options.exchange, text_of("the name of an exchange"));
    fill(in, "heartbeat", options.connection.heartbeat, duration_between(seconds{1}, hours{1}));
    fill(in, "connect_timeout", options.connection.connect_timeout, duration_between(least, minutes{10}));
    fill(in, "ca", options.connection.ca_file, text_of(pem_right));
    return options;
}

NatsOptions read_nats(const Mapping& in) {
    NatsOptions options;
    constexpr Word url = "nats://HOST:PORT or tls://…, several separated by commas";
    fill_required(in, "url", options.connection.url, url, url_of(url, {"nats://", "tls://"}));
    fill(in, "credentials", options.connection.credentials_file, text_of("the path of a credentials file"));
    fill(in, "ca", options.connection.ca_file, text_of(pem_right));
    fill(in, "connect_timeout", options.connection.connect_timeout, duration_between(least, minutes{10}));
    return options;
}

RedisOptions read_redis(const Mapping& in) {
    RedisOptions options;
    constexpr Word url = "redis://HOST:PORT, best as ${NAME} if it holds a password";
    fill_required(in, "url", options.connection.url, url, url_of(url, {"redis://"}));
    fill(in, "entries_max", options.entries_max, whole_between(1, 1'000'000'000'000));
    fill(in, "timeout", options.connection.timeout, duration_between(least, minutes{10}));
    return options;
}

HttpOptions read_http(const Mapping& in) {
    HttpOptions options;
    constexpr Word url = "http://HOST:PORT or https://…, which the topic is appended to";
    fill_required(in, "url", options.url, url, url_of(url, {"http://", "https://"}));
    if (options.url.ends_with('/')) options.url.pop_back();
    if (options.url.find_first_of("?#") != std::string::npos)
        in.refuse("url", "the topic of an event is appended to it; write it without a query");
    if (const auto headers = in.find("headers"))
        for (const auto& [name, value] : headers->hidden().entries("headers by their names")) {
            const auto token = [](char c) {
                return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
                       c == '_';
            };
            if (name.empty() || !std::ranges::all_of(name, token))
                headers->refuse("the name of a header is letters, digits, - and _");
            else if (auto text = value.text("the value of the header, best as ${NAME} if it is a secret"))
                options.headers[name] = std::move(*text);
        }
    fill(in, "concurrency", options.concurrency, whole_between(1, 1000));
    fill(in, "timeout", options.call.timeout, duration_between(least, hours{1}));
    fill(in, "connect_timeout", options.call.connect_timeout, duration_between(least, minutes{10}));
    fill(in, "tls", options.call.tls, read_endpoint_tls);
    return options;
}

std::optional<To> read_to(const Setting& setting) {
    const auto in = setting.mapping(to_shape, "a mapping with kafka, rabbitmq, nats, redis or http");
    if (!in) return std::nullopt;
    if (std::ranges::count_if(to_names, [&](Word name) { return in->has(name); }) != 1) {
        setting.refuse("events go to one broker; write one of kafka, rabbitmq, nats, redis and http");
        return std::nullopt;
    }
    const auto part = [&](Word name, const Shape& shape) -> std::optional<Mapping> {
        const auto found = in->find(name);
        return found ? found->mapping(shape, "a mapping") : std::nullopt;
    };
    if (const auto kafka = part("kafka", kafka_shape)) return To(read_kafka(*kafka));
    if (const auto rabbitmq = part("rabbitmq", rabbitmq_shape)) return To(read_rabbitmq(*rabbitmq));
    if (const auto nats = part("nats", nats_shape)) return To(read_nats(*nats));
    if (const auto redis = part("redis", redis_shape)) return To(read_redis(*redis));
    if (const auto http = part("http", http_shape)) return To(read_http(*http));
    return std::nullopt;
}

// ---- an outbox ---------------------------------------------------------------------------------------------------------

OutboxPlan read_outbox(const Mapping& in) {
    OutboxPlan plan;
    constexpr Word name = "a name of up to 255 bytes";
    fill(in, "name", plan.name, [&](const Setting& setting) -> std::optional<std::string> {
        auto text = setting.text(name);
        constexpr std::size_t bytes_max = 255;
        if (!text || text->size() <= bytes_max) return text;
        setting.expected(name);
        return std::nullopt;
    });
    if (const auto to = in.required("to", "where events go, as in {kafka: {…}}"))
        if (auto found = read_to(*to)) plan.to = std::move(*found);
    fill(in, "lease", plan.pump.lease, duration_between(seconds{1}, hours{1}));
    fill(in, "batch", plan.pump.batch, whole_between(1, 100'000));
    fill(in, "poll", plan.pump.poll, duration_between(milliseconds{10}, minutes{10}));
    fill(in, "alarm", plan.pump.alarm, duration_between(seconds{1}, hours{24}));
    const auto retries = in.find("retries");
    const auto pauses = retries ? retries->mapping(retries_shape, "a mapping with first or max") : std::nullopt;
    if (!pauses) return plan;
    fill(*pauses, "first", plan.pump.retry_first, duration_between(least, hours{24}));
    fill(*pauses, "max", plan.pump.retry_max, duration_between(least, hours{24 * 30}));
    if (plan.pump.retry_max < plan.pump.retry_first)
        pauses->refuse(pauses->has("max") ? "max" : "first", "the first pause is longer than max");
    return plan;
}

OutboxConfig read_all(const Mapping& in, const std::string& file) {
    OutboxConfig config;
    config.file = file;
    fill_required(in, "store", config.store, "where events are staged, as in postgres://shop@db/shop", read_store);
    fill(in, "admin", config.admin, read_admin);
    const auto outboxes = in.required("outboxes", "a list of outboxes");
    if (!outboxes) return config;
    const std::vector<Setting> items = outboxes->some_items("a list of one or more outboxes");
    if (items.size() > outboxes_max) {
        outboxes->refuse(fmt::format("more than {} outboxes", outboxes_max));
        return config;
    }
    std::set<std::string> names;
    for (const Setting& item : items) {
        const auto mapping = item.mapping(outbox_shape, "a mapping with name and to");
        if (!mapping) continue;
        config.outboxes.push_back(read_outbox(*mapping));
        if (!names.insert(config.outboxes.back().name).second)
            mapping->refuse("name", "another outbox has this name; an event goes to one place");
    }
    return config;
}

}  // namespace

ReadOutboxConfig read_outbox_config_text(std::string_view text, const std::string& file,
                                         const Environment& environment) {
    YamlParsed parsed = parse_yaml(text);
    if (!parsed.root) return {.problems = {{{file, parsed.fault.line}, parsed.fault.message}}};
    Problems problems(file);
    prepare(*parsed.root, environment, problems);
    std::optional<OutboxConfig> config;
    const Setting root(*parsed.root, "", problems);
    if (const auto in = root.mapping(config_shape, "settings by their names, as in store: postgres://shop@db/shop"))
        config = read_all(*in, file);
    if (!problems.empty()) return {.problems = problems.take()};
    return {.config = std::move(config)};
}

ReadOutboxConfig read_outbox_config(const std::string& path) {
    const auto text = read_settings_file(path);
    if (!text) return {.problems = {{{path, 0}, text.failure().message}}};
    return read_outbox_config_text(*text, path, [](const std::string& name) { return std::getenv(name.c_str()); });
}

std::vector<Shape> outbox_config_shapes() {
    return {config_shape, outbox_shape, to_shape,    kafka_shape,        rabbitmq_shape, nats_shape,
            redis_shape,  http_shape,   admin_shape, endpoint_tls_shape, retries_shape,  server_tls_shape};
}

}  // namespace semel::outbox
