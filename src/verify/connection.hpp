// One TCP connection of a client, plain or TLS, whose every call ends by a deadline.
#pragma once

#include <openssl/ssl.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "http/url.hpp"
#include "semel/result.hpp"

namespace semel::verify {

using http::Url;
using Deadline = std::chrono::steady_clock::time_point;

/// How much time is left, in whole milliseconds for poll(2): 0 if none is.
int milliseconds_until(Deadline deadline);

/// What all TLS connections share: TLS 1.2 or later, certificates verified. Thread safe once made. Writing to a peer that
/// has gone raises SIGPIPE: whoever uses TLS ignores that signal.
class Tls {
public:
    /// `ca_file` empty: the system's authorities. `invalid`: the file cannot be read as certificates.
    static Result<Tls> make(const std::string& ca_file);
    [[nodiscard]] SSL_CTX* get() const { return context_.get(); }

private:
    explicit Tls(SSL_CTX* context) : context_(context) {}
    struct Free {
        void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
    };
    std::unique_ptr<SSL_CTX, Free> context_;
};

/// Closes when it ends, without a word: that is what hanging up is. Used by one thread at a time.
class Connection {
public:
    /// Tries every address of the host. `tls` is used for https only.
    static Result<Connection> open(const Url& url, const Tls& tls, Deadline deadline);

    /// All of the bytes. `indeterminate`: some of them may have been read by the peer.
    Status send(std::string_view bytes, Deadline deadline);

    /// At least one byte, as many as there are; 0: the peer closed its side.
    Result<std::size_t> receive(std::span<char> into, Deadline deadline);

private:
    class Socket {
    public:
        explicit Socket(int fd = -1) : fd_(fd) {}
        Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
        Socket& operator=(Socket&& other) noexcept {
            std::swap(fd_, other.fd_);
            return *this;
        }
        ~Socket();
        [[nodiscard]] int get() const { return fd_; }

    private:
        int fd_;
    };
    struct Free {
        void operator()(SSL* ssl) const { SSL_free(ssl); }
    };

    explicit Connection(Socket socket) : socket_(std::move(socket)) {}
    static Result<Socket> connect(const Url& url, Deadline deadline);
    Status start_tls(const Url& url, const Tls& tls, Deadline deadline);
    Status wait_for(short events, Deadline deadline);
    /// After a TLS call that did not succeed: waits for what it needs, or says why it cannot go on.
    Status wait_for_tls(int result, Deadline deadline);

    Socket socket_;
    std::unique_ptr<SSL, Free> ssl_;
};

}  // namespace semel::verify
