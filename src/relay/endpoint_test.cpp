#include "relay/endpoint.hpp"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>

namespace semel::relay {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using How = DeliveryEnd::How;

/// A request that was read whole, or what there was of it.
std::string read_request(int socket) {
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

void write(int socket, std::string_view text) { send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

/// Waits until the other side has closed.
void wait_for_end(int socket) {
    char byte = 0;
    while (recv(socket, &byte, 1, 0) > 0) {
    }
}

/// Serves one connection after the other, each by the function.
class Server {
public:
    explicit Server(std::function<void(int socket, int connection)> serve)
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
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server() {
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

/// Answers every request on every connection with the same.
std::function<void(int, int)> always(std::string answer) {
    return [answer](int socket, int) {
        while (!read_request(socket).empty()) write(socket, answer);
    };
}

EndpointOptions to(const std::string& url) {
    EndpointOptions options;
    options.request.url = url;
    options.timeout = seconds{10};
    return options;
}

const Operation parent{Scope::make("", "orders").value(), Key::parse("/shop e1").value()};
const Event event{
    .id = "e1", .source = "/shop", .type = "paid", .data_content_type = "application/json", .data = R"({"total":7})"};

Delivered deliver(const EndpointOptions& options) {
    auto endpoint = Endpoint::open(options);
    EXPECT_TRUE(endpoint.ok()) << endpoint.failure().message;
    return endpoint->deliver({event, parent, "c1", 1}).value();
}

TEST(RelayEndpoint, DeliversAnEventAndReadsTheAnswer) {
    std::string seen;
    Delivered delivered;
    {
        const Server server([&](int socket, int) {
            seen = read_request(socket);
            write(socket,
                  "HTTP/1.1 103 Early Hints\r\nIdempotent-Replayed: true\r\n\r\n"
                  "HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok");
            wait_for_end(socket);
        });
        delivered = deliver(to(server.url()));
    }
    EXPECT_EQ(delivered.end.how, How::answered);
    EXPECT_EQ(delivered.end.status, 201);
    EXPECT_FALSE(delivered.end.replayed);
    EXPECT_EQ(delivered.end.retry_after, std::nullopt);
    EXPECT_EQ(delivered.body, "ok");
    EXPECT_EQ(delivered.content_type, "text/plain");
    EXPECT_TRUE(delivered.whole);
    EXPECT_TRUE(seen.starts_with("POST /orders HTTP/1.1\r\n")) << seen;
    EXPECT_TRUE(seen.ends_with("\r\n\r\n{\"total\":7}")) << seen;
    for (const std::string line : {"ce-id: e1", "Content-Type: application/json", "Content-Length: 11",
                                   "Idempotency-Key: \"", "X-Correlation-Id: c1", "User-Agent: semel"})
        EXPECT_THAT(seen, HasSubstr("\r\n" + line));
    EXPECT_THAT(seen, testing::Not(HasSubstr("Expect:")));
}

TEST(RelayEndpoint, ReadsWhatAnAnswerSaysAboutItself) {
    const Server server(
        always("HTTP/1.1 409 Conflict\r\nidempotent-replayed: True\r\nRetry-After: 7\r\n"
               "Content-Type: application/problem+json\r\nContent-Length: 41\r\n\r\n"
               R"({"type":"urn:semel:problem:in-progress"})"
               "\n"));
    const Delivered delivered = deliver(to(server.url()));
    EXPECT_EQ(delivered.end.status, 409);
    EXPECT_TRUE(delivered.end.replayed);
    EXPECT_EQ(delivered.end.retry_after, seconds{7});
    ASSERT_TRUE(delivered.end.problem.has_value());
    EXPECT_EQ(delivered.end.problem->slug, "in-progress");
}

TEST(RelayEndpoint, KeepsTheConnection) {
    std::atomic<int> connections = 0;
    std::atomic<int> requests = 0;
    {
        const Server server([&](int socket, int) {
            ++connections;
            while (!read_request(socket).empty()) {
                ++requests;
                write(socket, "HTTP/1.1 204 No Content\r\n\r\n");
            }
        });
        auto endpoint = Endpoint::open(to(server.url()));
        for (int i = 0; i < 5; ++i) EXPECT_EQ(endpoint->deliver({event, parent, "", 1})->end.status, 204);
    }
    EXPECT_EQ(connections, 1);
    EXPECT_EQ(requests, 5);
}

TEST(RelayEndpoint, ALongAnswerIsCutAndIsStillAnAnswer) {
    const Server server(always("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100000, 'x')));
    EndpointOptions options = to(server.url());
    options.answer_bytes_max = 1000;
    const Delivered delivered = deliver(options);
    EXPECT_EQ(delivered.end.status, 200);
    EXPECT_EQ(delivered.body, std::string(1000, 'x'));
    EXPECT_FALSE(delivered.whole);
}

TEST(RelayEndpoint, WithoutAConnectionNothingWasSent) {
    const int held = socket(AF_INET, SOCK_STREAM, 0);  // bound, not listening: refuses
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(held, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    socklen_t size = sizeof address;
    getsockname(held, reinterpret_cast<sockaddr*>(&address), &size);
    const Delivered refused = deliver(to("http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/"));
    close(held);
    EXPECT_EQ(refused.end.how, How::not_sent);
    EXPECT_THAT(refused.end.reason, HasSubstr("not sent: "));
    EXPECT_EQ(deliver(to("http://no-such-host.invalid/")).end.how, How::not_sent);
}

TEST(RelayEndpoint, ATlsHandshakeThatFailsSendsNothing) {
    std::string seen;
    Delivered delivered;
    {
        const Server server([&](int socket, int) {
            char byte = 0;
            if (recv(socket, &byte, 1, 0) > 0) seen.push_back(byte);
            write(socket, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        });
        std::string url = server.url();
        url.replace(0, 4, "https");
        delivered = deliver(to(url));
    }
    EXPECT_EQ(delivered.end.how, How::not_sent);
    EXPECT_EQ(seen, "\x16");  // of the handshake
}

TEST(RelayEndpoint, WhatBreaksAfterSendingIsUnknown) {
    const struct {
        std::string_view answer;
    } rows[] = {{""},
                {"HTTP/1.1 200 OK\r\nContent-Le"},
                {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"},
                {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal"},
                {"220 smtp.example.org\r\n\r\n"}};
    for (const auto& row : rows) {
        int requests = 0;
        Delivered delivered;
        {
            const Server server([&](int socket, int) {
                requests += read_request(socket).empty() ? 0 : 1;
                write(socket, row.answer);
            });
            delivered = deliver(to(server.url()));
        }
        EXPECT_EQ(delivered.end.how, How::broken) << row.answer;
        EXPECT_EQ(requests, 1) << row.answer;
    }
}

TEST(RelayEndpoint, ARequestIsNotWrittenTwiceWhenAKeptConnectionBreaks) {
    for (const std::string data : {"{}", ""}) {
        int requests = 0;
        Delivered second;
        {
            const Server server([&](int socket, int connection) {
                while (!read_request(socket).empty()) {
                    ++requests;
                    if (connection == 0 && requests == 2) return;  // executed, perhaps; closed without an answer
                    write(socket, "HTTP/1.1 204 No Content\r\n\r\n");
                }
            });
            auto endpoint = Endpoint::open(to(server.url()));
            Event sent = event;
            sent.data = data;
            EXPECT_EQ(endpoint->deliver({sent, parent, "", 1})->end.status, 204);
            second = endpoint->deliver({sent, parent, "", 1}).value();
        }
        EXPECT_EQ(second.end.how, How::broken);
        EXPECT_EQ(requests, 2);
    }
}

TEST(RelayEndpoint, NoAnswerInTimeIsATimeout) {
    const Server server([](int socket, int) {
        read_request(socket);
        wait_for_end(socket);
    });
    EndpointOptions options = to(server.url());
    options.timeout = milliseconds{50};
    const Delivered delivered = deliver(options);
    EXPECT_EQ(delivered.end.how, How::timeout);
    EXPECT_THAT(delivered.end.reason, HasSubstr("no answer: "));
}

TEST(RelayEndpoint, RedirectsAndProxiesAreNotFollowed) {
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    int requests = 0;
    Delivered delivered;
    {
        const Server server([&](int socket, int) {
            while (!read_request(socket).empty()) {
                ++requests;
                write(socket, "HTTP/1.1 307 Moved\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n");
            }
        });
        delivered = deliver(to(server.url()));
    }
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    EXPECT_EQ(delivered.end.status, 307);
    EXPECT_EQ(requests, 1);
}

TEST(RelayEndpoint, AnEventThatCannotBeWrittenIsNotSent) {
    EndpointOptions options = to("http://127.0.0.1:1/{/nothing}");
    options.request.mode = DeliveryMode::plain;
    auto endpoint = Endpoint::open(options);
    EXPECT_EQ(endpoint->deliver({event, parent, "", 1}).failure().code, Code::invalid);
}

TEST(RelayEndpoint, OptionsAreChecked) {
    EXPECT_THAT(Endpoint::open(to("ftp://x/")).failure().message, HasSubstr("to.url"));
    EndpointOptions options = to("https://x/");
    options.tls.ca = "/no/such/file.pem";
    EXPECT_THAT(Endpoint::open(options).failure().message, HasSubstr("to.tls.ca: /no/such/file.pem cannot be read"));
}

}  // namespace
}  // namespace semel::relay
