// A broker in memory that does on command what real ones do by accident: deliver again, lose the connection, take a delivery
// away. For faults; that a real broker is supported is shown by tests that talk to one.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "semel/source.hpp"

namespace semel::test {

class ScriptedBroker {
public:
    void publish(Message message) {
        const std::lock_guard lock(mutex_);
        message.position = "script@" + std::to_string(++published_);
        waiting_.push_back(std::move(message));
    }
    /// Everything delivered and not acknowledged is delivered again.
    void redeliver() {
        const std::lock_guard lock(mutex_);
        for (auto& [ticket, message] : out_) {
            waiting_.push_back(message);
            gone_.push_back(ticket);
        }
        out_.clear();
    }
    /// Nothing is accepted as acknowledged from now on: what comes is handled and delivered again by `redeliver`.
    void ignore_acknowledgements(bool ignore) {
        const std::lock_guard lock(mutex_);
        deaf_ = ignore;
    }
    void fail_next_fetches(int count, Code code = Code::unavailable) {
        const std::lock_guard lock(mutex_);
        failures_ = count;
        failure_code_ = code;
    }
    [[nodiscard]] std::size_t left() const {
        const std::lock_guard lock(mutex_);
        return waiting_.size() + out_.size();
    }
    [[nodiscard]] std::size_t acknowledged() const {
        const std::lock_guard lock(mutex_);
        return acknowledged_;
    }
    [[nodiscard]] std::size_t kept() const {
        const std::lock_guard lock(mutex_);
        return kept_;
    }

    std::unique_ptr<Source> open();

private:
    class ScriptedSource;
    mutable std::mutex mutex_;
    std::deque<Message> waiting_;
    std::map<Ticket, Message> out_;
    std::vector<Ticket> gone_;
    std::uint64_t published_ = 0;
    std::uint64_t ticket_ = 0;
    std::size_t acknowledged_ = 0;
    std::size_t kept_ = 0;
    int failures_ = 0;
    Code failure_code_ = Code::unavailable;
    bool deaf_ = false;
};

}  // namespace semel::test
