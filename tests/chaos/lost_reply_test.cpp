// Lost replies: the line is cut at every byte of the COMMIT exchange. Whatever the cut left, each claim is granted once,
// each outcome is the one that was given, and callers were told the truth.
#include <gtest/gtest.h>

#include <atomic>

#include "semel/committer.hpp"
#include "support/commands.hpp"
#include "support/gate.hpp"
#include "support/postgres.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

class LostReply : public testing::Test {
protected:
    void SetUp() override {
        store_ = postgres::open({.uri = database_.uri_at_port(gate_.port()), .sessions_max = 1}).value();
        committer_ = Committer::start(*store_, {.timeout = 20s}).value();
        direct_ = postgres::open({.uri = database_.uri()}).value();
    }

    TestDatabase database_;
    Gate gate_{database_.port()};
    std::unique_ptr<Store> store_;
    std::unique_ptr<Store> direct_;
    std::unique_ptr<Committer> committer_;
};

/// Cuts once, `bytes` into the piece that holds the `nth` COMMIT seen in a direction.
class CutAtCommit {
public:
    CutAtCommit(Direction direction, std::size_t bytes) : direction_(direction), bytes_(bytes) {}

    std::size_t operator()(Direction direction, std::string_view piece) {
        turns_.see(direction);
        const auto at = piece.find(commit_in(direction));
        if (done_->load() || direction != direction_ || at == std::string_view::npos) return piece.size();
        *done_ = true;
        *whole_ = turns_.count() == 1;
        // Bytes are counted from a little before the word, over the rest of the piece.
        const std::size_t from = at > 8 ? at - 8 : 0;
        return std::min(from + bytes_, piece.size() - 1);
    }

    /// Whether it was cut in a batch of one round trip.
    [[nodiscard]] bool whole() const { return *whole_; }

private:
    Direction direction_;
    std::size_t bytes_;
    std::shared_ptr<std::atomic<bool>> done_ = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<bool>> whole_ = std::make_shared<std::atomic<bool>>(false);
    Turns turns_;
};

TEST_F(LostReply, ACutAtAnyByteOfTheCommitExchangeLeavesOneGrantAndOneOutcome) {  // I6, I10
    int cuts = 0;
    int in_one = 0;  // round trip
    int number = 0;
    for (const Direction direction : {Direction::to_server, Direction::to_client}) {
        for (std::size_t byte = 0; byte < 40; byte += 2) {
            const std::string key = "cut" + std::to_string(number++);
            const int before = gate_.cuts();

            // The claim's COMMIT is cut. The batch before it brings along what it needs to be one round trip.
            ASSERT_TRUE(committer_->claim(claim(key + " before")));
            const CutAtCommit cut(direction, byte);
            gate_.watch(cut);
            const Claim command = claim(key);
            const auto answer = committer_->claim(command);
            ASSERT_TRUE(answer) << answer.failure().message;
            const auto* mine = std::get_if<Claimed>(&*answer);
            ASSERT_NE(mine, nullptr) << "a claim whose reply was lost was answered by alternative " << answer->index();
            auto record = direct_->find(command.operation.id()).value();
            ASSERT_TRUE(record);
            EXPECT_EQ(record->token, mine->token);
            EXPECT_EQ(record->attempt, mine->attempt);
            EXPECT_EQ(record->tries, 1U);
            in_one += cut.whole() ? 1 : 0;

            // So is the settle's.
            gate_.watch(CutAtCommit(direction, byte));
            const auto settled = committer_->settle(holder(command, *mine), {200, "outcome of " + key, true});
            ASSERT_TRUE(settled) << settled.failure().message;
            EXPECT_TRUE(std::holds_alternative<Ok>(*settled));
            record = direct_->find(command.operation.id()).value();
            EXPECT_EQ(record->outcome.body, "outcome of " + key);
            cuts += gate_.cuts() - before;
        }
    }
    // A run in which nothing was cut would prove nothing.
    EXPECT_GE(cuts, 70);
    EXPECT_GE(in_one, 10);
    EXPECT_GE(committer_->figures().repeats, 30U);
}

