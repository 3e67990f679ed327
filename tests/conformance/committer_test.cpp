// The committer over every store: threads, callbacks and coroutines that share commits.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <latch>
#include <thread>

#include "semel/asio.hpp"
#include "semel/committer.hpp"
#include "support/commands.hpp"
#include "support/stores.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

class CommitterOverStore : public testing::TestWithParam<StoreKind> {
protected:
    void SetUp() override {
        world_ = GetParam().make();
        committer_ = Committer::start(world_->store(), {.timeout = 30s}).value();
    }
    std::unique_ptr<StoreUnderTest> world_;
    std::unique_ptr<Committer> committer_;
};

TEST_P(CommitterOverStore, ManyThreadsShareCommitsAndEachGetsItsOwnAnswer) {
    constexpr int threads_count = 32;
    constexpr int rounds = 20;
    std::atomic<int> claimed = 0;
    std::atomic<int> replayed = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < threads_count; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < rounds; ++i) {
                const std::string key = std::to_string(t) + "-" + std::to_string(i);
                const Claim command = claim(key);
                const auto answer = committer_->claim(command);
                ASSERT_TRUE(answer) << answer.failure().message;
                const auto* mine = std::get_if<Claimed>(&*answer);
                ASSERT_NE(mine, nullptr);
                ++claimed;
                const auto settled = committer_->settle(holder(command, *mine), {200, key, true});
                ASSERT_TRUE(settled) << settled.failure().message;
                const auto replay = committer_->claim(claim(key));
                ASSERT_TRUE(replay);
                ASSERT_TRUE(std::holds_alternative<Replay>(*replay));
                EXPECT_EQ(std::get<Replay>(*replay).outcome.body, key);
                ++replayed;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(claimed, threads_count * rounds);
    EXPECT_EQ(replayed, threads_count * rounds);
    const CommitterFigures figures = committer_->figures();
    EXPECT_GE(figures.groups, static_cast<std::uint64_t>(threads_count * rounds * 3));
    if (GetParam().name != "memory") {
        EXPECT_LT(figures.batches, figures.groups) << "nobody ever shared a commit";
    }
}

TEST_P(CommitterOverStore, OfManyCallersOfOneOperationOneIsClaimed) {  // I1
    constexpr int callers = 50;
    std::atomic<int> claimed = 0;
    std::atomic<int> busy = 0;
    std::latch all(callers);
    for (int i = 0; i < callers; ++i) {
        std::vector<Command> group;
        group.emplace_back(claim("one"));
        committer_->submit(std::move(group), 10s, nullptr, [&](GroupAnswer answer) {
            if (answer && is<Claimed>(answer->front())) ++claimed;
            if (answer && is<Busy>(answer->front())) ++busy;
            all.count_down();
        });
    }
    all.wait();
    EXPECT_EQ(claimed, 1);
    EXPECT_EQ(busy, callers - 1);
}

boost::asio::awaitable<void> pay(Committer& committer, std::string key, int& done) {
    Claim command = claim(key);
    const Operation what = command.operation;
    const auto answer = co_await co_claim(committer, std::move(command));
    if (!answer || !std::holds_alternative<Claimed>(*answer)) co_return;
    const Claimed& mine = std::get<Claimed>(*answer);
    Command settle = Settle{{what.id(), mine.token, mine.attempt}, {200, key, true}};
    const auto settled = co_await co_tell(committer, std::move(settle));
    if (settled && std::holds_alternative<Ok>(*settled)) ++done;
}

TEST_P(CommitterOverStore, CoroutinesOfOneThreadShareCommits) {
    boost::asio::io_context context;
    int done = 0;
    for (int i = 0; i < 200; ++i)
        boost::asio::co_spawn(context, pay(*committer_, "k" + std::to_string(i), done), boost::asio::detached);
    context.run();
    EXPECT_EQ(done, 200);
    EXPECT_EQ(world_->store().list({.state = State::settled}, "", 1000)->records.size(), 200U);
}

TEST_P(CommitterOverStore, BadCommandsAreRefusedBeforeTheyReachTheStore) {
    Claim no_lease = claim("k");
    no_lease.policy.lease = 0s;
    Claim retry_without_window = claim("k");
    retry_without_window.policy.on_unknown = OnUnknown::retry;
    Claim short_memory = claim("k");
    short_memory.policy.retention.identity = 10s;
    Claim odd_correlation = claim("k");
    odd_correlation.correlation = "a\nb";
    Claim much_to_ask = claim("k");
    much_to_ask.request = std::string(Record::request_bytes_max + 1, 'x');
    for (const Claim& bad : {no_lease, retry_without_window, short_memory, odd_correlation, much_to_ask}) {
        const auto answer = committer_->claim(bad);
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.failure().code, Code::invalid);
    }
    EXPECT_EQ(committer_->resolve({.id = {}, .token_seen = {}, .outcome = {}, .who = "", .why = "x"}).failure().code,
              Code::invalid);
    EXPECT_EQ(committer_->save({}, {"", "x"}).failure().code, Code::invalid);
    EXPECT_EQ(committer_->execute({}).failure().code, Code::invalid);
    EXPECT_TRUE(world_->store().list({}, "", 10)->records.empty());
}

TEST_P(CommitterOverStore, AKeyFromTheFutureIsRefused) {
    const TimePoint now = world_->store().now().value();
    ASSERT_TRUE(committer_->claim(claim("first")));  // the committer has seen the store's clock
    Claim ahead = claim("ahead");
    ahead.key_time = now + 6min;
    EXPECT_EQ(committer_->claim(ahead).failure().code, Code::invalid);
    ahead.key_time = now + 4min;
    EXPECT_TRUE(std::holds_alternative<Claimed>(committer_->claim(ahead).value()));
}

TEST_P(CommitterOverStore, StoppingFinishesWhatWasSubmitted) {
    std::atomic<int> answered = 0;
    for (int i = 0; i < 100; ++i) {
        std::vector<Command> group;
        group.emplace_back(claim("k" + std::to_string(i)));
        committer_->submit(std::move(group), 10s, nullptr,
                           [&](GroupAnswer answer) { answered += answer.ok() ? 1 : 0; });
    }
    committer_.reset();
    EXPECT_EQ(answered, 100);
}

INSTANTIATE_TEST_SUITE_P(Stores, CommitterOverStore, testing::ValuesIn(all_stores()),
                         [](const testing::TestParamInfo<StoreKind>& kind) { return kind.param.name; });

}  // namespace
}  // namespace semel::test
