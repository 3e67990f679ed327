#include "base/clock.hpp"

#include <gtest/gtest.h>

namespace semel {
namespace {

using namespace std::chrono_literals;

TEST(SystemClock, AgreesWithTheMachine) {
    const SystemClock clock;
    const auto machine = std::chrono::system_clock::now().time_since_epoch();
    EXPECT_LT(std::chrono::abs(clock.wall().time_since_epoch() - machine), 10s);
    const Clock::Steady before = clock.steady();
    EXPECT_GE(clock.steady(), before);
}

TEST(ManualClock, StandsStillUntilItIsMoved) {
    ManualClock clock(time_from_micros(5));
    const Clock::Steady start = clock.steady();
    EXPECT_EQ(clock.steady(), start);
    EXPECT_EQ(micros(clock.wall()), 5);
    clock.advance(3us);
    EXPECT_EQ(clock.steady() - start, 3us);
    EXPECT_EQ(micros(clock.wall()), 8);
}

TEST(ManualClock, AJumpOfTheWallClockIsNoTimePassing) {
    ManualClock clock(time_from_micros(100));
    const Clock::Steady start = clock.steady();
    clock.jump(-40us);
    EXPECT_EQ(clock.steady(), start);
    EXPECT_EQ(micros(clock.wall()), 60);
}

}  // namespace
}  // namespace semel
