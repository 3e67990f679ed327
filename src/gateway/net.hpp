// Sockets and coroutines of the gateway: one type of executor, so that nothing is erased, and one stream that is plain or
// TLS. Everything here belongs to one thread: that of its io_context.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

namespace semel::gateway {

namespace asio = boost::asio;

using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<asio::ip::tcp, Executor>;
using Error = boost::system::error_code;

template <class T = void>
using Task = asio::awaitable<T, Executor>;

/// Completes with (error, …) instead of throwing.
using Tuple = asio::as_tuple_t<asio::use_awaitable_t<Executor>>;
inline constexpr Tuple as_tuple{};

/// How many bytes, or why not.
using Transfer = std::tuple<Error, std::size_t>;

/// A connection, plain or TLS. Reads and writes complete with (error, bytes).
class Stream {
public:
    using Tls = asio::ssl::stream<Socket>;

    explicit Stream(Socket socket) : plain_(std::move(socket)) {}
    Stream(Socket socket, asio::ssl::context& context)
        : plain_(socket.get_executor()), tls_(std::make_unique<Tls>(std::move(socket), context)) {}

    Task<Transfer> read_some(asio::mutable_buffer into) {
        return tls_ ? tls_->async_read_some(into, as_tuple) : plain_.async_read_some(into, as_tuple);
    }
    Task<Transfer> write(std::string_view bytes) {
        return tls_ ? asio::async_write(*tls_, asio::buffer(bytes), as_tuple)
                    : asio::async_write(plain_, asio::buffer(bytes), as_tuple);
    }
    /// Two pieces with one system call where that is possible.
    Task<Transfer> write(std::string_view first, std::string_view second) {
        if (second.empty()) return write(first);
        const std::array<asio::const_buffer, 2> both{asio::buffer(first), asio::buffer(second)};
        return tls_ ? asio::async_write(*tls_, both, as_tuple) : asio::async_write(plain_, both, as_tuple);
    }

    [[nodiscard]] Socket& socket() { return tls_ ? tls_->next_layer() : plain_; }
    [[nodiscard]] Tls* tls() { return tls_.get(); }

    /// What is pending completes with operation_aborted.
    void cancel() {
        Error ignored;
        socket().cancel(ignored);
    }
    void close() {
        Error ignored;
        socket().close(ignored);
    }

private:
    Socket plain_;
    std::unique_ptr<Tls> tls_;
};

}  // namespace semel::gateway
