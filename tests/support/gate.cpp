#include "support/gate.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string_view>

namespace semel::test {
namespace {

constexpr int poll_ms = 20;

sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

bool send_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

}  // namespace

Gate::Gate(int server_port) : server_port_(server_port) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw std::runtime_error("gate: no port to listen on");
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
}

Gate::~Gate() {
    stopping_ = true;
    accepting_.join();
    for (std::thread& thread : serving_) thread.join();
    close(listener_);
}

void Gate::watch(Watch watch) {
    const std::lock_guard lock(mutex_);
    watch_ = std::move(watch);
}

std::size_t Gate::allowed(Direction direction, std::string_view piece) {
    const std::lock_guard lock(mutex_);
    return watch_ ? std::min(watch_(direction, piece), piece.size()) : piece.size();
}

void Gate::accept_all() {
    while (!stopping_) {
        pollfd wait{listener_, POLLIN, 0};
        if (poll(&wait, 1, poll_ms) <= 0) continue;
        const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) continue;
        const std::lock_guard lock(mutex_);
        serving_.emplace_back([this, client] { serve(client); });
    }
}

void Gate::serve(int client) {
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in address = loopback(server_port_);
    bool open = connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    char buffer[65536];
    while (open && !stopping_) {
        pollfd both[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
        if (poll(both, 2, poll_ms) <= 0) continue;
        for (int side = 0; side < 2 && open; ++side) {
            if ((both[side].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
            const ssize_t got = recv(both[side].fd, buffer, sizeof buffer, 0);
            if (got <= 0) {
                open = false;
                break;
            }
            const std::string_view piece(buffer, static_cast<std::size_t>(got));
            const std::size_t pass = allowed(side == 0 ? Direction::to_server : Direction::to_client, piece);
            open = send_all(both[1 - side].fd, piece.substr(0, pass));
            if (pass < piece.size()) {
                ++cuts_;
                open = false;
            }
        }
    }
    close(client);
    close(server);
}

}  // namespace semel::test
