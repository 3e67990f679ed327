#include "gateway/tenant_key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "base/clock.hpp"
#include "semel/fingerprint.hpp"
#include "stores/memory/memory_store.hpp"

namespace semel::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

using Secrets = std::vector<std::string>;

const Operation first{*Scope::make("~semel", "tenant-key"), *Key::parse("first")};

/// A store whose process dies after `left` commits: every later one fails, as if it were never sent.
class MortalStore final : public Store {
public:
    MortalStore(Store& inner, int commits) : inner_(inner), left_(commits) {}

    class MortalSession final : public Session {
    public:
        MortalSession(std::unique_ptr<Session> inner, std::atomic<int>& left) : inner_(std::move(inner)), left_(left) {}
        Result<Executed> execute(std::span<const Group> groups) override {
            if (left_-- <= 0) return Failure{Code::unavailable, "dead"};
            return inner_->execute(groups);
        }

    private:
        std::unique_ptr<Session> inner_;
        std::atomic<int>& left_;
    };

    Result<std::unique_ptr<Session>> session() override {
        auto inner = inner_.session();
        if (!inner) return std::move(inner).failure();
        return std::unique_ptr<Session>(std::make_unique<MortalSession>(std::move(*inner), left_));
    }
    [[nodiscard]] std::size_t sessions_max() const override { return 1; }
    Result<std::optional<Record>> find(const OperationId& id) override { return inner_.find(id); }
    Result<Page> list(const Filter& filter, const std::string& cursor, std::size_t limit) override {
        return inner_.list(filter, cursor, limit);
    }
    Result<Swept> sweep(std::size_t limit, bool accept_clock) override { return inner_.sweep(limit, accept_clock); }
    Result<TimePoint> now() override { return inner_.now(); }
    [[nodiscard]] std::string text() const override { return inner_.text(); }

private:
    Store& inner_;
    std::atomic<int> left_;
};

class TenantKeyTest : public testing::Test {
protected:
    /// One start of the gateway.
    Result<Key32> started(const Secrets& secrets) {
        auto committer = Committer::start(store_);
        EXPECT_TRUE(committer.ok());
        return tenant_key(**committer, secrets);
    }
    /// One that dies after so many commits.
    Result<Key32> started_and_died(const Secrets& secrets, int commits) {
        MortalStore mortal(store_, commits);
        auto committer = Committer::start(mortal, {.timeout = 20ms, .backoff_first = 1ms, .backoff_max = 5ms});
        EXPECT_TRUE(committer.ok());
        return tenant_key(**committer, secrets);
    }
    std::size_t records() { return store_.list({}, "", 100)->records.size(); }

    ManualClock clock_;
    MemoryStore store_{[this] { return clock_.wall(); }};
};

Code code_of(const Result<Key32>& key) {
    EXPECT_FALSE(key.ok());
    return key ? Code::exhausted : key.failure().code;
}

TEST_F(TenantKeyTest, IsMadeOnceAndRandom) {
    const auto key = started({"s1"});
    ASSERT_TRUE(key.ok()) << key.failure().message;
    EXPECT_NE(*key, Key32{});
    EXPECT_EQ(*started({"s1"}), *key);
    EXPECT_EQ(records(), 2U);

    MemoryStore other([this] { return clock_.wall(); });
    auto committer = Committer::start(other);
    EXPECT_NE(*tenant_key(**committer, {"s1"}), *key);
}

TEST_F(TenantKeyTest, IsKeptForEverAndNotInPlain) {
    const std::string secret = "a secret that no random bytes spell by chance";
    const auto key = started({secret});
    ASSERT_TRUE(key.ok());
    clock_.advance(std::chrono::hours{24 * 365 * 50});
    ASSERT_TRUE(store_.sweep(100, true).ok());
    EXPECT_EQ(*started({secret}), *key);
    const auto page = store_.list({}, "", 100);
    for (const Record& record : page->records) {
        EXPECT_THAT(record.outcome.body, Not(HasSubstr(view(*key))));
        EXPECT_THAT(record.outcome.body, Not(HasSubstr(secret)));
    }
}

TEST_F(TenantKeyTest, AnotherSecretIsRefused) {
    ASSERT_TRUE(started({"s1"}).ok());
    const auto refused = started({"s2"});
    EXPECT_EQ(code_of(refused), Code::invalid);
    EXPECT_THAT(refused.failure().message, HasSubstr("tenant.secret is not the one this store was first used with"));
    EXPECT_THAT(refused.failure().message, Not(HasSubstr("s2")));
    EXPECT_EQ(records(), 2U) << "a refused start leaves nothing";
    EXPECT_TRUE(started({"s1"}).ok());
}

TEST_F(TenantKeyTest, ASecretIsReplacedWithAnOverlap) {
    const auto key = started({"old"});
    ASSERT_TRUE(key.ok());
    EXPECT_EQ(*started({"new", "old"}), *key);
    EXPECT_EQ(*started({"old"}), *key) << "an instance that has the old one only";
    EXPECT_EQ(*started({"new"}), *key) << "the old one is not needed any more";
    EXPECT_EQ(*started({"newer", "new"}), *key);
    EXPECT_EQ(*started({"newer"}), *key);
    EXPECT_EQ(code_of(started({"newest"})), Code::invalid);
}

