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
        EXPECT_EQ(first.steps[i].payment.json(), second.steps[i].payment.json());
        EXPECT_EQ(first.steps[i].payment.key, second.steps[i].payment.key);
        EXPECT_EQ(first.steps[i].client_retries, second.steps[i].client_retries);
        EXPECT_EQ(first.steps[i].consumer_crashes, second.steps[i].consumer_crashes);
        differs = differs || first.steps[i].payment.key != other.steps[i].payment.key;
    }
    EXPECT_TRUE(differs);
}

TEST(DemoPlan, HasEveryKindOfDuplicateHoweverSmall) {
    for (const std::uint64_t payments : {1, 2, 10, 300}) {
        const Plan plan = make_plan(payments, 3);
        ASSERT_EQ(plan.steps.size(), payments);
        const auto some = [&](auto member) {
            return std::ranges::any_of(plan.steps, [&](const Step& step) { return static_cast<bool>(step.*member); });
        };
        EXPECT_TRUE(some(&Step::client_retries));
        EXPECT_TRUE(some(&Step::acknowledgement_lost));
        EXPECT_TRUE(some(&Step::broker_goes_back));
        EXPECT_TRUE(some(&Step::consumer_crashes));
        EXPECT_TRUE(some(&Step::consumer_reply_lost));
        EXPECT_TRUE(some(&Step::claim_reply_lost));
        EXPECT_TRUE(some(&Step::settle_reply_lost));
    }
}

TEST(DemoPlan, PaymentsAreDistinctAndTheBrokerNeverGoesBackBeyondTheFirst) {
    const Plan plan = make_plan(300, 5);
    std::set<Key> keys;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        keys.insert(plan.steps[i].payment.key);
        EXPECT_LE(plan.steps[i].broker_goes_back, i + 1);
    }
    EXPECT_EQ(keys.size(), plan.steps.size());
}

}  // namespace
}  // namespace semel::cli::demo
