// What time it is: steady for intervals and deadlines, wall for what is shown and for embedded stores.
#pragma once

#include <atomic>
#include <chrono>

#include "semel/time.hpp"

namespace semel {

class Clock {
public:
    using Steady = std::chrono::steady_clock::time_point;

    virtual ~Clock() = default;
    /// Never goes back; only differences mean something.
    [[nodiscard]] virtual Steady steady() const = 0;
    /// May jump in both directions.
    [[nodiscard]] virtual TimePoint wall() const = 0;
};

/// The machine's clocks. Thread safe.
class SystemClock final : public Clock {
public:
    [[nodiscard]] Steady steady() const override { return std::chrono::steady_clock::now(); }
    [[nodiscard]] TimePoint wall() const override {
        return TimePoint{std::chrono::floor<Duration>(std::chrono::system_clock::now().time_since_epoch())};
    }
};

/// For those who are not given another.
inline const Clock& system_clock() {
    static const SystemClock clock;
    return clock;
}

/// Stands still until it is moved. Thread safe.
class ManualClock final : public Clock {
public:
    explicit ManualClock(TimePoint wall = time_from_micros(1'700'000'000'000'000)) : wall_(micros(wall)) {}

    [[nodiscard]] Steady steady() const override { return Steady{Duration{steady_.load()}}; }
    [[nodiscard]] TimePoint wall() const override { return time_from_micros(wall_.load()); }

    /// Time passes on both clocks. `by` is not negative.
    void advance(Duration by) {
        steady_ += by.count();
        wall_ += by.count();
    }
    /// Somebody set the wall clock; no time passes.
    void jump(Duration by) { wall_ += by.count(); }

private:
    std::atomic<Duration::rep> steady_{1'000'000'000};
    std::atomic<Duration::rep> wall_;
};

}  // namespace semel
