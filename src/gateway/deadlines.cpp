#include "gateway/deadlines.hpp"

#include <vector>

namespace semel::gateway {

Deadline::Deadline(Deadlines& all, std::move_only_function<void()> expire) : expire_(std::move(expire)) {
    all.all_.push_back(*this);
}

void Deadlines::start(std::function<void(SteadyTime)> each_tick) {
    each_tick_ = std::move(each_tick);
    wait();
}

void Deadlines::wait() {
    timer_.expires_after(tick);
    timer_.async_wait([this](const Error& error) {
        if (error || stopped_) return;
        look();
        wait();
    });
}

void Deadlines::look() {
    const SteadyTime now = std::chrono::steady_clock::now();
    // What expires may arm, add or remove deadlines, itself included: it goes to the end before it is called, and the walk
    // ends where the list ended when it began.
    std::size_t left = all_.size();
    while (left-- > 0 && !all_.empty()) {
        Deadline& each = all_.front();
        all_.splice(all_.end(), all_, all_.begin());
        if (each.at_ > now) continue;
        each.at_ = now + tick;  // again, until somebody takes notice: there may be nothing to cancel just now
        each.expired_ = true;
        each.expire_();
    }
    if (each_tick_) each_tick_(now);
}

}  // namespace semel::gateway
