// For unit tests of what calls HTTP servers: a server that does what its function says, byte by byte.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

namespace semel {

/// A request that was read whole, or what there was of it.
inline std::string read_request(int socket) {
    std::string text;
    char buffer[4096];
    for (;;) {
        const std::size_t head = text.find("\r\n\r\n");
        const std::size_t length = text.find("Content-Length: ");
        if (head != std::string::npos && length != std::string::npos &&
            text.size() >= head + 4 + std::strtoul(text.c_str() + length + 16, nullptr, 10))
            return text;
        const ssize_t size = recv(socket, buffer, sizeof buffer, 0);
        if (size <= 0) return text;
        text.append(buffer, static_cast<std::size_t>(size));
    }
}

inline void write(int socket, std::string_view text) { send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

/// Waits until the other side has closed.
inline void wait_for_end(int socket) {
    char byte = 0;
    while (recv(socket, &byte, 1, 0) > 0) {
    }
}

/// Serves one connection after the other, each by the function.
class TestServer {
public:
    explicit TestServer(std::function<void(int socket, int connection)> serve)
        : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(listen(listener_, 16), 0);
        socklen_t size = sizeof address;
        getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this, serve = std::move(serve)] {
            for (int connection = 0;; ++connection) {
                const int accepted = accept(listener_, nullptr, nullptr);
                if (accepted < 0) return;
                serve(accepted, connection);
                close(accepted);
            }
        });
    }
    TestServer(const TestServer&) = delete;
    TestServer& operator=(const TestServer&) = delete;
    ~TestServer() {
        shutdown(listener_, SHUT_RDWR);
        thread_.join();
        close(listener_);
    }
    [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/orders"; }

private:
    int listener_;
    std::uint16_t port_ = 0;
    std::thread thread_{};
};

/// A port that refuses connections for as long as this lives: bound, not listening.
class UnservedPort {
public:
    UnservedPort() : held_(socket(AF_INET, SOCK_STREAM, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(bind(held_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        socklen_t size = sizeof address;
        getsockname(held_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
    }
    UnservedPort(const UnservedPort&) = delete;
    UnservedPort& operator=(const UnservedPort&) = delete;
    ~UnservedPort() { close(held_); }
    [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }

private:
    int held_;
    std::uint16_t port_ = 0;
};

/// Answers every request on every connection with the same.
inline std::function<void(int, int)> always(std::string answer) {
    return [answer](int socket, int) {
        while (!read_request(socket).empty()) write(socket, answer);
    };
}

}  // namespace semel
