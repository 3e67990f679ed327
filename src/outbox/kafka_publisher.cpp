// Events to Apache Kafka, by the idempotent producer of librdkafka with acks=all.
//
// Fast: many events of one key are on their way at once, and the producer keeps their order, since it fails as a whole rather
// than leave a gap (enable.gapless.guarantee). After such a failure nobody knows what has arrived, and one event that no
// broker takes would make it fail again and again. So it is careful for a while: one event of a key at a time, without that
// guarantee, which then is not needed; an event that is refused is told apart from the others.
#include <fmt/format.h>
#include <librdkafka/rdkafka.h>

#include <array>
#include <chrono>

#include "consumers/kafka/client.hpp"
#include "outbox/cloud_event.hpp"
#include "outbox/publishers.hpp"

namespace semel::outbox {
namespace {

using Steady = std::chrono::steady_clock;
using kafka::ClientPtr;
using kafka::ConfigPtr;
using Setting = std::pair<const char*, const char*>;

constexpr std::chrono::seconds careful_for{30};
constexpr std::chrono::seconds answer_max{60};

/// What order and safety rest on.
constexpr std::array<Setting, 4> required{{
    {"enable.idempotence", "true"},
    {"acks", "all"},
    {"partitioner", "murmur2_random"},
    {"message.timeout.ms", "0"},  // the table is the queue: nothing is given up by itself
}};

/// What a user may want otherwise.
constexpr std::array<Setting, 4> preferred{{
    {"linger.ms", "1"},
    {"reconnect.backoff.max.ms", "1000"},
    {"socket.connection.setup.timeout.ms", "10000"},
    {"topic.metadata.propagation.max.ms", "5000"},  // until a topic that nobody knows is taken for missing
}};

constexpr std::array<Setting, 5> ours{{
    {"bootstrap.servers", "brokers"},
    {"metadata.broker.list", "brokers"},
    {"request.required.acks", "nothing: it is all"},
    {"delivery.timeout.ms", "nothing: an event is tried for ever"},
    {"enable.gapless.guarantee", "nothing: it is taken care of"},
}};

Failure refused(std::string_view why) { return {Code::invalid, fmt::format("kafka: {}", why)}; }

Status set(rd_kafka_conf_t& config, const std::string& name, const std::string& value) {
    std::array<char, 512> reason{};
    if (rd_kafka_conf_set(&config, name.c_str(), value.c_str(), reason.data(), reason.size()) == RD_KAFKA_CONF_OK)
        return Done{};
    return refused(fmt::format("{} (settings: {})", reason.data(), name));
}

/// Whether it is about the event or its topic, and not about the broker.
bool is_refusal(rd_kafka_resp_err_t error) {
    switch (static_cast<int>(error)) {
        case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        case RD_KAFKA_RESP_ERR_INVALID_MSG:
        case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
        case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
        case RD_KAFKA_RESP_ERR_INVALID_RECORD:
        case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
        case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
        case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        case RD_KAFKA_RESP_ERR__INVALID_ARG: return true;
        default: return false;
    }
}

class KafkaPublisher final : public Publisher {
public:
    explicit KafkaPublisher(KafkaOptions options) : options_(std::move(options)) {}
    ~KafkaPublisher() override { end(); }
    KafkaPublisher(const KafkaPublisher&) = delete;
    KafkaPublisher& operator=(const KafkaPublisher&) = delete;

    Result<ConfigPtr> config() {
        if (options_.brokers.empty()) return refused("no broker is named (brokers)");
        ConfigPtr config(rd_kafka_conf_new());
        rd_kafka_conf_set_opaque(config.get(), this);
        rd_kafka_conf_set_dr_msg_cb(config.get(), [](rd_kafka_t*, const rd_kafka_message_t* message, void* self) {
            static_cast<KafkaPublisher*>(self)->reported(*message);
        });
        rd_kafka_conf_set_error_cb(config.get(), [](rd_kafka_t*, int error, const char* reason, void* self) {
            static_cast<KafkaPublisher*>(self)->failed(static_cast<rd_kafka_resp_err_t>(error),
                                                       reason == nullptr ? "" : reason);
        });
        rd_kafka_conf_set_log_cb(config.get(), [](const rd_kafka_t*, int, const char*, const char*) {});
        for (const auto& [name, value] : preferred)
            if (auto done = set(*config, name, value); !done) return done.failure();
        for (const auto& [name, value] : options_.settings) {
            for (const auto& [taken, needed] : required)
                if (name == taken)
                    return refused(
                        fmt::format("{} has to be {} for events to be published in order (settings)", name, needed));
            for (const auto& [taken, instead] : ours)
                if (name == taken)
                    return refused(fmt::format("{}: the setting for it is {} (settings)", name, instead));
            if (auto done = set(*config, name, value); !done) return done.failure();
        }
        for (const auto& [name, value] : required)
            if (auto done = set(*config, name, value); !done) return done.failure();
        if (auto done = set(*config, "enable.gapless.guarantee", careful_ ? "false" : "true"); !done)
            return done.failure();
        if (auto done = set(*config, "bootstrap.servers", options_.brokers); !done) return done.failure();
        return config;
    }

