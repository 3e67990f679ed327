// A thin layer over cnats: one connection, and the pull consumer's few words on it.
//
// Messages are asked for with JetStream's own requests rather than with natsSubscription_Fetch, which cannot ask for "all
// there is, as soon as there is one": it either waits for the whole batch or not at all. What the server still sends
// when a request was given up stays in the inbox for the next time.
//
// The library reconnects by itself, for ever. Words for the server wait in its buffer meanwhile; a request that was open
// is forgotten by the server, which is what `epoch` is for.
#pragma once

#include <nats/nats.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "consumers/nats/delivered_message.hpp"
#include "consumers/nats/handles.hpp"
#include "semel/nats.hpp"
#include "semel/result.hpp"

namespace semel::nats {

/// What the consumer on the server was made with; it may have been made by others.
struct Terms {
    Duration ack_wait{};
    std::int64_t batch_max = 0;  ///< zero: no limit
    Duration request_max{};      ///< zero: no limit
};

/// Nothing came in time.
struct Nothing {};
/// The server has ended the request: 404 no messages, 408 over or others come first, 409 and 503 as the text says.
struct Ended {
    int status = 0;
    std::string text{};
};

using Next = std::variant<Nothing, Delivered, Ended>;

class Wire {
public:
    /// unavailable: no server answers. invalid: it refused us.
    static Result<std::unique_ptr<Wire>> connect(const Options& options);

    [[nodiscard]] bool connected() const;
    [[nodiscard]] bool closed() const;          ///< the library has given up: a new wire is needed
    [[nodiscard]] std::uint64_t epoch() const;  ///< differs for each connection: a reconnect, another wire
    [[nodiscard]] Failure failed(Code code, std::string_view what, std::string_view why) const;

    /// Finds the consumer, or makes it if it may be made. invalid: there is no such stream, or a consumer of that name with
    /// which this cannot work.
    Result<Terms> find_consumer(const Options& options, bool may_make);

    /// Asks for what there is up to `batch`, or for the first that comes within `expires`. Not more than one request is of
    /// interest at a time: the end of an earlier one is not reported.
    Status request(std::size_t batch, Duration expires);
    Result<Next> next(Duration wait);
    [[nodiscard]] std::size_t waiting() const;  ///< messages in the inbox

    /// Sends one word about a delivery. It may wait in a buffer; they arrive in order.
    Status say(const std::string& reply, std::string_view word);
    /// The same, and waits for the server's receipt.
    Status confirm(const std::string& reply, std::string_view word, Duration wait);

    /// Sends what is in the buffer, as far as that can be done in this time.
    void close(Duration wait);

private:
    Wire() = default;
    Result<ConsumerInfoHandle> look_up(const Options& options, std::string_view what);
    Result<ConsumerInfoHandle> make(const Options& options);
    [[nodiscard]] Failure refused(std::string_view what, natsStatus status, jsErrCode error) const;

    std::string where_;  ///< consumer and addresses, for messages
    std::string ordering_header_;
    std::string next_subject_;  ///< where requests go
    std::string inbox_;         ///< where the answers come, followed by the request's number
    std::string answers_to_;    ///< the inbox of the last request
    std::uint64_t requests_ = 0;
    std::uint64_t number_ = 0;  ///< of the wire, in this process
    std::int64_t api_millis_max_ = 0;
    ConnectionHandle connection_;
    JetStreamHandle jet_stream_;
    SubscriptionHandle subscription_;
};

}  // namespace semel::nats
