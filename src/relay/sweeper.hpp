// Drops operations whose retention has ended, for as long as it lives: an embedded store has no other process to do it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "semel/store.hpp"

namespace semel::relay {

class Sweeper {
public:
    /// `complain` is told why a sweep failed, on the sweeper's thread. The store must outlive it.
    Sweeper(Store& store, std::function<void(std::string_view)> complain);

    /// Records of which the response or all was dropped. Thread safe.
    [[nodiscard]] std::uint64_t swept() const { return swept_; }

private:
    void run(const std::stop_token& stop);
    bool sweep();

    Store& store_;
    std::function<void(std::string_view)> complain_;
    std::atomic<std::uint64_t> swept_ = 0;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::jthread thread_;
};

}  // namespace semel::relay
