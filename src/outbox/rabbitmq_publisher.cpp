// Events to RabbitMQ: persistent, mandatory, with publisher confirms.
//
// The broker answers by numbers that count what was published on the channel: basic.ack and basic.nack, perhaps for all up to
// one. What it cannot route it returns first, with its properties, and acknowledges then: a returned event is refused.
//
// An event that it does not take, which is larger than its max_message_size, makes it close the channel, without saying which
// it was. Then those that were on their way are suspects: they go one at a time, and the one that closes the channel alone is
// refused.
#include <amqp.h>
#include <amqp_framing.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "consumers/rabbitmq/log_in.hpp"
#include "consumers/rabbitmq/timeval.hpp"
#include "outbox/cloud_event.hpp"
#include "outbox/publishers.hpp"

namespace semel::outbox {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds answer_max{30};
constexpr amqp_channel_t channel = 1;
constexpr std::size_t short_bytes_max = 255;  // of a routing key, an exchange or a content type
constexpr std::uint8_t persistent = 2;
/// So long suspects are looked for: somebody else may have published them.
constexpr std::chrono::seconds careful_for{30};
/// Beside the headers in their frame.
constexpr std::size_t frame_rest = 2048;

/// librabbitmq only reads it.
amqp_bytes_t bytes_of(std::string_view text) {
    return {text.size(), const_cast<char*>(text.data())};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
}
std::string_view text_of(amqp_bytes_t bytes) { return {static_cast<const char*>(bytes.bytes), bytes.len}; }

class RabbitmqPublisher final : public Publisher {
public:
    RabbitmqPublisher(RabbitmqOptions options, rabbitmq::Address address)
        : options_(std::move(options)), address_(std::move(address)) {}

    Result<Handed> publish(const OutboxRow& row) override {
        if (auto begun = begin(); !begun) return begun.failure();
        const Event& event = row.staged.event;
        if (row.staged.topic.size() > short_bytes_max)
            return Handed{fmt::format("the routing key has more than {} bytes (topic)", short_bytes_max)};
        if (event.data_content_type.size() > short_bytes_max || event.id.size() > short_bytes_max)
            return Handed{fmt::format("its id or content type has more than {} bytes", short_bytes_max)};
        auto headers = binary_headers(event, "cloudEvents:", Encoding::plain);
        if (!row.staged.ordering_key.empty()) headers.push_back({ordering_header, row.staged.ordering_key});
        std::vector<amqp_table_entry_t> entries;
        std::size_t header_bytes = frame_rest;
        for (const auto& [name, value] : headers) {
            header_bytes += name.size() + value.size() + 8;
            amqp_table_entry_t entry{};
            entry.key = bytes_of(name);
            entry.value.kind = AMQP_FIELD_KIND_UTF8;
            entry.value.value.bytes = bytes_of(value);
            entries.push_back(entry);
        }
        if (const auto most = static_cast<std::size_t>(amqp_get_frame_max(connection_.get()));
            most > 0 && header_bytes > most)
            return Handed{fmt::format("its attributes do not fit into a frame of {} bytes (extensions)", most)};
        // Which one was returned is seen by this.
        const std::string number = std::to_string(published_ + 1);
        amqp_basic_properties_t properties{};
        properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                            AMQP_BASIC_CORRELATION_ID_FLAG;
        properties.delivery_mode = persistent;
        properties.headers = {static_cast<int>(entries.size()), entries.data()};
        properties.message_id = bytes_of(event.id);
        properties.correlation_id = bytes_of(number);
        if (!event.data_content_type.empty()) {
            properties._flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
            properties.content_type = bytes_of(event.data_content_type);
        }
        const int status = amqp_basic_publish(connection_.get(), channel, bytes_of(options_.exchange),
                                              bytes_of(row.staged.topic), 1, 0, &properties, bytes_of(event.data));
        if (status != AMQP_STATUS_OK) return failed(amqp_error_string2(status));
        if (expected_.empty()) heard_ = Steady::now();
        expected_.emplace(++published_, row.place);
        return Handed{};
    }

    Result<std::vector<Receipt>> receipts(Duration wait) override {
        const auto until = Steady::now() + wait;
        while (connection_ && !expected_.empty() && broken_.empty()) {
            const auto left = std::chrono::duration_cast<Duration>(until - Steady::now());
            auto read = read_frame(came_.empty() ? std::max(left, Duration::zero()) : Duration::zero());
            if (!read) {
                broken_ = read.failure().message;
                break;
            }
            if (!*read && (!came_.empty() || left <= Duration::zero())) break;
        }
        // What was confirmed is told before what went wrong.
        if (came_.empty() && !broken_.empty()) return Failure{Code::unavailable, broken_};
        if (came_.empty() && !expected_.empty() && Steady::now() - heard_ > answer_max)
            return failed(fmt::format("no answer in {} s", answer_max.count()));
        if (!came_.empty()) heard_ = Steady::now();
        return std::exchange(came_, {});
    }

    [[nodiscard]] bool keeps_order() const override { return false; }
    [[nodiscard]] std::size_t on_their_way_max() const override {
        return !suspects_.empty() && Steady::now() < careful_until_ ? 1 : Publisher::on_their_way_max();
    }
    void start_over() override {
        connection_.reset();
        closed_ = false;
        broken_.clear();
        expected_.clear();
        returned_.clear();
        came_.clear();
        returning_.reset();
        published_ = 0;
    }
    [[nodiscard]] std::string text() const override { return "rabbitmq at " + address_.text(); }

private:
    Failure failed(std::string_view why) const {
        return {Code::unavailable, fmt::format("publish to {}: {}", text(), why)};
    }

