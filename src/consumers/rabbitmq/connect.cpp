// From an address to a channel that consumes: the part of Wire that asks and waits for each answer.
#include <fmt/format.h>

#include "consumers/rabbitmq/log_in.hpp"
#include "consumers/rabbitmq/wire.hpp"

namespace semel::rabbitmq {
namespace {

amqp_bytes_t bytes_of(std::string& text) { return {text.size(), text.data()}; }
amqp_bytes_t bytes_of(const char* text) { return amqp_cstring_bytes(text); }

}  // namespace

Result<std::unique_ptr<Wire>> Wire::connect(const Options& options, const Address& address) {
    std::unique_ptr<Wire> wire(new Wire(options, address));
    if (auto done = log_in(wire->connection_.get(), options, address, wire->where_); !done)
        return std::move(done).failure();
    if (auto done = wire->open_channel(); !done) return std::move(done).failure();
    if (auto done = wire->find_queue(options); !done) return std::move(done).failure();
    if (auto done = wire->start_consuming(options); !done) return std::move(done).failure();
    return wire;
}

Wire::Wire(const Options& options, const Address& address)
    : connection_(amqp_new_connection()),
      queue_(options.queue),
      ordering_header_(options.ordering_header),
      where_(fmt::format("{} at {}", options.queue, address.text())) {}

Failure Wire::refused(std::string_view what, const amqp_rpc_reply_t& reply) const {
    return rabbitmq::refused(where_, what, reply);
}

Status Wire::open_channel() {
    ++channel_;
    amqp_channel_open(connection_.get(), channel_);
    const auto reply = amqp_get_rpc_reply(connection_.get());
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) return refused("open a channel", reply);
    return Done{};
}

Status Wire::find_queue(const Options& options) {
    // Looked for first: a queue that is there is taken as it is, whatever its arguments, and needs no right to make one.
    auto* const connection = connection_.get();
    amqp_queue_declare(connection, channel_, bytes_of(queue_), 1, 0, 0, 0, amqp_empty_table);
    auto reply = amqp_get_rpc_reply(connection);
    if (reply.reply_type == AMQP_RESPONSE_NORMAL) return Done{};
    const auto close = close_in(reply);
    if (!close || close->code != AMQP_NOT_FOUND || reply.reply.id != AMQP_CHANNEL_CLOSE_METHOD)
        return refused("look for the queue", reply);
    if (!options.declare) {
        Failure failure = refused("look for the queue", reply);
        failure.message += " (queue, declare)";
        return failure;
    }
    // The answer "no" has closed the channel.
    amqp_channel_close_ok_t ok{};
    amqp_send_method(connection, channel_, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
    if (auto done = open_channel(); !done) return done;
    amqp_table_entry_t type{};
    type.key = bytes_of("x-queue-type");
    type.value.kind = AMQP_FIELD_KIND_UTF8;
    type.value.value.bytes = bytes_of("quorum");
    amqp_queue_declare(connection, channel_, bytes_of(queue_), 0, 1, 0, 0, amqp_table_t{1, &type});
    reply = amqp_get_rpc_reply(connection);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) return refused("declare the queue", reply);
    return Done{};
}

Status Wire::start_consuming(const Options& options) {
    auto* const connection = connection_.get();
    amqp_basic_qos(connection, channel_, 0, options.prefetch, 0);
    auto reply = amqp_get_rpc_reply(connection);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) return refused("set the prefetch", reply);
    amqp_basic_consume(connection, channel_, bytes_of(queue_), bytes_of(consumer_tag), 0, 0, 0, amqp_empty_table);
    reply = amqp_get_rpc_reply(connection);
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) return refused("consume", reply);
    return Done{};
}

}  // namespace semel::rabbitmq
