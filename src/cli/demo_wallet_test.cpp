// The demo's own check has to be able to fail.
#include "cli/demo_wallet.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

namespace semel::cli::demo {
namespace {

class DemoWallet : public testing::Test {
protected:
    void SetUp() override {
        std::remove(path_.c_str());
        const std::ofstream empty(path_);
        wallet_.emplace(std::move(Wallet::open(path_)).value());
        ASSERT_TRUE(sqlite::run(wallet_->connection(), "pragma journal_mode=memory; pragma synchronous=off"));
        ASSERT_TRUE(wallet_->create(plan_.accounts));
    }
    void TearDown() override {
        wallet_.reset();
        std::remove(path_.c_str());
    }

    void credit(const Payment& payment, std::int64_t cents) {
        ASSERT_TRUE(wallet_->credit({payment.key.text(), payment.account, cents}));
    }
    void credit_all() {
        for (const Step& step : plan_.steps) credit(step.payment, step.payment.cents);
    }
    /// Balances, then audit.
    std::pair<bool, bool> verdict() {
        const auto checks = wallet_->check(plan_).value();
        return {checks.at(0).passed, checks.at(1).passed};
    }

    std::string path_ = testing::TempDir() + "/semel_demo_wallet_" + std::to_string(getpid());
    Plan plan_ = make_plan(20, 1);
    std::optional<Wallet> wallet_;
};

TEST_F(DemoWallet, IsRightWhenEveryPaymentWasAppliedOnce) {
    credit_all();
    EXPECT_EQ(verdict(), std::pair(true, true));
    EXPECT_EQ(*wallet_->applied(), 20U);
}

TEST_F(DemoWallet, NoticesAPaymentAppliedTwice) {
    credit_all();
    credit(plan_.steps[3].payment, plan_.steps[3].payment.cents);
    EXPECT_EQ(verdict(), std::pair(false, false));
}

TEST_F(DemoWallet, NoticesAPaymentThatWasLost) {
    for (std::size_t i = 1; i < plan_.steps.size(); ++i) credit(plan_.steps[i].payment, plan_.steps[i].payment.cents);
    EXPECT_EQ(verdict(), std::pair(false, false));
}

TEST_F(DemoWallet, NoticesABalanceThatTheAuditDoesNotExplain) {
    credit_all();
    ASSERT_TRUE(sqlite::run(wallet_->connection(), "update wallet set cents = cents + 1 where account = 'alice'"));
    EXPECT_EQ(verdict(), std::pair(false, true));
    credit(plan_.steps[0].payment, 0);
    EXPECT_EQ(verdict(), std::pair(false, false));
}

TEST_F(DemoWallet, CreditsOnlyWalletsThatExist) { EXPECT_FALSE(wallet_->credit({"payment", "nobody", 5})); }

}  // namespace
}  // namespace semel::cli::demo
