// Plays a plan against the gateway with several clients at once, and judges what came of it by what the API really did.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cli/demo_api.hpp"
#include "cli/demo_client.hpp"
#include "cli/demo_plan.hpp"

namespace semel::cli::demo {

/// Requests by what they were told: each counts once.
struct Tally {
    std::uint64_t done = 0;  ///< payments whose requests were all sent
    std::uint64_t requests = 0;
    std::uint64_t duplicates = 0;  ///< among the requests: the same payment again
    std::uint64_t performed = 0;   ///< first answers
    std::uint64_t replays = 0;
    std::uint64_t conflicts = 0;   ///< 409: it is in progress
    std::uint64_t mismatches = 0;  ///< 422: the key of another payment
    std::uint64_t unknown = 0;     ///< the outcome is not known: 502 when it happened, 409 ever after
    std::uint64_t released = 0;    ///< nothing was done, try again: 502 unreachable, 503
    std::uint64_t hung_up = 0;     ///< the client did not wait
};

struct Check {
    bool passed = false;
    std::string what;
};

struct Verdict {
    std::uint64_t charges = 0;          ///< by the API, of this traffic
    std::uint64_t unknown = 0;          ///< payments whose outcome is not known
    std::uint64_t unknown_charged = 0;  ///< of these
    std::vector<Check> checks;
    [[nodiscard]] bool passed() const;
};

class Traffic {
public:
    static constexpr std::size_t clients = 8;

    /// Begins at once. `lasting`: how long it is stretched to; 0: as fast as it goes. All that is passed by reference
    /// must outlive it.
    Traffic(const Plan& plan, const PaymentsApi& api, std::uint16_t gateway, std::chrono::milliseconds lasting);
    /// Ends it early.
    ~Traffic();
    Traffic(const Traffic&) = delete;
    Traffic& operator=(const Traffic&) = delete;

    [[nodiscard]] bool finished() const { return running_ == 0; }
    [[nodiscard]] Tally tally() const;
    /// Why it cannot go on, if it cannot: the gateway does not answer.
    [[nodiscard]] std::optional<Failure> failure() const;

    /// When it has finished.
    [[nodiscard]] Verdict judge() const;

private:
    /// What the clients of one payment were told.
    struct Story {
        std::optional<verify::Response> answer;  ///< the first
        bool unknown = false;
        bool differs = false;    ///< a later answer was another one
        bool surprised = false;  ///< an answer that nothing explains
    };
    enum class Told : std::uint8_t { answered, in_progress, unreachable, busy, mismatch, unknown, hung_up, surprise };

    void work();
    void play(std::size_t number);
    /// One request. Nothing: it failed, and everything ends.
    std::optional<Told> send(std::size_t number, const PaymentRequest& request, std::chrono::milliseconds patience);
    Told take(std::size_t number, const std::optional<verify::Response>& response);
    /// As often as it takes to come to an end.
    void pay(std::size_t number, PaymentRequest request);
    void click(std::size_t number, const PaymentRequest& request);
    void reuse(std::size_t number, PaymentRequest request);
    bool rest(std::chrono::steady_clock::time_point until);
    bool rest(std::chrono::milliseconds time) { return rest(std::chrono::steady_clock::now() + time); }

    const Plan& plan_;
    const PaymentsApi& api_;
    const Client client_;
    const std::chrono::milliseconds lasting_;
    const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
    std::vector<std::size_t> late_;  ///< the payments that come again when all have been sent
    std::atomic<std::size_t> next_ = 0;
    std::atomic<std::size_t> running_ = clients;
    mutable std::mutex mutex_;
    std::condition_variable stop_;
    bool stopping_ = false;  // guarded by mutex_, as are the following
    Tally tally_;
    std::vector<Story> stories_;
    std::vector<bool> sent_;  ///< whether a payment has been sent before
    std::optional<Failure> failure_;
    std::vector<std::thread> threads_;
};

}  // namespace semel::cli::demo
