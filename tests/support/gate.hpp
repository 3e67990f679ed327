// A TCP gate between a client and its server that cuts the line at a chosen byte: what a lost reply is made of.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

namespace semel::test {

enum class Direction { to_server, to_client };

/// What stands in the piece that commits: the client's COMMIT in a Parse message, or the tag in the server's answer.
constexpr std::string_view commit_in(Direction direction) {
    return direction == Direction::to_server ? std::string_view("\0commit\0", 8) : "COMMIT";
}

/// How often the client has spoken after the server had: the round trips, if they begin with one. Copies count together.
class Turns {
public:
    void see(Direction direction) {
        if (direction == Direction::to_client) state_->server_spoke = true;
        if (direction == Direction::to_server && state_->server_spoke.exchange(false)) ++state_->count;
    }
    void reset() { state_->count = 0; }
    [[nodiscard]] int count() const { return state_->count; }

private:
    struct State {
        std::atomic<bool> server_spoke = true;
        std::atomic<int> count = 0;
    };
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// Forwards every connection to 127.0.0.1:`server_port`. Thread safe.
class Gate {
public:
    explicit Gate(int server_port);
    ~Gate();
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;

    [[nodiscard]] int port() const { return port_; }

    /// Looks at every piece of data before it is forwarded, and says how many of its bytes still go through; fewer than all
    /// cuts both sides of that connection right there. Called on the gate's threads.
    using Watch = std::function<std::size_t(Direction, std::string_view piece)>;
    void watch(Watch watch);
    [[nodiscard]] int cuts() const { return cuts_; }

private:
    void accept_all();
    void serve(int client);
    std::size_t allowed(Direction direction, std::string_view piece);

    int server_port_;
    int listener_ = -1;
    int port_ = 0;
    std::atomic<bool> stopping_ = false;
    std::atomic<int> cuts_ = 0;
    std::mutex mutex_;
    Watch watch_;  // guarded by mutex_, as are the following
    std::vector<std::thread> serving_;
    std::thread accepting_;
};

}  // namespace semel::test
