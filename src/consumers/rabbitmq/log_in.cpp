#include "consumers/rabbitmq/log_in.hpp"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>

#include "consumers/rabbitmq/timeval.hpp"

namespace semel::rabbitmq {
namespace {

constexpr int frame_bytes_max = 131072;

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

}  // namespace

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

Failure refused(const std::string& where, std::string_view what, const amqp_rpc_reply_t& reply) {
    const auto failed = [&](Code code, std::string_view why) {
        return Failure{code, fmt::format("{} {}: {}", what, where, why)};
    };
    if (const auto close = close_in(reply)) return failed(code_of(close->code, close->text), close->text);
    return failed(Code::unavailable, reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION
                                         ? amqp_error_string2(reply.library_error)
                                         : "connection closed");
}

Status log_in(amqp_connection_state_t connection, const Options& options, const Address& address,
              const std::string& where) {
    const auto failed = [&](Code code, std::string_view what, std::string_view why) {
        return Failure{code, fmt::format("{} {}: {}", what, where, why)};
    };
    if (connection == nullptr) return failed(Code::unavailable, "connect", "out of memory");
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
        Failure failure = refused(where, "log in", reply);
        failure.message += " (url)";
        return failure;
    }
    return Done{};
}

}  // namespace semel::rabbitmq
