#include "curl/caller.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "curl/test_server.hpp"

namespace {

constexpr std::chrono::seconds silence_most{20};

/// A name server that is asked for silent.test, and says nothing until it is let go.
struct SilentNameServer {
    std::mutex mutex{};
    std::condition_variable changed{};
    bool over = false;  // guarded by mutex

    void wait() {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, silence_most, [this] { return over; });
    }
    void let_go() {
        const std::lock_guard lock(mutex);
        over = true;
        changed.notify_all();
    }
};

// Never destroyed: the thread that asks may outlive everything.
SilentNameServer& silent_name_server() {
    static auto& server = *new SilentNameServer;
    return server;
}

}  // namespace

// Instead of the C library's.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
    static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
    if (name == nullptr || std::string_view(name) != "silent.test") return real(name, service, hints, found);
    silent_name_server().wait();
    return EAI_AGAIN;
}

namespace semel {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Why = HttpNoAnswer::Why;

constexpr std::string_view no_content = "HTTP/1.1 204 No Content\r\n\r\n";

HttpRequest to(std::string url) {
    return {.url = std::move(url), .fields = {{"Content-Type", "text/plain"}}, .body = "hello"};
}

HttpEnd call(const HttpRequest& request, HttpCallOptions options = {}, const std::stop_token& stop = {}) {
    if (options.timeout == HttpCallOptions{}.timeout) options.timeout = seconds{10};
    return HttpCaller::open().value().call(request, options, stop);
}

TEST(HttpCaller, SendsARequestAndReadsTheAnswer) {
    std::string seen;
    HttpEnd end;
    {
        const TestServer server([&](int socket, int) {
            seen = read_request(socket);
            write(
                socket,
                "HTTP/1.1 103 Early Hints\r\nX-Interim: 1\r\n\r\n"
                "HTTP/1.1 201 Created\r\nX-A:  b \r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n");
            wait_for_end(socket);
        });
        HttpRequest request = to(server.url());
        request.method = "PATCH";
        request.fields.push_back({"X-Empty", ""});
        end = call(request);
    }
    EXPECT_EQ(std::get<HttpAnswer>(end),
              (HttpAnswer{.status = 201, .fields = {{"X-A", "b"}, {"Transfer-Encoding", "chunked"}}, .body = "ok"}));
    EXPECT_TRUE(seen.starts_with("PATCH /orders HTTP/1.1\r\n")) << seen;
    EXPECT_TRUE(seen.ends_with("\r\n\r\nhello")) << seen;
    for (const std::string line : {"Content-Type: text/plain", "Content-Length: 5", "X-Empty:", "User-Agent: semel"})
        EXPECT_THAT(seen, HasSubstr("\r\n" + line + "\r\n"));
    EXPECT_THAT(seen, testing::Not(HasSubstr("Expect:")));
}

TEST(HttpCaller, KeepsTheConnection) {
    std::atomic<int> connections = 0;
    std::atomic<int> requests = 0;
    {
        const TestServer server([&](int socket, int) {
            ++connections;
            while (!read_request(socket).empty()) {
                ++requests;
                write(socket, no_content);
            }
        });
        auto caller = HttpCaller::open();
        for (int i = 0; i < 5; ++i) EXPECT_EQ(std::get<HttpAnswer>(caller->call(to(server.url()), {})).status, 204);
    }
    EXPECT_EQ(connections, 1);
    EXPECT_EQ(requests, 5);
}

TEST(HttpCaller, ALongBodyIsCutAndIsStillAnAnswer) {
    const TestServer server(always("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + std::string(100000, 'x')));
    const HttpEnd end = call(to(server.url()), {.answer_bytes_max = 1000});
    EXPECT_EQ(std::get<HttpAnswer>(end).body, std::string(1000, 'x'));
    EXPECT_FALSE(std::get<HttpAnswer>(end).whole);
}

TEST(HttpCaller, AHeadWithoutEndIsNoAnswer) {
    std::string head = "HTTP/1.1 200 OK\r\n";
    while (head.size() <= answer_head_bytes_max) head += "X-Filler: " + std::string(1000, 'x') + "\r\n";
    const TestServer server(always(head + "Content-Length: 0\r\n\r\n"));
    EXPECT_EQ(std::get<HttpNoAnswer>(call(to(server.url()))).why, Why::broken);
}

TEST(HttpCaller, WithoutAConnectionNothingWasSent) {
    const UnservedPort port;
    EXPECT_THAT(std::get<HttpNotSent>(call(to(port.url()))).reason, HasSubstr("not sent: "));
    EXPECT_TRUE(std::holds_alternative<HttpNotSent>(call(to("http://no-such-host.invalid/"))));
}

TEST(HttpCaller, ATlsHandshakeThatFailsSendsNothing) {
    std::string seen;
    HttpEnd end;
    {
        const TestServer server([&](int socket, int) {
            char byte = 0;
            if (recv(socket, &byte, 1, 0) > 0) seen.push_back(byte);
            write(socket, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        });
        std::string url = server.url();
        url.replace(0, 4, "https");
        end = call(to(url));
    }
    EXPECT_TRUE(std::holds_alternative<HttpNotSent>(end));
    EXPECT_EQ(seen, "\x16");  // of the handshake
}

TEST(HttpCaller, WhatBreaksAfterSendingMayHaveBeenExecuted) {
    for (const std::string_view answer :
         {"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhal", "220 smtp.example.org\r\n\r\n"}) {
        int requests = 0;
        HttpEnd end;
        {
            const TestServer server([&](int socket, int) {
                requests += read_request(socket).empty() ? 0 : 1;
                write(socket, answer);
            });
            end = call(to(server.url()));
        }
        ASSERT_TRUE(std::holds_alternative<HttpNoAnswer>(end)) << answer;
        EXPECT_EQ(std::get<HttpNoAnswer>(end).why, Why::broken) << answer;
        EXPECT_EQ(requests, 1) << answer;
    }
}

TEST(HttpCaller, ARequestIsNotWrittenTwiceWhenAKeptConnectionBreaks) {
    for (const std::string body : {"{}", ""}) {
        int requests = 0;
        HttpEnd second;
        {
            const TestServer server([&](int socket, int connection) {
                while (!read_request(socket).empty()) {
                    ++requests;
                    if (connection == 0 && requests == 2) return;  // executed, perhaps; closed without an answer
                    write(socket, no_content);
                }
            });
            auto caller = HttpCaller::open();
            HttpRequest request = to(server.url());
            request.body = body;
            EXPECT_EQ(std::get<HttpAnswer>(caller->call(request, {})).status, 204);
            second = caller->call(request, {});
        }
        ASSERT_TRUE(std::holds_alternative<HttpNoAnswer>(second));
        EXPECT_EQ(std::get<HttpNoAnswer>(second).why, Why::broken);
        EXPECT_EQ(requests, 2);
    }
}

TEST(HttpCaller, NoAnswerInTimeIsATimeout) {
    const TestServer server([](int socket, int) {
        read_request(socket);
        wait_for_end(socket);
    });
    const HttpEnd end = call(to(server.url()), {.timeout = milliseconds{50}});
    EXPECT_EQ(std::get<HttpNoAnswer>(end).why, Why::timeout);
    EXPECT_THAT(std::get<HttpNoAnswer>(end).reason, HasSubstr("no answer: "));
}

TEST(HttpCaller, ANameServerThatDoesNotAnswerIsNotWaitedFor) {
    const auto began = std::chrono::steady_clock::now();
    const HttpEnd end = call(to("http://silent.test/"), {.timeout = milliseconds{50}});
    EXPECT_LT(std::chrono::steady_clock::now() - began, silence_most / 2);
    ASSERT_TRUE(std::holds_alternative<HttpNotSent>(end));
    EXPECT_THAT(std::get<HttpNotSent>(end).reason, HasSubstr("timed out"));
    silent_name_server().let_go();
}

TEST(HttpCaller, StopsWhenAskedTo) {
    std::stop_source stop;
    const TestServer server([&](int socket, int) {
        read_request(socket);
        stop.request_stop();
        wait_for_end(socket);
    });
    EXPECT_EQ(std::get<HttpNoAnswer>(call(to(server.url()), {}, stop.get_token())).why, Why::stopped);
    EXPECT_TRUE(std::holds_alternative<HttpNotSent>(call(to(server.url()), {}, stop.get_token())));
}

TEST(HttpCaller, RedirectsAndProxiesAreNotFollowed) {
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("all_proxy", "http://127.0.0.1:1", 1);
    int requests = 0;
    HttpEnd end;
    {
        const TestServer server([&](int socket, int) {
            while (!read_request(socket).empty()) {
                ++requests;
                write(socket, "HTTP/1.1 307 Moved\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n");
            }
        });
        end = call(to(server.url()));
    }
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    EXPECT_EQ(std::get<HttpAnswer>(end).status, 307);
    EXPECT_EQ(requests, 1);
}

TEST(HttpCaller, FilesOfTlsAreLookedFor) {
    EXPECT_EQ(HttpCaller::open({.ca = "/no/such/file.pem"}).failure().message,
              "tls.ca: /no/such/file.pem cannot be read");
    EXPECT_THAT(HttpCaller::open({.key = "/no/key.pem"}).failure().message, HasSubstr("tls.key: "));
}

}  // namespace
}  // namespace semel