    Result<Handed> publish(const OutboxRow& row) override {
        if (careful_ && on_their_way_ == 0 && Steady::now() > careful_until_) {
            end();
            careful_ = false;
        }
        if (auto begun = begin(); !begun) return begun.failure();
        // librdkafka takes the headers over if it takes the event.
        rd_kafka_headers_t* headers = rd_kafka_headers_new(16);
        const Event& event = row.staged.event;
        for (const auto& [name, value] : binary_headers(event, "ce_", Encoding::plain))
            rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                                static_cast<ssize_t>(value.size()));
        if (!event.data_content_type.empty())
            rd_kafka_header_add(headers, "content-type", -1, event.data_content_type.data(),
                                static_cast<ssize_t>(event.data_content_type.size()));
        const std::string& key = row.staged.ordering_key;
        auto place = std::make_unique<OutboxPlace>(row.place);
        // librdkafka only reads the memory, and copies it.
        const auto memory = [](const std::string& text) {
            return const_cast<char*>(text.data());  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        };
        std::array<rd_kafka_vu_t, 6> parts{};
        parts[0].vtype = RD_KAFKA_VTYPE_TOPIC;
        parts[0].u.cstr = row.staged.topic.c_str();
        parts[1].vtype = RD_KAFKA_VTYPE_VALUE;
        parts[1].u.mem = {memory(event.data), event.data.size()};
        parts[2].vtype = RD_KAFKA_VTYPE_KEY;
        parts[2].u.mem = {key.empty() ? nullptr : memory(key), key.size()};
        parts[3].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
        parts[3].u.i = RD_KAFKA_MSG_F_COPY;
        parts[4].vtype = RD_KAFKA_VTYPE_HEADERS;
        parts[4].u.headers = headers;
        parts[5].vtype = RD_KAFKA_VTYPE_OPAQUE;
        parts[5].u.ptr = place.get();
        const kafka::ErrorPtr failure(rd_kafka_produceva(client_.get(), parts.data(), parts.size()));
        const auto error = failure == nullptr ? RD_KAFKA_RESP_ERR_NO_ERROR : rd_kafka_error_code(failure.get());
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
            static_cast<void>(place.release());  // until its report
            if (on_their_way_++ == 0) heard_ = Steady::now();
            return Handed{};
        }
        rd_kafka_headers_destroy(headers);
        if (is_refusal(error)) return Handed{rd_kafka_err2str(error)};
        return broken(rd_kafka_err2str(error));
    }

    Result<std::vector<Receipt>> receipts(Duration wait) override {
        if (client_ == nullptr) return std::vector<Receipt>{};
        // Serves what has come, and waits for more only if there is nothing yet.
        rd_kafka_poll(client_.get(), 0);
        const auto until = Steady::now() + wait;
        while (came_.empty() && why_.empty() && Steady::now() < until) {
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Steady::now());
            rd_kafka_poll(client_.get(), static_cast<int>(left.count()));
        }
        if (!came_.empty()) heard_ = Steady::now();
        if (why_.empty() && on_their_way_ > 0 && Steady::now() - heard_ > answer_max)
            why_ = fmt::format("no answer in {} s", answer_max.count());
        // What was confirmed is told before what went wrong.
        if (came_.empty() && !why_.empty()) return broken(why_);
        return std::exchange(came_, {});
    }

    [[nodiscard]] bool keeps_order() const override { return !careful_; }
    [[nodiscard]] std::size_t on_their_way_max() const override { return 10'000; }

    void start_over() override {
        const bool gapped = gapped_;
        end();
        if (gapped) {
            careful_ = true;
            careful_until_ = Steady::now() + careful_for;
        }
    }

    [[nodiscard]] std::string text() const override { return "kafka at " + options_.brokers; }

private:
    Failure broken(std::string_view why) const {
        return {Code::unavailable, fmt::format("publish to {}: {}", text(), why)};
    }

    Status begin() {
        if (client_ != nullptr) return Done{};
        auto made = config();
        if (!made) return made.failure();
        std::array<char, 512> reason{};
        client_.reset(rd_kafka_new(RD_KAFKA_PRODUCER, made->get(), reason.data(), reason.size()));
        if (client_ == nullptr) return refused(fmt::format("{} (settings)", reason.data()));
        static_cast<void>(made->release());  // the client's now
        return Done{};
    }

    void end() {
        if (client_ != nullptr) {
            rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
            rd_kafka_flush(client_.get(), 1000);  // the reports of what was purged
            client_.reset();
        }
        came_.clear();
        why_.clear();
        on_their_way_ = 0;
        gapped_ = false;  // what was purged is no gap
    }

    void reported(const rd_kafka_message_t& message) {
        const std::unique_ptr<OutboxPlace> place(static_cast<OutboxPlace*>(message._private));
        --on_their_way_;
        if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            came_.push_back({*place, Receipt::What::confirmed, ""});
        } else if (careful_ && is_refusal(message.err)) {
            came_.push_back({*place, Receipt::What::refused, rd_kafka_err2str(message.err)});
        } else if (why_.empty()) {
            gapped_ = true;
            why_ = rd_kafka_err2str(message.err);
        }
    }

    void failed(rd_kafka_resp_err_t error, const std::string& reason) {
        const bool fatal = error == RD_KAFKA_RESP_ERR__FATAL;
        if (!fatal && error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && error != RD_KAFKA_RESP_ERR__AUTHENTICATION &&
            error != RD_KAFKA_RESP_ERR__RESOLVE)
            return;
        if (fatal) gapped_ = true;
        if (why_.empty()) why_ = reason;
    }

    KafkaOptions options_;
    ClientPtr client_;
    std::vector<Receipt> came_;
    std::string why_;  ///< what went wrong
    std::size_t on_their_way_ = 0;
    Steady::time_point heard_{};
    bool gapped_ = false;
    bool careful_ = false;
    Steady::time_point careful_until_{};
};

}  // namespace

Result<std::unique_ptr<Publisher>> open_kafka(const KafkaOptions& options) {
    auto publisher = std::make_unique<KafkaPublisher>(options);
    if (auto fine = publisher->config(); !fine) return fine.failure();
    return std::unique_ptr<Publisher>(std::move(publisher));
}

}  // namespace semel::outbox