TEST_F(TenantKeyTest, TheOrderOfTheSecretsDoesNotMatterForFindingIt) {
    const auto key = started({"s1"});
    ASSERT_TRUE(key.ok());
    EXPECT_EQ(*started({"s1", "s2"}), *key);
    EXPECT_EQ(code_of(started({"s2"})), Code::invalid) << "only the first is in use";
    EXPECT_EQ(*started({"s3", "s2", "s1"}), *key);
    EXPECT_EQ(*started({"s3"}), *key);
}

TEST_F(TenantKeyTest, WithoutASecretItIsKeptPlain) {
    const auto key = started({});
    ASSERT_TRUE(key.ok());
    EXPECT_EQ(records(), 1U);
    EXPECT_EQ(*started({}), *key);
}

TEST_F(TenantKeyTest, ASecretCanBeAddedButNotLeftOut) {
    const auto key = started({});
    ASSERT_TRUE(key.ok());
    EXPECT_EQ(*started({"s1"}), *key);
    EXPECT_EQ(*started({"s1"}), *key);

    MemoryStore wrapped([this] { return clock_.wall(); });
    auto committer = Committer::start(wrapped);
    ASSERT_TRUE(tenant_key(**committer, {"s1"}).ok());
    const auto refused = tenant_key(**committer, {});
    EXPECT_EQ(code_of(refused), Code::invalid);
    EXPECT_THAT(refused.failure().message, HasSubstr("none is set"));
}

TEST_F(TenantKeyTest, ACrashAfterAnyStepIsFinishedByTheNextStart) {
    for (const Secrets& secrets : {Secrets{}, Secrets{"s1"}}) {
        const int steps = secrets.empty() ? 2 : 4;
        for (int commits = 0; commits < steps; ++commits) {
            MemoryStore store([this] { return clock_.wall(); });
            MortalStore mortal(store, commits);
            {
                auto committer = Committer::start(mortal, {.timeout = 20ms, .backoff_first = 1ms, .backoff_max = 5ms});
                EXPECT_FALSE(tenant_key(**committer, secrets).ok()) << commits;
            }
            store.restart();
            auto committer = Committer::start(store);
            const auto key = tenant_key(**committer, secrets);
            ASSERT_TRUE(key.ok()) << commits << ": " << key.failure().message;
            EXPECT_EQ(*tenant_key(**committer, secrets), *key) << commits;
        }
    }
}

TEST_F(TenantKeyTest, ACrashWhileASecretIsReplacedKeepsTheKey) {
    const auto key = started({"old"});
    ASSERT_TRUE(key.ok());
    for (int commits = 0; commits < 2; ++commits) {
        EXPECT_FALSE(started_and_died({"new", "old"}, commits).ok());
        store_.restart();
        EXPECT_EQ(*started({"old"}), *key);
    }
    EXPECT_EQ(*started({"new", "old"}), *key);
    EXPECT_EQ(*started({"new"}), *key);
}

TEST_F(TenantKeyTest, InstancesThatStartAtOnceGetTheSameKey) {
    SystemClock now;
    MemoryStore store([&] { return now.wall(); });
    std::vector<Key32> keys(4);
    {
        std::vector<std::jthread> instances;
        for (Key32& key : keys)
            instances.emplace_back([&] {
                auto committer = Committer::start(store);
                const auto found = tenant_key(**committer, {"s1"});
                if (found) key = *found;
            });
    }
    EXPECT_NE(keys[0], Key32{});
    EXPECT_EQ(std::ranges::count(keys, keys[0]), 4);
}

TEST_F(TenantKeyTest, WaitsForAnInstanceThatIsAtItAndTakesOverIfItIsGone) {
    auto committer = Committer::start(store_);
    const auto held = (*committer)
                          ->claim({.operation = first,
                                   .fingerprint = fingerprint_of_bytes("semel/tenant-key/1"),
                                   .policy = {.on_unknown = OnUnknown::resume, .lease = 5s}});
    ASSERT_TRUE(held.ok() && std::holds_alternative<Claimed>(*held));
    Result<Key32> key = Failure{Code::unavailable, ""};
    std::jthread other([&] { key = started({"s1"}); });
    clock_.advance(6s);
    other.join();
    ASSERT_TRUE(key.ok()) << key.failure().message;
    EXPECT_EQ(*started({"s1"}), *key);
}

TEST_F(TenantKeyTest, WhatIsNoKeyIsCorrupt) {
    for (const std::string body : {"", "x", "\x01short", "\x02short", "\x03"}) {
        MemoryStore store([this] { return clock_.wall(); });
        auto committer = Committer::start(store);
        const auto held =
            (*committer)
                ->claim({.operation = first, .fingerprint = fingerprint_of_bytes("semel/tenant-key/1"), .policy = {}});
        const auto& claimed = std::get<Claimed>(*held);
        ASSERT_TRUE((*committer)->settle({first.id(), claimed.token, claimed.attempt}, {.body = body}).ok());
        EXPECT_EQ(code_of(tenant_key(**committer, {"s1"})), Code::corrupt) << body;
    }
}

}  // namespace
}  // namespace semel::gateway
