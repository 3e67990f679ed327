#include "verify/connection.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <system_error>

#include "base/quote.hpp"

namespace semel::verify {
namespace {

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

Failure too_late(std::string_view what) { return {Code::indeterminate, fmt::format("{} in time (--timeout)", what)}; }

std::string tls_reason() {
    const unsigned long code = ERR_get_error();
    ERR_clear_error();
    const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
    return text == nullptr ? "the connection broke" : text;
}

/// Both spellings of a host that a certificate can name.
bool expect_host(SSL* ssl, const std::string& host) {
    unsigned char address[sizeof(in6_addr)];
    const bool is_address =
        inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
    if (is_address) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1;
    return SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
}

}  // namespace

int milliseconds_until(Deadline deadline) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, INT_MAX));
}

// ---- TLS ---------------------------------------------------------------------------------------------------------

Result<Tls> Tls::make(const std::string& ca_file) {
    Tls tls(SSL_CTX_new(TLS_client_method()));
    if (tls.get() == nullptr) return Failure{Code::exhausted, "TLS: " + tls_reason()};
    SSL_CTX_set_min_proto_version(tls.get(), TLS1_2_VERSION);
    SSL_CTX_set_verify(tls.get(), SSL_VERIFY_PEER, nullptr);
    // A server that closes without a TLS farewell has closed: whether its answer was whole is judged by HTTP's framing.
    SSL_CTX_set_options(tls.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
    if (ca_file.empty()) {
        SSL_CTX_set_default_verify_paths(tls.get());
    } else if (SSL_CTX_load_verify_locations(tls.get(), ca_file.c_str(), nullptr) != 1) {
        return Failure{Code::invalid, fmt::format("--cacert {}: no certificates in PEM form can be read from it ({})",
                                                  in_quotes(ca_file), tls_reason())};
    }
    return tls;
}

// ---- Connection --------------------------------------------------------------------------------------------------

Connection::Socket::~Socket() {
    if (fd_ >= 0) ::close(fd_);
}

Result<Connection> Connection::open(const Url& url, const Tls& tls, Deadline deadline) {
    auto socket = connect(url, deadline);
    if (!socket) return socket.failure();
    Connection connection(std::move(*socket));
    if (url.tls)
        if (auto started = connection.start_tls(url, tls, deadline); !started) return started.failure();
    return connection;
}

Result<Connection::Socket> Connection::connect(const Url& url, Deadline deadline) {
    const auto failed = [&](std::string_view why) {
        return Failure{Code::unavailable, fmt::format("connect to {}:{}: {}", url.host, url.port, why)};
    };
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); error != 0)
        return failed(gai_strerror(error));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
    std::string why = "it has no address";
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (socket.get() < 0) {
            why = reason(errno);
            continue;
        }
        if (::connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0) return socket;
        if (errno != EINPROGRESS) {
            why = reason(errno);
            continue;
        }
        pollfd waiting{.fd = socket.get(), .events = POLLOUT, .revents = 0};
        int ready = 0;
        while ((ready = ::poll(&waiting, 1, milliseconds_until(deadline))) < 0 && errno == EINTR) {
        }
        int error = ETIMEDOUT;
        socklen_t size = sizeof error;
        if (ready > 0) getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
        if (error == 0) return socket;
        why = reason(error);
    }
    return failed(why);
}

Status Connection::start_tls(const Url& url, const Tls& tls, Deadline deadline) {
    const auto failed = [&](std::string_view why) {
        return Failure{Code::unavailable, fmt::format("TLS with {}: {}", url.authority, why)};
    };
    ssl_.reset(SSL_new(tls.get()));
    if (!ssl_ || !expect_host(ssl_.get(), url.host) || SSL_set_fd(ssl_.get(), socket_.get()) != 1)
        return failed(tls_reason());
    while (true) {
        ERR_clear_error();
        const int result = SSL_connect(ssl_.get());
        if (result == 1) return Done{};
        const long verified = SSL_get_verify_result(ssl_.get());
        if (verified != X509_V_OK)
            return failed(
                fmt::format("its certificate is not accepted: {} (--cacert)", X509_verify_cert_error_string(verified)));
        if (auto ready = wait_for_tls(result, deadline); !ready) return failed(ready.failure().message);
    }
}

Status Connection::wait_for(short events, Deadline deadline) {
    pollfd waiting{.fd = socket_.get(), .events = events, .revents = 0};
    while (true) {
        const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
        if (ready > 0) return Done{};
        if (ready == 0) return too_late(events == POLLIN ? "no answer" : "the peer did not take the request");
        if (errno != EINTR) return Failure{Code::indeterminate, reason(errno)};
    }
}

Status Connection::wait_for_tls(int result, Deadline deadline) {
    switch (SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_WANT_READ: return wait_for(POLLIN, deadline);
        case SSL_ERROR_WANT_WRITE: return wait_for(POLLOUT, deadline);
        default: return Failure{Code::indeterminate, tls_reason()};
    }
}

Status Connection::send(std::string_view bytes, Deadline deadline) {
    while (!bytes.empty()) {
        std::size_t sent = 0;
        if (ssl_) {
            ERR_clear_error();
            const int result = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &sent);
            if (result != 1)
                if (auto ready = wait_for_tls(result, deadline); !ready) return ready;
        } else if (const ssize_t got = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); got >= 0) {
            sent = static_cast<std::size_t>(got);
        } else if (errno == EAGAIN) {
            if (auto ready = wait_for(POLLOUT, deadline); !ready) return ready;
        } else if (errno != EINTR) {
            return Failure{Code::indeterminate, reason(errno)};
        }
        bytes.remove_prefix(sent);
    }
    return Done{};
}

Result<std::size_t> Connection::receive(std::span<char> into, Deadline deadline) {
    while (true) {
        if (ssl_) {
            std::size_t got = 0;
            ERR_clear_error();
            const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
            if (result == 1) return got;
            if (SSL_get_error(ssl_.get(), result) == SSL_ERROR_ZERO_RETURN) return std::size_t{0};
            if (auto ready = wait_for_tls(result, deadline); !ready) return ready.failure();
            continue;
        }
        const ssize_t got = ::recv(socket_.get(), into.data(), into.size(), 0);
        if (got >= 0) return static_cast<std::size_t>(got);
        if (errno == EAGAIN) {
            if (auto ready = wait_for(POLLIN, deadline); !ready) return ready.failure();
        } else if (errno != EINTR) {
            return Failure{Code::indeterminate, reason(errno)};
        }
    }
}

}  // namespace semel::verify
