// Intents on PostgreSQL and SQLite: what a caller of perform() is told, and what the provider has been asked.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "consumers/database.hpp"
#include "provider.hpp"
#include "semel/committer.hpp"
#include "semel/fingerprint.hpp"
#include "support/temp_folder.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;
using namespace effects;

/// The answer of perform(), which must be of this kind.
template <class Expected>
Expected as(const Result<Performance>& answer) {
    if (!answer) throw std::runtime_error(answer.failure().message);
    const auto* found = std::get_if<Expected>(&*answer);
    if (found == nullptr) throw std::runtime_error("answer number " + std::to_string(answer->index()));
    return *found;
}

class IntentTest : public testing::TestWithParam<std::string_view> {
protected:
    Intent intent(const std::string& key, Provider provider, CallFunction call) {
        provider.lease = 400ms;
        provider.call_deadline = 100ms;
        return {.parent = {*Scope::make("acme", "payments"), *Key::parse(key)},
                .step = "charge",
                .fingerprint = fingerprint_of_bytes("12 EUR"),
                .provider = std::move(provider),
                .call = std::move(call),
                .limits = {.calls_max = 3, .total = 10s, .backoff_first = 10ms, .backoff_max = 50ms}};
    }
    CallFunction charging() {
        return [this](const Call& call) -> Reply {
            ++calls_;
            keys_.push_back(call.key.text());
            return Answered{{201, book_.charge(call.key.text()), true}, true};
        };
    }
    State state(const Intent& intent) {
        auto record = store_->find(intent.operation()->id());
        if (!record || !*record) throw std::runtime_error("no record");
        return (*record)->state;
    }

    TempFolder folder_;
    ChargeBook book_{folder_.path(), Honours::keys};
    std::unique_ptr<Database> database_ = make_database(GetParam());
    std::unique_ptr<Store> store_ = database_->store();
    std::unique_ptr<Committer> committer_ = std::move(*Committer::start(*store_));
    Intents intents_{*committer_};
    std::atomic<int> calls_ = 0;
    std::vector<std::string> keys_;
};

TEST_P(IntentTest, IsPerformedOnceAndReplayed) {
    const Intent charge = intent("k1", Provider::stripe(), charging());
    const auto first = as<Performed>(intents_.perform(charge));
    EXPECT_FALSE(first.replayed);
    const auto second = as<Performed>(intents_.perform(charge));
    EXPECT_TRUE(second.replayed);
    EXPECT_EQ(first.outcome, second.outcome);
    EXPECT_EQ(calls_, 1);
    EXPECT_EQ(keys_.front(), charge.operation()->key.text());
    Intent other = charge;
    other.fingerprint = fingerprint_of_bytes("13 EUR");
    (void)as<Mismatch>(intents_.perform(other));
}

TEST_P(IntentTest, ADeclineSettlesAndOnlyAnExplicitBusinessAttemptTriesAgain) {
    Intent charge = intent("k2", Provider::stripe(), [&](const Call&) -> Reply {
        return Answered{{402, "declined", true}, true};
    });
    EXPECT_EQ(as<Failed>(intents_.perform(charge)).outcome.status, 402);
    EXPECT_TRUE(as<Failed>(intents_.perform(charge)).replayed);
    charge.business_attempt = 2;
    charge.call = charging();
    (void)as<Performed>(intents_.perform(charge));
    EXPECT_NE(keys_.front(), (Intent{charge.parent, "charge"}.operation()->key.text()));
    charge.business_attempt = 3;
    const auto refused = intents_.perform(charge);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().code, Code::invalid);
    EXPECT_NE(refused.failure().message.find("has succeeded"), std::string::npos) << refused.failure().message;
    charge.business_attempt = 5;
    EXPECT_NE(intents_.perform(charge).failure().message.find("never made"), std::string::npos);
    EXPECT_EQ(calls_, 1);
}

