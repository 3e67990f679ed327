#include "consumers/kafka/client.hpp"

#include <fmt/format.h>

#include <array>

namespace semel::kafka {
namespace {

using Setting = std::pair<const char*, const char*>;

/// What correctness rests on: nothing is stored or committed but what was acknowledged, nothing that was rolled back is
/// read, and nothing is skipped where the group has no position.
constexpr std::array<Setting, 5> required{{
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"isolation.level", "read_committed"},
    {"auto.offset.reset", "earliest"},
    {"enable.partition.eof", "false"},
}};

/// What a user may want otherwise.
constexpr std::array<Setting, 3> preferred{{
    // Found again soon after a restart: by default up to 10 s, 30 s and 5 min.
    {"reconnect.backoff.max.ms", "1000"},
    {"socket.connection.setup.timeout.ms", "10000"},
    {"topic.metadata.refresh.interval.ms", "30000"},
}};

/// Settings that have a name of their own in Options.
constexpr std::array<Setting, 3> ours{{
    {"bootstrap.servers", "brokers"},
    {"metadata.broker.list", "brokers"},
    {"group.id", "group"},
}};

Callbacks& from(void* opaque) { return *static_cast<Callbacks*>(opaque); }

void rebalance(rd_kafka_t*, rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t* partitions, void* opaque) {
    from(opaque).on_rebalance(what, *partitions);
}
void committed(rd_kafka_t*, rd_kafka_resp_err_t error, rd_kafka_topic_partition_list_t* offsets, void* opaque) {
    from(opaque).on_commit(error, offsets);
}
void failed(rd_kafka_t* client, int error, const char* reason, void* opaque) {
    from(opaque).on_error(static_cast<rd_kafka_resp_err_t>(error), reason == nullptr ? "" : reason);
    rd_kafka_yield(client);  // a fetch that waits shall say so at once
}
/// Whoever handles an error logs it, and what matters comes as an error.
void silent(const rd_kafka_t*, int, const char*, const char*) {}

Failure refused(std::string_view why) { return {Code::invalid, fmt::format("kafka source: {}", why)}; }

Status set(rd_kafka_conf_t& config, const std::string& name, const std::string& value) {
    std::array<char, 512> reason{};
    if (rd_kafka_conf_set(&config, name.c_str(), value.c_str(), reason.data(), reason.size()) == RD_KAFKA_CONF_OK)
        return Done{};
    return refused(fmt::format("{} (settings: {})", reason.data(), name));
}

/// librdkafka before 2.3 ends the process by an assertion if a member leaves a group with this strategy before its first
/// assignment (rd_kafka_sticky_assignor_state_destroy).
bool ends_the_process(const std::string& name, const std::string& value) {
    constexpr int mended = 0x02030000;
    return name == "partition.assignment.strategy" && value.find("cooperative-sticky") != std::string::npos &&
           rd_kafka_version() < mended;
}

Status set_user_settings(rd_kafka_conf_t& config, const Options& options) {
    for (const auto& [name, value] : options.settings) {
        for (const auto& [taken, needed] : required) {
            if (name == taken)
                return refused(fmt::format("{} has to be {} for messages to be handled once (settings)", name, needed));
        }
        for (const auto& [taken, setting] : ours) {
            if (name == taken) return refused(fmt::format("{} is the setting {} (settings)", name, setting));
        }
        if (ends_the_process(name, value))
            return refused(
                fmt::format("{}: {} needs librdkafka 2.3, this is {} (settings)", name, value, rd_kafka_version_str()));
        if (auto done = set(config, name, value); !done) return done;
    }
    return Done{};
}

Result<ConfigPtr> make_config(const Options& options, Callbacks& callbacks) {
    if (options.brokers.empty()) return refused("no broker is named (brokers)");
    if (options.group.empty()) return refused("no group is named (group)");
    if (options.topics.empty()) return refused("no topic is named (topics)");
    ConfigPtr config(rd_kafka_conf_new());
    rd_kafka_conf_set_opaque(config.get(), &callbacks);
    rd_kafka_conf_set_rebalance_cb(config.get(), rebalance);
    rd_kafka_conf_set_offset_commit_cb(config.get(), committed);
    rd_kafka_conf_set_error_cb(config.get(), failed);
    rd_kafka_conf_set_log_cb(config.get(), silent);
    for (const auto& [name, value] : preferred) {
        if (auto done = set(*config, name, value); !done) return done.failure();
    }
    if (auto done = set_user_settings(*config, options); !done) return done.failure();
    for (const auto& [name, value] : required) {
        if (auto done = set(*config, name, value); !done) return done.failure();
    }
    if (auto done = set(*config, "bootstrap.servers", options.brokers); !done) return done.failure();
    if (auto done = set(*config, "group.id", options.group); !done) return done.failure();
    return config;
}

std::string bytes(const void* data, std::size_t size) {
    return data == nullptr ? std::string{} : std::string(static_cast<const char*>(data), size);
}

void read_headers(const rd_kafka_message_t& record, Message& message) {
    rd_kafka_headers_t* headers = nullptr;
    if (rd_kafka_message_headers(&record, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
    bool has_type = false;
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    for (std::size_t at = 0; rd_kafka_header_get_all(headers, at, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
         ++at) {
        if (std::string_view(name) == "content-type" && !std::exchange(has_type, true)) {
            message.content_type = bytes(value, size);
        } else {
            message.headers.push_back({name, bytes(value, size)});
        }
    }
}

}  // namespace

Result<ClientPtr> make_consumer(const Options& options, Callbacks& callbacks) {
    auto config = make_config(options, callbacks);
    if (!config) return config.failure();
    PartitionsPtr topics(rd_kafka_topic_partition_list_new(static_cast<int>(options.topics.size())));
    for (const std::string& topic : options.topics)
        rd_kafka_topic_partition_list_add(topics.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);

    std::array<char, 512> reason{};
    ClientPtr client(rd_kafka_new(RD_KAFKA_CONSUMER, config->get(), reason.data(), reason.size()));
    if (client == nullptr) return refused(fmt::format("{} (settings)", reason.data()));
    static_cast<void>(config->release());  // the client's now
    rd_kafka_poll_set_consumer(client.get());
    if (const auto error = rd_kafka_subscribe(client.get(), topics.get()); error != RD_KAFKA_RESP_ERR_NO_ERROR)
        return refused(fmt::format("{} (topics)", rd_kafka_err2str(error)));
    return client;
}

Message to_message(const rd_kafka_message_t& record) {
    Message message;
    message.binding = Binding::kafka;
    message.topic = rd_kafka_topic_name(record.rkt);
    message.ordering_key = record.key != nullptr ? bytes(record.key, record.key_len)
                                                 : fmt::format("{}/{}", message.topic, record.partition);
    message.position = fmt::format("{}/{}@{}", message.topic, record.partition, record.offset);
    message.body = bytes(record.payload, record.len);  // without one it says that its key is deleted
    rd_kafka_timestamp_type_t type{};
    const std::int64_t milliseconds = rd_kafka_message_timestamp(&record, &type);
    if (type != RD_KAFKA_TIMESTAMP_NOT_AVAILABLE && milliseconds >= 0)
        message.published = time_from_micros(milliseconds * 1000);
    read_headers(record, message);
    return message;
}

}  // namespace semel::kafka
