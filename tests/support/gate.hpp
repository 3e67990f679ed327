// A TCP gate between a client and its server that cuts the line at a chosen byte: what a lost reply is made of.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace semel::test {

enum class Direction { to_server, to_client };

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
