// The demo's payments API: a service that knows nothing of idempotency. Every request that it carries out is a charge.
//
//   POST /v1/payments {"amount":1999,"currency":"EUR"}   201 {"id":"ch_000001",…}
//   GET  /v1/charges                                     200 {"charges":1}
//
// `X-Demo: slow|drop|crash|error|busy` makes it misbehave, as services do.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cli/demo_socket.hpp"
#include "http/request.hpp"

namespace semel::cli::demo {

enum class Fault : std::uint8_t {
    none,
    slow,   ///< charges, and answers late
    drop,   ///< charges, and hangs up instead of answering
    crash,  ///< charges and dies: every connection is cut; it is back a moment later
    error,  ///< charges, and answers 500
    busy,   ///< answers 503 and charges nothing
};
/// The word in X-Demo; empty for none.
std::string_view word(Fault fault);

/// Serves from start() to its end, one thread per connection.
class PaymentsApi {
public:
    static constexpr std::size_t connections_max = 256;  ///< more are closed at once
    static constexpr std::size_t body_bytes_max = 64 * 1024;

    /// Listens on a free port of loopback.
    static Result<std::unique_ptr<PaymentsApi>> start();
    ~PaymentsApi();
    PaymentsApi(const PaymentsApi&) = delete;
    PaymentsApi& operator=(const PaymentsApi&) = delete;

    // Thread safe:
    [[nodiscard]] std::uint16_t port() const { return port_; }
    /// How late `slow` is.
    void slow_for(std::chrono::milliseconds late) { late_ = late; }
    [[nodiscard]] std::uint64_t charges() const;
    /// The charges that were made by requests with this key, as it stands in their header without quotes.
    [[nodiscard]] std::uint64_t charges_of(const std::string& key) const;

private:
    struct Reply {
        int status = 0;
        std::string body;
        std::string location{};
    };
    struct Connection {
        Connection(Socket accepted, std::uint64_t now) : socket(std::move(accepted)), life(now) {}
        Socket socket;
        const std::uint64_t life;
        std::thread thread;
        std::atomic<bool> done = false;
    };

    explicit PaymentsApi(Socket listener);
    void accept();
    Socket restarted();
    void serve(Connection& connection);
    /// Nothing: hangs up.
    std::optional<Reply> answer(const http::RequestHead& head, const std::string& body, std::uint64_t life);
    std::optional<Reply> pay(const http::RequestHead& head, const std::string& body, std::uint64_t life);
    std::optional<std::uint64_t> charge(const std::string& key, std::uint64_t life);
    void crash(std::uint64_t life);
    void reap();

    const std::uint16_t port_;
    std::atomic<std::chrono::milliseconds> late_{std::chrono::milliseconds{2'000}};
    mutable std::mutex mutex_;
    std::condition_variable stop_;
    Socket listener_;  // guarded by mutex_ but for accept()'s own reading, as are the following
    bool stopping_ = false;
    std::uint64_t life_ = 1;  ///< grows with every crash; who served in an earlier one is dead
    std::list<Connection> connections_;
    std::uint64_t charges_ = 0;
    std::map<std::string, std::uint64_t> charges_of_;
    std::thread thread_;
};

}  // namespace semel::cli::demo
