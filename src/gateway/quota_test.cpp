#include "gateway/quota.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace semel::gateway {
namespace {

using namespace std::chrono_literals;

class QuotaTest : public testing::Test {
protected:
    QuotaTest() { begin_window(); }

    /// Moves on to where a window of a minute begins that knows nothing of the one before.
    void begin_window() {
        const auto now = std::chrono::floor<Duration>(clock_.steady().time_since_epoch());
        clock_.advance(3min - now % 1min);
    }

    /// Admitted, and done at once.
    bool passes(const Quota& quota, std::string_view tenant = "acme", std::string_view route = "charges") {
        return std::holds_alternative<Quotas::Ticket>(quotas_.admit(tenant, route, quota));
    }
    Duration wait(const Quota& quota) {
        const auto answer = quotas_.admit("acme", "charges", quota);
        const auto* refused = std::get_if<Quotas::Refused>(&answer);
        return refused == nullptr ? Duration{0} : refused->retry_after;
    }
    Quotas::Ticket ticket(const Quota& quota) {
        return std::get<Quotas::Ticket>(quotas_.admit("acme", "charges", quota));
    }

    ManualClock clock_;
    Quotas quotas_{clock_};
};

constexpr Quota three_a_minute{.new_keys_max = 3, .window = 1min, .open_max = 0};
constexpr Quota two_at_once{.new_keys_max = 0, .window = 1min, .open_max = 2};

TEST_F(QuotaTest, WithoutALimitNothingIsCounted) {
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(passes({}));
    EXPECT_EQ(quotas_.entries(), 0U);
}

TEST_F(QuotaTest, NewKeysHaveALimitPerWindow) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(passes(three_a_minute)) << i;
    EXPECT_FALSE(passes(three_a_minute));
    EXPECT_TRUE(passes(three_a_minute, "other"));
    EXPECT_TRUE(passes(three_a_minute, "acme", "refunds"));
    clock_.advance(2min);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(passes(three_a_minute)) << i;
    EXPECT_FALSE(passes(three_a_minute));
}

TEST_F(QuotaTest, TheWindowSlides) {
    clock_.advance(59s);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(passes(three_a_minute));
    clock_.advance(2s);
    EXPECT_FALSE(passes(three_a_minute)) << "all three are two seconds old";
    clock_.advance(19s);
    EXPECT_TRUE(passes(three_a_minute)) << "a third of the last window has gone out of view";
    EXPECT_FALSE(passes(three_a_minute));
}

TEST_F(QuotaTest, WhoeverWaitsAsToldIsAdmitted) {
    for (const auto start : {0s, 1s, 30s, 59s}) {
        begin_window();
        clock_.advance(start);
        for (int i = 0; i < 20; ++i) {
            const Duration told = wait(three_a_minute);
            EXPECT_LE(told, 2min);
            if (told == Duration{0}) continue;
            clock_.advance(told - 1us);
            EXPECT_GT(wait(three_a_minute), Duration{0}) << "and not before";
            clock_.advance(1us);
            EXPECT_EQ(wait(three_a_minute), Duration{0}) << told.count();
        }
    }
}

TEST_F(QuotaTest, AKeyThatWasKnownDoesNotCountAsNew) {
    for (int i = 0; i < 100; ++i) {
        Quotas::Ticket replay = ticket(three_a_minute);
        replay.not_new();
        replay.not_new();  // said twice is said once
    }
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(passes(three_a_minute));
    EXPECT_FALSE(passes(three_a_minute));
}

TEST_F(QuotaTest, AKeyIsGivenBackToTheWindowItCameIn) {
    Quotas::Ticket late = ticket(three_a_minute);
    clock_.advance(1min);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(passes(three_a_minute));
    EXPECT_FALSE(passes(three_a_minute));
    late.not_new();
    EXPECT_TRUE(passes(three_a_minute));
    EXPECT_FALSE(passes(three_a_minute));
}

TEST_F(QuotaTest, OpenOperationsHaveALimit) {
    Quotas::Ticket first = ticket(two_at_once);
    {
        const Quotas::Ticket second = ticket(two_at_once);
        EXPECT_GT(wait(two_at_once), Duration{0});
        EXPECT_TRUE(passes(two_at_once, "other"));
    }
    EXPECT_EQ(wait(two_at_once), Duration{0});
    Quotas::Ticket moved = std::move(first);
    Quotas::Ticket again = ticket(two_at_once);
    EXPECT_GT(wait(two_at_once), Duration{0}) << "moving a ticket ends nothing";
    moved = std::move(again);
    EXPECT_EQ(wait(two_at_once), Duration{0}) << "assigning to one ends it";
    clock_.advance(1h);
    Quotas::Ticket third = ticket(two_at_once);
    EXPECT_GT(wait(two_at_once), Duration{0}) << "time ends none";
}

TEST_F(QuotaTest, OldEntriesAreForgotten) {
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(passes(three_a_minute, std::to_string(i)));
    EXPECT_EQ(quotas_.entries(), 1000U);
    clock_.advance(3min);
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(passes(three_a_minute, "new" + std::to_string(i)));
    EXPECT_EQ(quotas_.entries(), 200U);
}

TEST(Quotas, MemoryHasALimitAndRunningOperationsAreNotForgotten) {
    const ManualClock clock;
    Quotas quotas(clock, 160);
    const auto admit = [&](const std::string& tenant) { return quotas.admit(tenant, "charges", two_at_once); };
    std::vector<Quotas::Answer> running;
    for (int i = 0; i < 50; ++i)
        for (int twice = 0; twice < 2; ++twice) running.push_back(admit("busy" + std::to_string(i)));
    for (int i = 0; i < 10000; ++i)
        EXPECT_TRUE(std::holds_alternative<Quotas::Ticket>(admit("idle" + std::to_string(i))));
    EXPECT_LE(quotas.entries(), 160U + 50U);
    for (int i = 0; i < 50; ++i)
        EXPECT_TRUE(std::holds_alternative<Quotas::Refused>(admit("busy" + std::to_string(i)))) << i;
    running.clear();
    EXPECT_TRUE(std::holds_alternative<Quotas::Ticket>(admit("busy7")));
}

TEST(Quotas, CountExactlyUnderContention) {
    const ManualClock clock;
    Quotas quotas(clock);
    const Quota quota{.new_keys_max = 1000, .window = 1h, .open_max = 4};
    std::atomic<int> admitted = 0;
    std::atomic<int> open = 0;
    std::atomic<int> most = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] {
                for (int n = 0; n < 500; ++n) {
                    const auto answer = quotas.admit("acme", "charges", quota);
                    if (!std::holds_alternative<Quotas::Ticket>(answer)) continue;
                    ++admitted;
                    most = std::max(most.load(), ++open);
                    --open;
                }
            });
    }
    EXPECT_EQ(admitted, 1000);
    EXPECT_LE(most, 4);
}

}  // namespace
}  // namespace semel::gateway
