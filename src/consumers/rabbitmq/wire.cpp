#include "consumers/rabbitmq/wire.hpp"

#include <fmt/format.h>

#include "consumers/rabbitmq/delivered_message.hpp"
#include "consumers/rabbitmq/timeval.hpp"

namespace semel::rabbitmq {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::uint64_t body_bytes_max = 512ULL << 20;  // what RabbitMQ lets through at most

std::string_view text_of(amqp_bytes_t bytes) { return {static_cast<const char*>(bytes.bytes), bytes.len}; }

}  // namespace

Failure Wire::failed(Code code, std::string_view what, std::string_view why) const {
    return {code, fmt::format("{} {}: {}", what, where_, why)};
}

Result<bool> Wire::read(Duration wait) {
    amqp_frame_t frame{};
    const timeval timeout = timeval_of(wait);
    const int status = amqp_simple_wait_frame_noblock(connection_.get(), &frame, &timeout);
    if (status == AMQP_STATUS_TIMEOUT) return false;
    if (status != AMQP_STATUS_OK) return failed(Code::unavailable, "consume", amqp_error_string2(status));
    Status handled = Done{};
    switch (frame.frame_type) {
        case AMQP_FRAME_METHOD: handled = method(frame.payload.method); break;
        case AMQP_FRAME_HEADER: handled = header(frame); break;
        case AMQP_FRAME_BODY: handled = body(frame.payload.body_fragment); break;
        default: break;
    }
    if (!handled) return std::move(handled).failure();
    // Between messages nothing points into the library's buffers any more; without this they only grow.
    if (!partial_) amqp_maybe_release_buffers_on_channel(connection_.get(), channel_);
    return true;
}

Status Wire::method(const amqp_method_t& method) {
    switch (method.id) {
        case AMQP_BASIC_DELIVER_METHOD: {
            const auto* deliver = static_cast<const amqp_basic_deliver_t*>(method.decoded);
            partial_ = Partial{};
            partial_->tag = deliver->delivery_tag;
            partial_->redelivered = deliver->redelivered != 0;
            return Done{};
        }
        case AMQP_QUEUE_DECLARE_OK_METHOD: ++answered_; return Done{};
        case AMQP_BASIC_CANCEL_OK_METHOD: cancelled_ = true; return Done{};
        // Whether the queue comes back, was moved or is gone for good is seen by connecting again.
        case AMQP_BASIC_CANCEL_METHOD:
            return failed(Code::unavailable, "consume", "the queue was deleted or has moved");
        // Also sent when a delivery was not acknowledged within the server's consumer_timeout.
        case AMQP_CHANNEL_CLOSE_METHOD:
            return failed(Code::unavailable, "consume",
                          text_of(static_cast<const amqp_channel_close_t*>(method.decoded)->reply_text));
        case AMQP_CONNECTION_CLOSE_METHOD:
            return failed(Code::unavailable, "consume",
                          text_of(static_cast<const amqp_connection_close_t*>(method.decoded)->reply_text));
        default: return Done{};
    }
}

Status Wire::header(const amqp_frame_t& frame) {
    const auto& properties = frame.payload.properties;
    if (!partial_ || partial_->message || properties.body_size > body_bytes_max)
        return failed(Code::unavailable, "consume", "the server sent a header that does not fit");
    partial_->message = message_of(*static_cast<const amqp_basic_properties_t*>(properties.decoded),
                                   partial_->redelivered, ordering_header_);
    partial_->message->topic = queue_;
    partial_->message->body.reserve(properties.body_size);
    partial_->body_bytes = properties.body_size;
    complete();
    return Done{};
}

Status Wire::body(amqp_bytes_t fragment) {
    if (!partial_ || !partial_->message || partial_->message->body.size() + fragment.len > partial_->body_bytes)
        return failed(Code::unavailable, "consume", "the server sent more of a message than it had announced");
    partial_->message->body.append(text_of(fragment));
    complete();
    return Done{};
}

void Wire::complete() {
    if (partial_->message->body.size() < partial_->body_bytes) return;
    arrived_.push_back({partial_->tag, *std::move(partial_->message)});
    partial_.reset();
}

Status Wire::ack(std::uint64_t tag, bool multiple) {
    const int status = amqp_basic_ack(connection_.get(), channel_, tag, multiple ? 1 : 0);
    if (status != AMQP_STATUS_OK) return failed(Code::unavailable, "acknowledge", amqp_error_string2(status));
    return Done{};
}

Status Wire::nack(std::uint64_t tag) {
    const int status = amqp_basic_nack(connection_.get(), channel_, tag, 0, 1);
    if (status != AMQP_STATUS_OK) return failed(Code::unavailable, "give back", amqp_error_string2(status));
    return Done{};
}

Result<bool> Wire::round_trip(Duration wait) {
    const auto deadline = Steady::now() + wait;
    amqp_queue_declare_t declare{};
    declare.queue = {queue_.size(), queue_.data()};
    declare.passive = 1;
    const int sent = amqp_send_method(connection_.get(), channel_, AMQP_QUEUE_DECLARE_METHOD, &declare);
    if (sent != AMQP_STATUS_OK) return failed(Code::unavailable, "flush", amqp_error_string2(sent));
    // Answers come in order: one to an earlier question that was given up does not count.
    const auto mine = ++asked_;
    while (answered_ < mine) {
        const auto left = std::chrono::duration_cast<Duration>(deadline - Steady::now());
        auto came = read(std::max(left, Duration::zero()));
        if (!came) return came;
        if (!*came && left <= Duration::zero()) return false;
    }
    return true;
}

void Wire::close(Duration wait) {
    // The server's end of the channel has at most some thirty acknowledgements on their way to a quorum queue; more wait
    // there until earlier ones are committed, and are forgotten when the channel ends. A cancel is answered when the queue
    // has committed it, hence all before it; by the round trip after it those that waited have been sent too.
    const auto deadline = Steady::now() + wait;
    amqp_basic_cancel_t cancel{};
    cancel.consumer_tag = amqp_cstring_bytes(consumer_tag);
    if (amqp_send_method(connection_.get(), channel_, AMQP_BASIC_CANCEL_METHOD, &cancel) != AMQP_STATUS_OK) return;
    while (!cancelled_) {
        const auto left = std::chrono::duration_cast<Duration>(deadline - Steady::now());
        const auto came = read(std::max(left, Duration::zero()));
        if (!came || (!*came && left <= Duration::zero())) return;
    }
    const auto left = std::chrono::duration_cast<Duration>(deadline - Steady::now());
    if (!round_trip(std::max(left, Duration::zero()))) return;
    constexpr timeval goodbye_max{1, 0};
    amqp_set_rpc_timeout(connection_.get(), &goodbye_max);
    amqp_connection_close(connection_.get(), AMQP_REPLY_SUCCESS);
}

}  // namespace semel::rabbitmq