TEST_P(IntentTest, AProviderThatChargedAndAnsweredNothingIsAskedAgainWithTheSameKey) {
    std::vector<bool> doubts;
    const auto mute_at_first = [&](const Call& call) -> Reply {
        doubts.push_back(call.doubt);
        const auto receipt = book_.charge(call.key.text());
        if (doubts.size() == 1) throw std::runtime_error("the connection broke");
        return Answered{{201, receipt, true}, true};
    };
    const Intent charge = intent("k3", Provider::stripe(), mute_at_first);
    EXPECT_EQ(as<Performed>(intents_.perform(charge)).outcome.status, 201);
    EXPECT_EQ(doubts, (std::vector{false, true}));
    EXPECT_EQ(book_.charges(), (std::map<std::string, int>{{charge.operation()->key.text(), 1}}));
}

TEST_P(IntentTest, AtMostOnceIsParkedAndAPersonDecides) {
    const Intent charge = intent("k4", Provider::at_most_once("sms"), [&](const Call& call) -> Reply {
        ++calls_;
        (void)book_.charge(call.key.text());
        return InDoubt{"no answer in time", std::nullopt};
    });
    EXPECT_EQ(as<OutcomeUnknown>(intents_.perform(charge)).why, "no answer in time");
    EXPECT_TRUE(as<OutcomeUnknown>(intents_.perform(charge)).since.has_value());
    EXPECT_EQ(calls_, 1);
    EXPECT_EQ(state(charge), State::unknown);
    const auto record = store_->find(charge.operation()->id());
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (true) {
        auto resolved = committer_->resolve(
            {charge.operation()->id(), (*record)->token, Outcome{202, "sent", true}, "erika", "the customer has it"});
        ASSERT_TRUE(resolved);
        if (!std::holds_alternative<TooEarly>(*resolved)) break;
        ASSERT_LT(std::chrono::steady_clock::now(), until);
        std::this_thread::sleep_for(20ms);
    }
    EXPECT_EQ(as<Performed>(intents_.perform(charge)).outcome.body, "sent");
    EXPECT_EQ(calls_, 1);
}

TEST_P(IntentTest, ALookupFindsOutWhatHappened) {
    for (const bool charged : {true, false}) {
        Intent charge = intent(charged ? "k5" : "k6", Provider::looked_up("old bank"), [&](const Call& call) -> Reply {
            if (calls_++ > 0) return Answered{{201, book_.charge(call.key.text()), true}, true};
            if (charged) (void)book_.charge(call.key.text());
            return InDoubt{"no answer in time", std::nullopt};
        });
        calls_ = 0;
        int lookups = 0;
        charge.lookup = [&](const Key& key) -> LookupAnswer {
            ++lookups;
            if (book_.charged(key.text())) return Happened{{201, "found", true}};
            return DidNotHappen{};
        };
        const auto done = as<Performed>(intents_.perform(charge));
        EXPECT_EQ(lookups, 1);
        EXPECT_EQ(calls_, charged ? 1 : 2);
        EXPECT_EQ(done.outcome.body == "found", charged);
        EXPECT_EQ(book_.charges()[charge.operation()->key.text()], 1);
        const auto record = store_->find(charge.operation()->id());
        EXPECT_EQ((*record)->resolved_by, charged ? "lookup" : "");
    }
}

TEST_P(IntentTest, WhatWasSurelyNotSentLeavesNothing) {
    const Intent charge = intent("k7", Provider::at_most_once("sms"), [&](const Call&) -> Reply {
        return ++calls_, NotSent{"no route", std::nullopt};
    });
    EXPECT_EQ(as<NotPerformed>(intents_.perform(charge)).error, "no route");
    EXPECT_EQ(calls_, 3);
    EXPECT_FALSE(*store_->find(charge.operation()->id()));
}

