// From an address to a channel that consumes: the part of Wire that asks and waits for each answer.
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "consumers/rabbitmq/timeval.hpp"
#include "consumers/rabbitmq/wire.hpp"

namespace semel::rabbitmq {
namespace {

constexpr int frame_bytes_max = 131072;

amqp_bytes_t bytes_of(std::string& text) { return {text.size(), text.data()}; }
amqp_bytes_t bytes_of(const char* text) { return amqp_cstring_bytes(text); }

/// librabbitmq takes one file and has no call for "the system's".
std::string system_ca_file() {
    if (const char* named = std::getenv("SSL_CERT_FILE"); named != nullptr) return named;
    for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                             "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
        std::error_code error;
        if (std::filesystem::exists(file, error)) return file;
    }
    return "";
}

/// The socket, which belongs to the connection; null: out of memory, or the file of authorities cannot be read.
amqp_socket_t* make_socket(amqp_connection_state_t connection, bool tls, const std::string& ca_file) {
    if (!tls) return amqp_tcp_socket_new(connection);
    amqp_socket_t* const socket = amqp_ssl_socket_new(connection);
    if (socket == nullptr) return nullptr;
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    const std::string file = ca_file.empty() ? system_ca_file() : ca_file;
    return amqp_ssl_socket_set_cacert(socket, file.c_str()) == AMQP_STATUS_OK ? socket : nullptr;
}

/// Whether the same attempt would be refused again.
Code code_of(int reply_code, std::string_view text) {
    constexpr int access_refused = 403;
    constexpr int not_found = 404;
    constexpr int not_allowed = 530;
    const bool full = text.find("limit") != std::string_view::npos;  // too many connections: these go away
    const bool away = text.find("down or inaccessible") != std::string_view::npos;  // the queue's node: it comes back
    if (away) return Code::unavailable;
    if (reply_code == access_refused || reply_code == not_found) return Code::invalid;
    return reply_code == not_allowed && !full ? Code::invalid : Code::unavailable;
}

struct Close {
    int code = 0;
    std::string text{};
};

/// Why the server closed the channel or the connection, if that is what the reply says.
std::optional<Close> close_in(const amqp_rpc_reply_t& reply) {
    if (reply.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION) return std::nullopt;
    const auto read = [](const auto* close) {
        return Close{close->reply_code,
                     std::string(static_cast<const char*>(close->reply_text.bytes), close->reply_text.len)};
    };
    if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        return read(static_cast<const amqp_channel_close_t*>(reply.reply.decoded));
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        return read(static_cast<const amqp_connection_close_t*>(reply.reply.decoded));
    return std::nullopt;
}

}  // namespace

Result<std::unique_ptr<Wire>> Wire::connect(const Options& options, const Address& address) {
    std::unique_ptr<Wire> wire(new Wire(options, address));
    if (auto done = wire->log_in(options, address); !done) return std::move(done).failure();
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
    if (const auto close = close_in(reply)) return failed(code_of(close->code, close->text), what, close->text);
    return failed(Code::unavailable, what,
                  reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION ? amqp_error_string2(reply.library_error)
                                                                      : "connection closed");
}

Status Wire::log_in(const Options& options, const Address& address) {
    if (connection_ == nullptr) return failed(Code::unavailable, "connect", "out of memory");
    auto* const connection = connection_.get();
    amqp_socket_t* const socket = make_socket(connection, address.tls, options.ca_file);
    if (socket == nullptr)
        return failed(Code::invalid, "connect", "the file of certificate authorities cannot be read (ca_file)");
    const timeval timeout = timeval_of(options.connect_timeout);
    if (const int opened = amqp_socket_open_noblock(socket, address.host.c_str(), address.port, &timeout);
        opened != AMQP_STATUS_OK)
        return failed(Code::unavailable, "connect", fmt::format("{} (url)", amqp_error_string2(opened)));
    // Without these two a server that says nothing keeps us for ever.
    amqp_set_handshake_timeout(connection, &timeout);
    amqp_set_rpc_timeout(connection, &timeout);

    // Else nobody would tell us that the queue was deleted.
    amqp_table_entry_t cancel_notify{};
    cancel_notify.key = bytes_of("consumer_cancel_notify");
    cancel_notify.value.kind = AMQP_FIELD_KIND_BOOLEAN;
    cancel_notify.value.value.boolean = 1;
    std::array<amqp_table_entry_t, 2> entries{};
    entries[0].key = bytes_of("capabilities");
    entries[0].value.kind = AMQP_FIELD_KIND_TABLE;
    entries[0].value.value.table = {1, &cancel_notify};
    entries[1].key = bytes_of("connection_name");
    entries[1].value.kind = AMQP_FIELD_KIND_UTF8;
    entries[1].value.value.bytes = bytes_of("semel");
    const amqp_table_t properties{static_cast<int>(entries.size()), entries.data()};

    const auto heartbeat = std::chrono::ceil<std::chrono::seconds>(options.heartbeat).count();
    const auto reply =
        amqp_login_with_properties(connection, address.vhost.c_str(), 0, frame_bytes_max, static_cast<int>(heartbeat),
                                   &properties, AMQP_SASL_METHOD_PLAIN, address.user.c_str(), address.password.c_str());
    if (reply.reply_type != AMQP_RESPONSE_NORMAL) {
        Failure failure = refused("log in", reply);
        failure.message += " (url)";
        return failure;
    }
    return Done{};
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