    Status begin() {
        if (closed_) start_over();  // nothing is on its way
        if (connection_) return Done{};
        connection_.reset(amqp_new_connection());
        Status done = rabbitmq::log_in(connection_.get(), options_.connection, address_, text());
        const auto asked = [&](std::string_view what) -> Status {
            const auto reply = amqp_get_rpc_reply(connection_.get());
            if (reply.reply_type == AMQP_RESPONSE_NORMAL) return Done{};
            return rabbitmq::refused(text(), what, reply);
        };
        if (done) {
            amqp_channel_open(connection_.get(), channel);
            done = asked("open a channel");
        }
        if (done) {
            amqp_confirm_select(connection_.get(), channel);
            done = asked("ask for confirms");
        }
        if (!done) connection_.reset();
        return done;
    }

    /// One frame, waiting at most that long; false: none came.
    Result<bool> read_frame(Duration wait) {
        amqp_frame_t frame{};
        const timeval timeout = rabbitmq::timeval_of(wait);
        const int status = amqp_simple_wait_frame_noblock(connection_.get(), &frame, &timeout);
        if (status == AMQP_STATUS_TIMEOUT) return false;
        if (status != AMQP_STATUS_OK) return failed(amqp_error_string2(status));
        if (frame.frame_type == AMQP_FRAME_HEADER && returning_) {
            const auto& properties = *static_cast<const amqp_basic_properties_t*>(frame.payload.properties.decoded);
            const std::string number(text_of(properties.correlation_id));
            returned_[std::strtoull(number.c_str(), nullptr, 10)] = *std::exchange(returning_, std::nullopt);
        }
        if (frame.frame_type == AMQP_FRAME_METHOD)
            if (auto handled = method(frame.payload.method); !handled) return handled.failure();
        amqp_maybe_release_buffers_on_channel(connection_.get(), channel);
        return true;
    }

    Status method(const amqp_method_t& method) {
        switch (method.id) {
            case AMQP_BASIC_RETURN_METHOD: {
                const auto& returned = *static_cast<const amqp_basic_return_t*>(method.decoded);
                returning_ = fmt::format("returned: {} (exchange, topic)", text_of(returned.reply_text));
                return Done{};
            }
            case AMQP_BASIC_ACK_METHOD: {
                const auto& ack = *static_cast<const amqp_basic_ack_t*>(method.decoded);
                settle(ack.delivery_tag, ack.multiple != 0, "");
                return Done{};
            }
            case AMQP_BASIC_NACK_METHOD: {
                const auto& nack = *static_cast<const amqp_basic_nack_t*>(method.decoded);
                settle(nack.delivery_tag, nack.multiple != 0, "not taken: a queue is full, or has failed");
                return Done{};
            }
            case AMQP_CHANNEL_CLOSE_METHOD: {
                const auto& close = *static_cast<const amqp_channel_close_t*>(method.decoded);
                if (close.reply_code != AMQP_PRECONDITION_FAILED) return failed(text_of(close.reply_text));
                return suspect(std::string(text_of(close.reply_text)));
            }
            case AMQP_CONNECTION_CLOSE_METHOD:
                return failed(text_of(static_cast<const amqp_connection_close_t*>(method.decoded)->reply_text));
            default: return Done{};
        }
    }

    /// The channel was closed for one of those on their way.
    Status suspect(std::string why) {
        if (expected_.size() != 1) {
            for (const auto& [number, place] : expected_) suspects_.insert(place);
            careful_until_ = Steady::now() + careful_for;
            return failed(why);
        }
        came_.push_back({expected_.begin()->second, Receipt::What::refused, std::move(why)});
        expected_.clear();
        suspects_.clear();
        closed_ = true;
        return Done{};
    }

    void settle(std::uint64_t number, bool multiple, const std::string& refusal) {
        const auto end = expected_.upper_bound(number);
        auto at = multiple ? expected_.begin() : expected_.find(number);
        while (at != expected_.end() && at != end) {
            const auto returned = returned_.find(at->first);
            std::string why = returned != returned_.end() ? returned->second : refusal;
            const auto what = why.empty() ? Receipt::What::confirmed : Receipt::What::refused;
            came_.push_back({at->second, what, std::move(why)});
            if (returned != returned_.end()) returned_.erase(returned);
            suspects_.erase(at->second);
            at = expected_.erase(at);
        }
    }

    struct Destroy {
        void operator()(amqp_connection_state_t state) const { amqp_destroy_connection(state); }
    };
    RabbitmqOptions options_;
    rabbitmq::Address address_;
    std::unique_ptr<amqp_connection_state_t_, Destroy> connection_;
    std::map<std::uint64_t, OutboxPlace> expected_;  ///< by the number on the channel
    std::map<std::uint64_t, std::string> returned_;  ///< and why
    std::optional<std::string> returning_;           ///< a return whose properties come next
    std::vector<Receipt> came_;
    std::uint64_t published_ = 0;
    std::set<OutboxPlace> suspects_;  ///< on their way when the channel was closed for one of them
    Steady::time_point careful_until_{};
    bool closed_ = false;  ///< the channel, for an event that has its receipt
    std::string broken_;   ///< what went wrong
    Steady::time_point heard_{};
};

}  // namespace

Result<std::unique_ptr<Publisher>> open_rabbitmq(const RabbitmqOptions& options) {
    auto address = rabbitmq::parse_address(options.connection.url);
    if (!address) return address.failure();
    if (options.exchange.size() > short_bytes_max)
        return Failure{Code::invalid, fmt::format("rabbitmq: exchange has more than {} bytes", short_bytes_max)};
    return std::unique_ptr<Publisher>(std::make_unique<RabbitmqPublisher>(options, std::move(*address)));
}

}  // namespace semel::outbox
