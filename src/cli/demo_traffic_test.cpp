#include "cli/demo_traffic.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "cli/demo_report.hpp"

namespace semel::cli::demo {
namespace {

// Without a gateway between: the checks have to find out. (With one: tests/cli/run.)
TEST(DemoTraffic, WithoutAGatewayTheChecksFail) {
    const auto api = PaymentsApi::start().value();
    api->slow_for(std::chrono::milliseconds{20});
    Plan plan = make_plan(40, 1);
    // Without a gateway nobody says that an outcome is unknown: the client would try for as long as it is patient.
    for (Step& step : plan.steps)
        if (step.trouble == Trouble::answer_lost || step.trouble == Trouble::server_crash) step.trouble = Trouble::none;
    const Traffic traffic(plan, *api, api->port(), std::chrono::milliseconds{0});
    while (!traffic.finished()) std::this_thread::yield();
    const Verdict verdict = traffic.judge();
    EXPECT_FALSE(verdict.passed());
    EXPECT_GT(verdict.charges, plan.steps.size());
    ASSERT_EQ(verdict.checks.size(), 5U);
    EXPECT_FALSE(verdict.checks[0].passed) << "charged twice";
    EXPECT_TRUE(verdict.checks[1].passed) << "answered without a charge";
    EXPECT_FALSE(verdict.checks[2].passed) << "other answers";
    EXPECT_FALSE(verdict.checks[4].passed) << "a reused key was accepted";
    EXPECT_NE(report(plan, traffic.tally(), verdict, Paint(false)).find("✗ NOT TRUE: 40 payments"), std::string::npos);
}

TEST(DemoTraffic, EveryRequestIsCountedOnce) {
    const auto api = PaymentsApi::start().value();
    api->slow_for(std::chrono::milliseconds{20});
    Plan plan = make_plan(20, 2);
    for (Step& step : plan.steps)
        if (step.trouble == Trouble::answer_lost || step.trouble == Trouble::server_crash) step.trouble = Trouble::none;
    const Traffic traffic(plan, *api, api->port(), std::chrono::milliseconds{0});
    while (!traffic.finished()) std::this_thread::yield();
    const Tally tally = traffic.tally();
    EXPECT_EQ(tally.done, 20U);
    EXPECT_EQ(tally.requests, tally.performed + tally.replays + tally.conflicts + tally.mismatches + tally.unknown +
                                  tally.released + tally.hung_up);
}

TEST(DemoTraffic, EndsAtOnceWhereNobodyListens) {
    const auto api = PaymentsApi::start().value();
    std::uint16_t nobody = 0;
    {
        const auto gone = Socket::listen(0);
        nobody = gone->port();
    }
    const Plan plan = make_plan(20, 2);
    const Traffic traffic(plan, *api, nobody, std::chrono::milliseconds{0});
    while (!traffic.finished()) std::this_thread::yield();
    ASSERT_TRUE(traffic.failure());
    EXPECT_NE(traffic.failure()->message.find(std::to_string(nobody)), std::string::npos);
}

}  // namespace
}  // namespace semel::cli::demo
