// Deadlines of one thread's connections and calls. Setting one costs a store to memory, not a timer: one timer looks at all
// of them every tick. A deadline is therefore up to one tick late, which no limit of the gateway minds.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/intrusive/list.hpp>
#include <chrono>
#include <functional>

#include "gateway/net.hpp"
#include "semel/time.hpp"

namespace semel::gateway {

using SteadyTime = std::chrono::steady_clock::time_point;
using SteadyTimer =
    asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>, Executor>;

class Deadlines;

/// One limit on time. Armed, it calls `expire`, and again every tick, until it is disarmed or armed anew. Used on its thread
/// only.
class Deadline : public boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
public:
    Deadline(Deadlines& all, std::move_only_function<void()> expire);
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

    void arm(Duration in) {
        at_ = std::chrono::steady_clock::now() + in;
        expired_ = false;
    }
    void disarm() {
        at_ = SteadyTime::max();
        expired_ = false;
    }
    /// Whether it has expired since it was last armed.
    [[nodiscard]] bool expired() const { return expired_; }

private:
    friend class Deadlines;
    std::move_only_function<void()> expire_;
    SteadyTime at_ = SteadyTime::max();
    bool expired_ = false;
};

class Deadlines {
public:
    static constexpr Duration tick = std::chrono::milliseconds{50};

    explicit Deadlines(asio::io_context& context) : timer_(context.get_executor()) {}

    /// Begins to tick; `each_tick` is called after the deadlines were looked at.
    void start(std::function<void(SteadyTime)> each_tick);
    void stop() {
        stopped_ = true;
        timer_.cancel();
    }

private:
    friend class Deadline;
    void wait();
    void look();

    SteadyTimer timer_;
    boost::intrusive::list<Deadline, boost::intrusive::constant_time_size<false>> all_;
    std::function<void(SteadyTime)> each_tick_;
    bool stopped_ = false;
};

}  // namespace semel::gateway
