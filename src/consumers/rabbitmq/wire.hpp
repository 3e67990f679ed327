// A thin layer over librabbitmq: one connection, one channel on it that consumes one queue, and the frames that come in.
//
// After the handshake every frame is read here, one at a time and with a deadline: librabbitmq's own amqp_consume_message
// waits without one for the rest of a message that has begun, and cannot go on past the frames that come between.
//
// Heartbeats are sent and looked for only inside calls: see `read`.
#pragma once

#include <amqp.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "consumers/rabbitmq/address.hpp"
#include "semel/message.hpp"
#include "semel/rabbitmq.hpp"
#include "semel/result.hpp"

namespace semel::rabbitmq {

inline constexpr const char* consumer_tag = "semel";

/// A complete delivery. The tag counts up from 1 on each connection.
struct Arrived {
    std::uint64_t tag = 0;
    Message message{};
};

/// After any failure it is of no more use: the channel may be closed, and what was unacknowledged is the broker's again.
class Wire {
public:
    /// Connects, finds or makes the queue and starts consuming. invalid: refused for a reason that will not go away by
    /// itself. Takes up to options.connect_timeout for each of the few steps.
    static Result<std::unique_ptr<Wire>> connect(const Options& options, const Address& address);

    /// Reads one frame, waiting at most that long; false: none came. A heartbeat that is due is sent. A message that this
    /// frame completed is put into `arrived`.
    Result<bool> read(Duration wait);
    std::deque<Arrived>& arrived() { return arrived_; }

    /// The tag has to be unacknowledged on this connection: a second acknowledgement closes the channel.
    Status ack(std::uint64_t tag, bool multiple);
    Status nack(std::uint64_t tag);

    /// Waits until the queue has seen what was sent before; false: no answer in that time. There is no confirmation of an
    /// acknowledgement, but a channel is served in order, and this asks the queue itself.
    Result<bool> round_trip(Duration wait);

    /// Ends consuming and says goodbye: the broker requeues what is unacknowledged, and nothing else.
    void close(Duration wait);

private:
    Wire(const Options& options, const Address& address);
    Status open_channel();
    Status find_queue(const Options& options);
    Status start_consuming(const Options& options);

    Status method(const amqp_method_t& method);
    Status header(const amqp_frame_t& frame);
    Status body(amqp_bytes_t fragment);
    void complete();

    [[nodiscard]] Failure failed(Code code, std::string_view what, std::string_view why) const;
    [[nodiscard]] Failure refused(std::string_view what, const amqp_rpc_reply_t& reply) const;

    struct Destroy {
        void operator()(amqp_connection_state_t state) const { amqp_destroy_connection(state); }
    };
    /// A delivery whose frames have not all come yet.
    struct Partial {
        std::uint64_t tag = 0;
        bool redelivered = false;
        std::optional<Message> message{};
        std::uint64_t body_bytes = 0;
    };

    std::unique_ptr<amqp_connection_state_t_, Destroy> connection_;
    amqp_channel_t channel_ = 0;
    std::string queue_;
    std::string ordering_header_;
    std::string where_;  ///< queue and address, for messages
    std::optional<Partial> partial_;
    std::deque<Arrived> arrived_;
    std::uint64_t asked_ = 0;     ///< round trips begun
    std::uint64_t answered_ = 0;  ///< and completed
    bool cancelled_ = false;      ///< consuming was ended, by us
};

}  // namespace semel::rabbitmq