TEST_F(LostReply, ABatchWhoseReplyIsLostIsExecutedAgainAndNotFailedWholesale) {
    constexpr int callers = 64;
    gate_.watch(CutAtCommit(Direction::to_client, 0));
    std::atomic<int> claimed = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < callers; ++i) {
        threads.emplace_back([&, i] {
            const auto answer = committer_->claim(claim("batch" + std::to_string(i)));
            ASSERT_TRUE(answer) << answer.failure().message;
            claimed += std::holds_alternative<Claimed>(*answer) ? 1 : 0;
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(claimed, callers);
    EXPECT_EQ(gate_.cuts(), 1);
    EXPECT_EQ(direct_->list({}, "", 1000)->records.size(), static_cast<std::size_t>(callers));
}

TEST_F(LostReply, AClaimNobodyWaitsForAnyMoreIsReleased) {  // I6
    // The reply to COMMIT is held back until the caller has given up.
    auto waiting = std::make_shared<Waiting>();
    std::atomic<bool> answered = false;
    std::atomic<bool> given_up = false;
    gate_.watch([&](Direction direction, std::string_view piece) {
        if (direction == Direction::to_client && piece.find("COMMIT") != std::string_view::npos && !given_up) {
            waiting->give_up();
            given_up = true;
        }
        return piece.size();
    });
    const Claim command = claim("nobody waits");
    std::vector<Command> group;
    group.emplace_back(command);
    committer_->submit(std::move(group), 5s, waiting, [&](GroupAnswer) { answered = true; });
    committer_.reset();  // finishes everything, the release too
    EXPECT_TRUE(answered);
    EXPECT_TRUE(given_up);
    EXPECT_FALSE(direct_->find(command.operation.id()).value());
}

TEST_F(LostReply, ABatchThatFollowsAnotherIsOneRoundTrip) {
    Turns turns;
    gate_.watch([turns](Direction direction, std::string_view piece) mutable {
        turns.see(direction);
        return piece.size();
    });
    int fewest = 100;
    for (int i = 0; i < 100 && fewest > 2; ++i) {
        turns.reset();
        const Claim command = claim("turn" + std::to_string(i));
        const auto answer = committer_->claim(command);
        ASSERT_TRUE(answer && std::holds_alternative<Claimed>(*answer));
        ASSERT_TRUE(committer_->settle(holder(command, std::get<Claimed>(*answer)), {200, "done", true}));
        fewest = std::min(fewest, turns.count());  // a slow machine may need more, now and then
    }
    EXPECT_EQ(fewest, 2) << "for claim and settle together";
}

TEST_F(LostReply, WhatWasHeldUpOnItsWayClaimsNothingWhenItArrives) {  // I6
    // Its process is gone meanwhile: nobody would release it. Returns whether it was claimed all the same.
    const auto claimed_after = [&](const std::string& name, Duration on_its_way) {
        auto store = postgres::open({.uri = database_.uri_at_port(gate_.port()), .timeout = 200ms}).value();
        auto session = store->session().value();
        const auto execute = [&](const Claim& command) {
            Group group;
            group.commands.emplace_back(command);
            return session->execute(std::span(&group, 1));
        };
        EXPECT_TRUE(execute(claim("before " + name)));
        std::atomic<bool> held = false;
        std::atomic<bool> go_on = false;
        gate_.watch([&](Direction direction, std::string_view piece) {
            if (direction == Direction::to_server && !held.exchange(true)) go_on.wait(false);
            return piece.size();
        });
        const Claim command = claim(name);
        const TimePoint sent = direct_->now().value();
        const auto answer = execute(command);
        EXPECT_FALSE(answer);
        while (direct_->now().value() < later(sent, on_its_way)) std::this_thread::yield();
        go_on = true;
        go_on.notify_all();
        const TimePoint arrived = direct_->now().value();
        bool claimed = false;
        while (!claimed && direct_->now().value() < later(arrived, 1s))
            claimed = direct_->find(command.operation.id()).value().has_value();
        gate_.watch([](Direction, std::string_view piece) { return piece.size(); });
        return claimed;
    };
    EXPECT_FALSE(claimed_after("late", 1500ms));
    // What is not late arrives: several tries, since a slow machine may hold it up by itself.
    bool arrived = false;
    for (int i = 0; i < 10 && !arrived; ++i) arrived = claimed_after("soon" + std::to_string(i), 0s);
    EXPECT_TRUE(arrived);
}

}  // namespace
}  // namespace semel::test