TEST_P(IntentTest, TheLeaseIsRenewedWhileTheCallRunsAndOthersAreTold) {
    std::mutex mutex;
    std::condition_variable changed;
    bool inside = false;
    bool may_end = false;
    Intent charge = intent("k8", Provider::at_most_once("slow"), [&](const Call& call) -> Reply {
        std::unique_lock lock(mutex);
        inside = true;
        changed.notify_all();
        changed.wait_for(lock, 30s, [&] { return may_end; });
        return Answered{{201, book_.charge(call.key.text()), true}, true};
    });
    charge.provider.lease = 1500ms;
    charge.provider.call_deadline = 1min;
    std::optional<Result<Performance>> answer;
    std::jthread holder([&] { answer = intents_.perform(charge); });
    {
        std::unique_lock lock(mutex);
        ASSERT_TRUE(changed.wait_for(lock, 30s, [&] { return inside; }));
    }
    // Longer than the lease: the last of these would have been granted, or answered Unknown.
    const auto until = std::chrono::steady_clock::now() + 2s;
    while (std::chrono::steady_clock::now() < until) {
        (void)as<Busy>(intents_.perform(charge));
        std::this_thread::sleep_for(50ms);
    }
    {
        const std::lock_guard lock(mutex);
        may_end = true;
        changed.notify_all();
    }
    holder.join();
    (void)as<Performed>(*answer);
    EXPECT_EQ(book_.charges().size(), 1U);
}

TEST_P(IntentTest, WhatIsTakenOverIsHeldUnderTheTermsOfItsFirstClaim) {
    Intent first = intent("k20", Provider::stripe(), [&](const Call&) -> Reply { return InDoubt{"no answer", {}}; });
    first.provider.lease = 3s;
    first.provider.call_deadline = 30s;
    first.limits.calls_max = 1;
    (void)as<OutcomeUnknown>(intents_.perform(first));
    // Configured with far more patience by now. Others go by the record: they would take it over while it is called, or
    // believe that the call is over.
    Intent later = first;
    later.provider.lease = later.provider.call_deadline = 10min;
    later.call = [&](const Call& call) -> Reply {
        const auto now = std::chrono::steady_clock::now();
        EXPECT_LE(call.deadline - now, first.provider.call_deadline);
        const auto lease_until = [&] { return (*store_->find(first.operation()->id()))->lease_until; };
        const auto at_first = lease_until();
        while (lease_until() == at_first && std::chrono::steady_clock::now() < now + 30s)
            std::this_thread::sleep_for(20ms);
        EXPECT_GT(lease_until(), at_first) << "not renewed, although its lease is long over";
        return Answered{{201, book_.charge(call.key.text()), true}, true};
    };
    (void)as<Performed>(intents_.perform(later));
}

TEST_P(IntentTest, StopsWhenItIsAskedTo) {
    Intent charge = intent("k9", Provider::stripe(), {});
    charge.limits = {.calls_max = 100, .total = 1h, .backoff_first = 10min, .backoff_max = 20min};
    std::stop_source stop;
    charge.call = [&](const Call& call) -> Reply {
        stop.request_stop();
        EXPECT_TRUE(call.stop.stop_requested());
        return InDoubt{"no answer in time", std::nullopt};
    };
    (void)as<OutcomeUnknown>(intents_.perform(charge, stop.get_token()));
    charge.call = charging();
    (void)as<OutcomeUnknown>(intents_.perform(charge, stop.get_token()));
    EXPECT_EQ(calls_, 0);
    (void)as<Performed>(intents_.perform(charge));
}

TEST_P(IntentTest, OptionsThatCannotBeSafeAreRefused) {
    const auto refused = [&](Intent wrong, std::string_view word) {
        const auto answer = intents_.perform(wrong);
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.failure().code, Code::invalid);
        EXPECT_NE(answer.failure().message.find(word), std::string::npos) << answer.failure().message;
    };
    refused(intent("k10", Provider::stripe(), {}), "needs a call");
    refused(intent("k10", Provider::looked_up("old bank"), charging()), "there is none");
    refused(intent("k10", Provider::deduplicating("quick", 50ms), charging()), "dedup_window");
    refused(intent("k10", {}, charging()), "name");
    Intent wrong = intent("k10", Provider::stripe(), charging());
    wrong.business_attempt = 0;
    refused(wrong, "begin at 1");
    wrong = intent("k10", Provider::stripe(), charging());
    wrong.step = std::string(101, 'x');
    refused(wrong, "1 to 100");
    EXPECT_EQ(calls_, 0);
}

INSTANTIATE_TEST_SUITE_P(Databases, IntentTest, testing::ValuesIn(database_names),
                         [](const auto& database) { return std::string(database.param); });

}  // namespace
}  // namespace semel::test
