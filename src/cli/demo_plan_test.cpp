#include "cli/demo_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace semel::cli::demo {
namespace {

TEST(DemoPlan, IsTheSameForTheSameSeed) {
    const Plan first = make_plan(50, 7);
    const Plan second = make_plan(50, 7);
    const Plan other = make_plan(50, 8);
    bool differs = false;
    for (std::size_t i = 0; i < 50; ++i) {
        EXPECT_EQ(first.steps[i].json(), second.steps[i].json());
        EXPECT_EQ(first.steps[i].key, second.steps[i].key);
        EXPECT_EQ(first.steps[i].trouble, second.steps[i].trouble);
        differs = differs || first.steps[i].key != other.steps[i].key;
    }
    EXPECT_TRUE(differs);
}

TEST(DemoPlan, HasEveryTroubleAndPaymentsWithoutAny) {
    for (const std::uint64_t payments : {11, 40, 300}) {
        const Plan plan = make_plan(payments, 3);
        ASSERT_EQ(plan.steps.size(), payments);
        for (const Trouble each : all_troubles) EXPECT_GE(std::ranges::count(plan.steps, each, &Step::trouble), 1);
        EXPECT_GE(std::ranges::count(plan.steps, Trouble::none, &Step::trouble), 1);
    }
    EXPECT_EQ(make_plan(1, 3).steps.front().trouble, Trouble::client_timeout);
}

TEST(DemoPlan, PaymentsAreDistinct) {
    const Plan plan = make_plan(300, 5);
    std::set<Key> keys;
    for (const Step& step : plan.steps) keys.insert(step.key);
    EXPECT_EQ(keys.size(), plan.steps.size());
}

}  // namespace
}  // namespace semel::cli::demo
