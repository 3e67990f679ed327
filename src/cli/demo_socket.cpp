#include "cli/demo_socket.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace semel::cli::demo {
namespace {

constexpr int backlog = 128;

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

Failure failed(std::uint16_t port) {
    return {Code::unavailable, fmt::format("listen on 127.0.0.1:{}: {}", port, strerror(errno))};
}

}  // namespace

Socket::~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Socket> Socket::listen(std::uint16_t port) {
    Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.open()) return failed(port);
    const int on = 1;
    setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const sockaddr_in address = loopback(port);
    if (::bind(socket.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(socket.descriptor_, backlog) != 0)
        return failed(port);
    return socket;
}

std::uint16_t Socket::port() const {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
}

Socket Socket::accept() const {
    while (true) {
        Socket socket(::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket.open() && (errno == EINTR || errno == ECONNABORTED)) continue;
        const int on = 1;
        if (socket.open()) setsockopt(socket.descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        return socket;
    }
}

void Socket::shut() const { ::shutdown(descriptor_, SHUT_RDWR); }

void Socket::patience(std::chrono::milliseconds timeout) const {
    const timeval limit{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

bool Socket::send(std::string_view bytes) const {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

std::size_t Socket::receive(std::span<char> into) const {
    while (true) {
        const ssize_t got = ::recv(descriptor_, into.data(), into.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        return got > 0 ? static_cast<std::size_t>(got) : 0;
    }
}

}  // namespace semel::cli::demo
