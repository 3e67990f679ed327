// The client against a peer that answers with given bytes.
#include "verify/client.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace semel::verify {
namespace {

/// Accepts one connection, reads until the end of a head, writes the bytes and closes.
class Peer {
public:
    explicit Peer(std::string bytes, bool stays = false) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
        EXPECT_EQ(::listen(listener_, 8), 0);
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
        port_ = ntohs(address.sin_port);
        serving_ = std::thread([this, bytes = std::move(bytes), stays] {
            const int socket = ::accept(listener_, nullptr, nullptr);
            char block[4096];
            while (seen_.find("\r\n\r\n") == std::string::npos) {
                const ssize_t got = ::recv(socket, block, sizeof block, 0);
                if (got <= 0) break;
                seen_.append(block, static_cast<std::size_t>(got));
            }
            ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            // Until the client gives up.
            while (stays && ::recv(socket, block, sizeof block, 0) > 0) {
            }
            ::close(socket);
        });
    }
    ~Peer() {
        ::shutdown(listener_, SHUT_RDWR);
        if (serving_.joinable()) serving_.join();
        ::close(listener_);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    Answer ask(std::chrono::milliseconds within = std::chrono::seconds(10)) {
        const auto tls = Tls::make("");
        const auto url = Url::parse("http://127.0.0.1:" + std::to_string(port_) + "/a");
        EXPECT_TRUE(tls && url);
        const Request request{.method = "POST", .url = *url, .headers = {{"X-A", "b"}}, .body = ""};
        return exchange(request, *tls, std::chrono::steady_clock::now() + within);
    }
    std::string seen() {
        serving_.join();
        return seen_;
    }

private:
    int listener_ = -1;
    int port_ = 0;
    std::string seen_;
    std::thread serving_;
};

TEST(VerifyClient, SendsOneRequestWithOneFraming) {
    Peer peer("HTTP/1.1 204 No Content\r\n\r\n");
    EXPECT_EQ(peer.ask().text(), "204 No Content");
    const std::string seen = peer.seen();
    EXPECT_TRUE(seen.starts_with("POST /a HTTP/1.1\r\nHost: 127.0.0.1:")) << seen;
    EXPECT_TRUE(seen.ends_with("\r\nX-A: b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")) << seen;
}

TEST(VerifyClient, ReadsEveryFraming) {
    for (const char* bytes : {
             "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
             "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
             "HTTP/1.1 200 OK\r\n\r\nhello",
             "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
         }) {
        Peer peer(bytes);
        const Answer answer = peer.ask();
        ASSERT_TRUE(answer.response) << bytes << answer.problem;
        EXPECT_EQ(answer.status(), 200);
        EXPECT_EQ(answer.response->body, "hello") << bytes;
    }
}

TEST(VerifyClient, SaysWhyThereIsNoAnswer) {
    struct Row {
        const char* bytes;
        std::string_view problem;
    };
    for (const Row& row : {
             Row{"", "the connection was closed before an answer"},
             Row{"HTTP/1.1 200 OK\r\nContent-Le", "the connection was closed before an answer"},
             Row{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "the answer is malformed: "},
             Row{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "the answer is malformed: "},
             Row{"hello\r\n\r\n", "the answer is malformed: "},
         }) {
        Peer peer(row.bytes);
        const Answer answer = peer.ask();
        EXPECT_FALSE(answer.response) << row.bytes;
        EXPECT_TRUE(answer.problem.starts_with(row.problem)) << row.bytes << answer.problem;
    }
}

TEST(VerifyClient, GivesUpInTime) {
    Peer peer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", true);
    const Answer answer = peer.ask(std::chrono::milliseconds(50));
    EXPECT_FALSE(answer.response);
    EXPECT_EQ(answer.problem, "no answer in time (--timeout)");
}

TEST(VerifyClient, TakesOnlyHeadersThatItMaySend) {
    const auto header = parse_header("X-A:  b c ");
    ASSERT_TRUE(header);
    EXPECT_EQ(*header, (Header{"X-A", "b c"}));
    EXPECT_TRUE(parse_header("X-Empty:"));
    for (const std::string_view text : {"", "X-A", ": b", "X A: b", "Host: h", "Content-Length: 5", "Connection: close",
                                        "Transfer-Encoding: chunked", "X-A: b\r\nX-B: c"})
        EXPECT_FALSE(parse_header(text)) << text;
    const auto refused = parse_header("Connection: hunter2");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().message.find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace semel::verify
