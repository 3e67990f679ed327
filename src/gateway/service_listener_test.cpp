#include "gateway/service_listener.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <future>
#include <mutex>

namespace semel::gateway {
namespace {

using http::MakeReply;
using http::Reply;

/// Answers when it is told to; `/stranger` is answered 401 by its head.
class SlowService final : public http::Service {
public:
    class Slow final : public http::Pending {
    public:
        explicit Slow(SlowService& service) : service_(service) {}
        std::optional<Reply> give_up() override {
            if (++service_.asked_to_give_up < service_.gives_up_at) return std::nullopt;
            return Reply{.status = 503, .body = "late"};
        }

    private:
        SlowService& service_;
    };

    [[nodiscard]] bool serves(std::string_view) const override { return true; }
    [[nodiscard]] std::variant<std::size_t, Reply> admit(const http::RequestHead& head) const override {
        if (head.target.path == "/stranger") return Reply{.status = 401, .body = "who?"};
        return std::size_t{0};
    }
    std::unique_ptr<http::Pending> answer(const http::RequestHead&, std::string,
                                          std::move_only_function<void(MakeReply)> done) override {
        const std::lock_guard lock(mutex_);
        done_ = std::move(done);
        changed_.notify_all();
        return std::make_unique<Slow>(*this);
    }
    [[nodiscard]] std::chrono::milliseconds within() const override { return patience; }

    std::move_only_function<void(MakeReply)> asked() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return static_cast<bool>(done_); });
        return std::exchange(done_, nullptr);
    }

    std::chrono::milliseconds patience{60'000};
    std::atomic<int> gives_up_at = 1;  ///< how often it has to be asked
    std::atomic<int> asked_to_give_up = 0;

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::move_only_function<void(MakeReply)> done_;  // guarded by mutex_
};

/// A client that sees bytes, and does not wait for ever.
class Client {
public:
    explicit Client(const Address& to) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
        const timeval patience{.tv_sec = 20, .tv_usec = 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_port = htons(to.port);
        ::inet_pton(AF_INET, to.host.c_str(), &at.sin_addr);
        EXPECT_EQ(::connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);  // NOLINT
    }
    ~Client() { ::close(socket_); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    void send(std::string_view bytes) const {
        EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    }
    void hang_up() const { ::shutdown(socket_, SHUT_WR); }
    /// Everything until the other side ends the connection; "…" at its end says that it did not.
    [[nodiscard]] std::string to_end() const {
        std::string heard;
        char buffer[4096];  // NOLINT
        while (true) {
            const auto got = ::recv(socket_, buffer, sizeof buffer, 0);
            if (got == 0 || (got < 0 && errno == ECONNRESET)) return heard;
            if (got < 0) return heard + "…";
            heard.append(buffer, static_cast<std::size_t>(got));
        }
    }

private:
    int socket_;
};

class ServiceListenerTest : public testing::Test {
protected:
    Address start() {
        listener_ = std::move(*ServiceListener::start({"test", Address{"127.0.0.1", 0}, {}, {}}, {&service_}));
        return listener_->address();
    }

    SlowService service_;
    std::unique_ptr<ServiceListener> listener_;
};

constexpr std::string_view request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(ServiceListenerTest, AHangUpIsNoticedBehindAnotherRequest) {
    const Client client(start());
    client.send(request);
    const auto done = service_.asked();
    client.send(request);  // it waits in the socket while the first is being answered
    client.hang_up();
    EXPECT_EQ(client.to_end(), "");
    EXPECT_EQ(service_.asked_to_give_up, 1);
}

TEST_F(ServiceListenerTest, AnAnswerToWhoHasJustLeftIsNotDelivered) {
    service_.gives_up_at = 1'000'000;
    const Client client(start());
    client.send(request);
    auto done = service_.asked();
    client.send(request);
    client.hang_up();
    std::promise<void> undelivered;
    done([&] {
        Reply reply{.body = "a grant"};
        reply.undelivered = [&] { undelivered.set_value(); };
        return reply;
    });
    EXPECT_EQ(undelivered.get_future().wait_for(std::chrono::seconds{20}), std::future_status::ready);
    EXPECT_EQ(client.to_end(), "");
}

TEST_F(ServiceListenerTest, WhoIsLateIsAskedToGiveUpUntilItDoes) {
    service_.patience = std::chrono::milliseconds{1};
    service_.gives_up_at = 3;
    const Client client(start());
    client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    const std::string heard = client.to_end();
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 503 ")) << heard;
    EXPECT_EQ(service_.asked_to_give_up, 3);
}

TEST_F(ServiceListenerTest, AStrangersConnectionIsNotKept) {
    const Client client(start());
    client.send("GET /stranger HTTP/1.1\r\nHost: x\r\n\r\n");
    const std::string heard = client.to_end();
    EXPECT_TRUE(heard.starts_with("HTTP/1.1 401 ")) << heard;
    EXPECT_NE(heard.find("\r\nConnection: close\r\n"), std::string::npos) << heard;
    EXPECT_TRUE(heard.ends_with("who?")) << heard;
}

}  // namespace
}  // namespace semel::gateway
