// A PostgreSQL that is killed under load, again and again. Runs beside a server of its own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "semel/committer.hpp"
#include "support/commands.hpp"
#include "support/postgres.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

TEST(DyingServer, NothingAcknowledgedIsLostAndNothingIsGrantedTwice) {  // I1, I10
    const TestDatabase database;
    const std::string ctl = server_variable("SEMEL_TEST_POSTGRES_CTL");
    auto store = postgres::open({.uri = database.uri(), .sessions_max = 3, .timeout = 2s}).value();
    auto committer = Committer::start(*store, {.timeout = 30s}).value();

    std::mutex mutex;
    std::map<std::string, std::vector<Token>> granted;  // guarded by mutex, as is the following
    std::map<std::string, std::string> settled;
    std::atomic<bool> stop = false;
    std::atomic<int> unavailable = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; !stop; ++i) {
                // Two threads share every key.
                const std::string key = "k" + std::to_string(t / 2) + "-" + std::to_string(i);
                const Claim command = claim(key);
                const auto answer = committer->claim(command, 20s);
                if (!answer) {
                    EXPECT_NE(answer.failure().code, Code::corrupt) << answer.failure().message;
                    ++unavailable;
                    continue;
                }
                const auto* mine = std::get_if<Claimed>(&*answer);
                if (mine == nullptr) continue;
                {
                    const std::lock_guard lock(mutex);
                    granted[key].push_back(mine->token);
                }
                const std::string body = "outcome " + key;
                const auto done = committer->settle(holder(command, *mine), {200, body, true}, true, 30s);
                if (done && std::holds_alternative<Ok>(*done)) {
                    const std::lock_guard lock(mutex);
                    settled[key] = body;
                }
            }
        });
    }
    const auto settled_now = [&] {
        const std::lock_guard lock(mutex);
        return settled.size();
    };
    const auto wait_for = [&](std::size_t count) {
        const auto deadline = std::chrono::steady_clock::now() + 60s;
        while (settled_now() < count && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        return settled_now() >= count;
    };
    for (int round = 0; round < 3; ++round) {
        EXPECT_TRUE(wait_for(settled_now() + 50)) << "round " << round;
        ASSERT_EQ(std::system((ctl + " kill").c_str()), 0);
        ASSERT_EQ(std::system((ctl + " start > /dev/null").c_str()), 0);
    }
    EXPECT_TRUE(wait_for(settled_now() + 50));
    stop = true;
    for (std::thread& thread : threads) thread.join();
    committer.reset();

    EXPECT_GE(settled.size(), 200U);
    for (const auto& [key, tokens] : granted) EXPECT_EQ(tokens.size(), 1U) << key;
    for (const auto& [key, body] : settled) {
        const auto record = store->find(operation(key).id()).value();
        ASSERT_TRUE(record) << key << " was acknowledged and is gone";
        EXPECT_EQ(record->state, State::settled);
        EXPECT_EQ(record->outcome.body, body);
    }
}

}  // namespace
}  // namespace semel::test
