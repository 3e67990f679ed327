// What a consumer does with messages, on either database, with a broker that misbehaves on command.
#include "semel/consumer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <libpq-fe.h>
#include <libpq/libpq-fs.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <set>
#include <thread>

#include "consumers/dead_letters.hpp"
#include "consumers/group.hpp"
#include "consumers/shelf.hpp"
#include "database.hpp"
#include "scripted_broker.hpp"
#include "semel/committer.hpp"

namespace semel::test {
namespace {

Message event(std::string id, std::string data, std::string ordering_key = "") {
    Message message;
    message.ordering_key = std::move(ordering_key);
    message.content_type = "application/json";
    message.headers = {{"ce_specversion", "1.0"}, {"ce_id", std::move(id)}, {"ce_source", "/test"}, {"ce_type", "t"}};
    message.body = std::move(data);
    return message;
}

Message sequenced(const std::string& id, const std::string& subject, int sequence) {
    Message message = event(id, fmt::format("\"{}\"", sequence));
    message.headers.push_back({"ce_subject", subject});
    message.headers.push_back({"ce_sequence", std::to_string(sequence)});
    return message;
}

class ConsumerTest : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        database_ = make_database(GetParam());
        database_->run("create table effect (id text not null, data text not null)");
        options_.name = "wallet";
        options_.retries = {.tries_max = 5,
                            .first = std::chrono::milliseconds{20},
                            .max = std::chrono::milliseconds{40},
                            .hold_order = true};
        options_.progress_every = std::chrono::milliseconds{50};
        options_.log = [this](std::string_view line) {
            const std::lock_guard lock(log_mutex_);
            log_ += std::string(line) + "\n";
        };
    }

    static void write(const Work& work) {
        execute(work.transaction,
                fmt::format("insert into effect (id, data) values ('{}', '{}')", work.event.id, work.event.data));
    }

    std::unique_ptr<Consumer> consumer(Handler handler) {
        std::vector<std::unique_ptr<Inbox>> inboxes;
        for (int i = 0; i < lanes_; ++i) inboxes.push_back(database_->inbox());
        auto made = Consumer::make(options_, broker_.open(), std::move(inboxes), std::move(handler));
        if (!made) throw std::runtime_error(made.failure().message);
        return std::move(*made);
    }

    /// Runs it until `until` is true; fails the test if that takes too long.
    void run(Consumer& consumer, const std::function<bool()>& until) {
        std::jthread thread([&](const std::stop_token& stop) { (void)consumer.run(stop); });
        wait(until);
    }
    void run(Handler handler, const std::function<bool()>& until) {
        auto made = consumer(std::move(handler));
        run(*made, until);
        counts_ = made->counts();
    }
    void wait(const std::function<bool()>& until) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
        while (!until()) {
            if (std::chrono::steady_clock::now() > deadline) {
                const std::lock_guard lock(log_mutex_);
                FAIL() << "waited for too long\n" << log_;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds{2});
        }
    }

    int number(const std::string& sql) { return std::stoi(database_->value(sql)); }
    int effects() { return number("select count(*) from effect"); }
    int dead() { return number("select count(*) from semel.dead_letter"); }
    int shelved() { return number("select count(*) from semel.shelf"); }
    int settled() { return number("select count(*) from semel.operation where state = 3"); }
    bool all_acknowledged() { return broker_.left() == 0; }
    std::vector<DeadLetter> dead_letters() {
        auto inbox = database_->inbox();
        auto letters = list_dead(*inbox, {}, 100);
        if (!letters) throw std::runtime_error(letters.failure().message);
        return std::move(*letters);
    }

    ScriptedBroker broker_;
    std::unique_ptr<Database> database_;
    ConsumerOptions options_;
    void run_in_lanes(const Handler& before);

    int lanes_ = 1;
    ConsumerCounts counts_;
    std::mutex log_mutex_;
    std::string log_;
};

TEST_P(ConsumerTest, AppliesEachMessageOnceHoweverOftenItComes) {
    for (int i = 0; i < 100; ++i) broker_.publish(event(fmt::format("m{}", i % 40), "1"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 40);
    EXPECT_EQ(settled(), 40);
    EXPECT_EQ(counts_.applied, 40u);
    EXPECT_EQ(counts_.duplicates, 60u);
    EXPECT_EQ(counts_.received, 100u);
}

TEST_P(ConsumerTest, WhatWasCommittedAndNotAcknowledgedIsDeliveredAgainAndAppliedNotAgain) {
    for (int i = 0; i < 20; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    broker_.ignore_acknowledgements(true);
    run(write, [&] { return effects() == 20; });
    broker_.ignore_acknowledgements(false);
    broker_.redeliver();
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 20);
    EXPECT_EQ(counts_.applied, 0u);
    EXPECT_EQ(counts_.duplicates, 20u);
}

TEST_P(ConsumerTest, AHandlerThatFailsRollsBackOnlyItself) {
    for (int i = 0; i < 30; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    std::atomic<int> failures = 0;
    run(
        [&](Work& work) {
            write(work);
            if (work.event.id == "m13" && work.tries < 3) {
                ++failures;
                throw std::runtime_error("not today");
            }
        },
        [&] { return all_acknowledged() && effects() == 30; });
    EXPECT_EQ(failures, 2);
    EXPECT_EQ(number("select count(distinct id) from effect"), 30);
    EXPECT_EQ(shelved(), 0);
    EXPECT_EQ(settled(), 30);
    EXPECT_EQ(counts_.failed, 2u);
}

TEST_P(ConsumerTest, AfterOneThatFailedTheOthersAreRunAgainInSmallPieces) {
    for (int i = 0; i < 200; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    options_.retries.tries_max = 1;
    std::map<std::string, int> runs;
    run(
        [&](Work& work) {
            ++runs[work.event.id];
            if (work.event.id == "m50") throw std::runtime_error("before it wrote");
            write(work);
            if (work.event.id == "m100" || work.event.id == "m150") throw std::runtime_error("after it wrote");
        },
        [&] { return all_acknowledged() && dead() == 3; });
    EXPECT_EQ(effects(), 197);
    EXPECT_EQ(number("select count(distinct id) from effect"), 197);
    EXPECT_EQ(settled(), 200);
    for (const std::string poison : {"m50", "m100", "m150"}) EXPECT_EQ(runs[poison], 1) << poison;
    // Those before m100 once more, and those of m150's piece a third time: not all of them for each that fails.
    int all = 0;
    for (const auto& [id, count] : runs) {
        EXPECT_LE(count, 3) << id;
        all += count;
    }
    EXPECT_GT(all, 200 + 7);
    EXPECT_LE(all, 200 + 2 * 100 + 8);
}

TEST_P(ConsumerTest, AStatementThatFailsUnnoticedFailsItsMessage) {
    if (GetParam() == "sqlite") {
        // There a failed statement undoes itself alone, and the transaction is as good as before.
        broker_.publish(event("m1", "1"));
        run(
            [](Work& work) {
                try {
                    execute(work.transaction, "insert into no_such_table values (1)");
                } catch (const std::runtime_error&) {
                }
                write(work);
            },
            [&] { return all_acknowledged(); });
        EXPECT_EQ(effects(), 1);
        return;
    }
    options_.retries.tries_max = 2;
    broker_.publish(event("m1", "1"));
    broker_.publish(event("m2", "1"));
    run(
        [](Work& work) {
            if (work.event.id == "m2") return write(work);
            try {
                execute(work.transaction, "insert into no_such_table values (1)");
            } catch (const std::runtime_error&) {
            }
        },
        [&] { return all_acknowledged() && dead() == 1; });
    EXPECT_EQ(effects(), 1);
    EXPECT_EQ(dead_letters()[0].reason, "tries-exhausted");
}

TEST_P(ConsumerTest, LaterMessagesOfTheSameOrderingKeyWaitBehindOneThatFailed) {
    for (int i = 0; i < 10; ++i) broker_.publish(event(fmt::format("a{}", i), std::to_string(i), "a"));
    for (int i = 0; i < 10; ++i) broker_.publish(event(fmt::format("b{}", i), std::to_string(i), "b"));
    options_.batch_max = 4;
    std::mutex mutex;
    std::vector<std::string> order;
    run(
        [&](Work& work) {
            if (work.event.id == "a2" && work.tries < 3) throw std::runtime_error("not yet");
            write(work);
        },
        [&] { return all_acknowledged() && effects() == 20; });
    // Rowid order on SQLite, ctid order on PostgreSQL: the order of the inserts.
    const std::string place = GetParam() == "sqlite" ? "rowid" : "ctid";
    EXPECT_EQ(number(fmt::format("select count(*) from effect x, effect y where x.id like 'a%' and y.id like 'a%' and "
                                 "x.{0} < y.{0} and x.data > y.data",
                                 place)),
              0);
    EXPECT_GE(counts_.behind, 1u);
}

TEST_P(ConsumerTest, OthersPassOneThatFailedWhereOrderIsNotHeld) {
    options_.retries.hold_order = false;
    options_.retries.tries_max = 3;
    broker_.publish(event("a0", "1", "a"));
    broker_.publish(event("a1", "1", "a"));
    run(
        [&](Work& work) {
            if (work.event.id == "a0") throw std::runtime_error("never");
            write(work);
        },
        [&] { return all_acknowledged() && effects() == 1 && dead() == 1; });
    EXPECT_EQ(counts_.behind, 0u);
}

TEST_P(ConsumerTest, AMessageThatFailsTooOftenIsDeadAndSettled) {
    options_.retries.tries_max = 3;
    broker_.publish(event("m1", "1", "k"));
    broker_.publish(event("m2", "1", "k"));
    std::atomic<int> tries = 0;
    run(
        [&](Work& work) {
            if (work.event.id == "m1") {
                ++tries;
                throw std::runtime_error("always \xff bad");
            }
            write(work);
        },
        [&] { return all_acknowledged() && dead() == 1 && effects() == 1; });
    EXPECT_EQ(tries, 3);
    const auto letters = dead_letters();
    ASSERT_EQ(letters.size(), 1u);
    EXPECT_EQ(letters[0].reason, "tries-exhausted");
    EXPECT_EQ(letters[0].error, "always ? bad");
    EXPECT_EQ(letters[0].tries, 3u);
    EXPECT_EQ(letters[0].message.header("ce_id") != nullptr, true);
    // A redelivery is a duplicate: it is settled.
    broker_.publish(event("m1", "1", "k"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(counts_.duplicates, 1u);
    EXPECT_EQ(dead(), 1);
}

TEST_P(ConsumerTest, ADeadLetterIsTriedAgainUnderANewGeneration) {
    broker_.publish(event("m1", "1"));
    run([](Work&) { throw Reject("no such account"); }, [&] { return all_acknowledged() && dead() == 1; });
    auto inbox = database_->inbox();
    const std::int64_t letter = dead_letters()[0].number;
    EXPECT_EQ(dead_letters()[0].reason, "rejected");
    const auto again = retry_dead(*inbox, letter);
    ASSERT_TRUE(again.ok()) << again.failure().message;
    EXPECT_EQ(*again, std::optional<std::uint32_t>(1));
    EXPECT_EQ(dead(), 0);
    run(write, [&] { return effects() == 1; });
    EXPECT_EQ(number("select count(*) from semel.operation where scope = 'wallet'"), 1);
    EXPECT_EQ(number("select count(*) from semel.operation where scope = 'wallet#1'"), 1);
    // The original stays settled.
    broker_.publish(event("m1", "1"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 1);
    EXPECT_EQ(*retry_dead(*inbox, letter), std::nullopt);
    EXPECT_EQ(*drop_dead(*inbox, letter), false);
}

TEST_P(ConsumerTest, WhatCannotBeReadIsDeadWithAReasonAndBuriedOnce) {
    Message no_envelope;
    no_envelope.body = "{}";
    Message no_id = event("x", "1");
    no_id.headers.erase(no_id.headers.begin() + 1);
    Message absurd = event(std::string(100'000, 'i'), "1");
    broker_.publish(no_envelope);
    broker_.publish(no_id);
    broker_.publish(absurd);
    broker_.publish(event("fine", "1"));
    broker_.ignore_acknowledgements(true);
    run(write, [&] { return effects() == 1 && dead() == 3; });
    broker_.ignore_acknowledgements(false);
    broker_.redeliver();
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(dead(), 3);
    for (const DeadLetter& letter : dead_letters()) {
        EXPECT_EQ(letter.reason, "unreadable");
        EXPECT_FALSE(letter.error.empty());
        EXPECT_FALSE(letter.operation.has_value());
    }
}

TEST_P(ConsumerTest, TheSameIdWithOtherContentIsDead) {
    broker_.publish(event("m1", "1"));
    broker_.publish(event("m1", "2"));
    run(write, [&] { return all_acknowledged(); });
    broker_.publish(event("m1", "3"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 1);
    EXPECT_EQ(database_->value("select data from effect"), "1");
    // Each of them is another message, and neither is lost.
    ASSERT_EQ(dead(), 2);
    for (const DeadLetter& letter : dead_letters()) EXPECT_EQ(letter.reason, "key-reused");
}

TEST_P(ConsumerTest, LatestLetsNoOlderStateOverANewerOne) {
    options_.order = OrderGuard::latest;
    broker_.publish(sequenced("a", "account-1", 5));
    broker_.publish(sequenced("b", "account-1", 4));
    broker_.publish(sequenced("c", "account-2", 1));
    broker_.publish(sequenced("d", "account-1", 9));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 3);
    EXPECT_EQ(counts_.stale, 1u);
    EXPECT_EQ(number("select count(*) from effect where id = 'b'"), 0);
    EXPECT_EQ(settled(), 4);
}

TEST_P(ConsumerTest, GaplessHoldsWhatComesTooEarlyUntilTheGapIsFilled) {
    options_.order = OrderGuard::gapless;
    broker_.publish(sequenced("e3", "a", 3));
    broker_.publish(sequenced("e2", "a", 2));
    broker_.publish(sequenced("f1", "b", 1));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 1);
    EXPECT_EQ(shelved(), 2);
    broker_.publish(sequenced("e1", "a", 1));
    run(write, [&] { return effects() == 4; });
    const std::string place = GetParam() == "sqlite" ? "rowid" : "ctid";
    EXPECT_EQ(number(fmt::format("select count(*) from effect x, effect y where x.id like 'e%' and y.id like 'e%' and "
                                 "x.{0} < y.{0} and x.id > y.id",
                                 place)),
              0);
    EXPECT_EQ(shelved(), 0);
    broker_.publish(sequenced("old", "a", 2));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(counts_.stale, 1u);
    EXPECT_EQ(effects(), 4);
}

TEST_P(ConsumerTest, AGapThatIsFilledInTheSameBatchHoldsNothingUp) {
    options_.order = OrderGuard::gapless;
    for (const int sequence : {4, 2, 3, 1, 5}) broker_.publish(sequenced(fmt::format("e{}", sequence), "a", sequence));
    run(write, [&] { return all_acknowledged() && effects() == 5; });
    EXPECT_EQ(shelved(), 0);
    EXPECT_EQ(number("select last from semel.order_mark"), 5);
}

TEST_P(ConsumerTest, TwoConsumersThatMeetANewAggregateKeepItsOrder) {
    options_.order = OrderGuard::gapless;
    options_.batch_max = 1;
    for (int account = 0; account < 20; ++account)
        for (int sequence = 1; sequence <= 3; ++sequence)
            broker_.publish(sequenced(fmt::format("a{}-{}", account, sequence), fmt::format("a{}", account), sequence));
    auto one = consumer(write);
    auto two = consumer(write);
    {
        std::jthread first([&](const std::stop_token& stop) { (void)one->run(stop); });
        std::jthread second([&](const std::stop_token& stop) { (void)two->run(stop); });
        wait([&] { return effects() == 60; });
    }
    EXPECT_EQ(shelved(), 0);
    EXPECT_EQ(number("select count(*) from semel.order_mark where last = 3"), 20);
}

TEST_P(ConsumerTest, AQueueBehindAFailedMessageIsDrainedInItsOrder) {
    options_.batch_max = 50;
    for (int i = 0; i < 300; ++i) broker_.publish(event(fmt::format("{:03}", i), "1", "k"));
    std::atomic<bool> well = false;
    options_.retries.tries_max = 1000;
    auto made = consumer([&](Work& work) {
        if (work.event.id == "000" && !well) throw std::runtime_error("not yet");
        write(work);
    });
    run(*made, [&] {
        if (all_acknowledged()) well = true;
        return effects() == 300;
    });
    const std::string place = GetParam() == "sqlite" ? "rowid" : "ctid";
    EXPECT_EQ(number(fmt::format("select count(*) from effect x, effect y where x.{0} < y.{0} and x.id > y.id", place)),
              0);
    EXPECT_EQ(shelved(), 0);
}

TEST_P(ConsumerTest, AMessageWithoutASequenceIsDeadWhereOrderIsGuarded) {
    options_.order = OrderGuard::latest;
    broker_.publish(event("m", "1", "k"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 0);
    ASSERT_EQ(dead(), 1);
    EXPECT_NE(dead_letters()[0].error.find("sequence"), std::string::npos);
}

TEST_P(ConsumerTest, AtLeastOnceAppliesARedeliveryAgain) {
    options_.mode = DeliveryMode::at_least_once;
    broker_.publish(event("m1", "1"));
    broker_.ignore_acknowledgements(true);
    run(write, [&] { return effects() == 1; });
    broker_.ignore_acknowledgements(false);
    broker_.redeliver();
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 2);
    EXPECT_EQ(settled(), 0);
}

TEST_P(ConsumerTest, AtMostOnceAcknowledgesFirst) {
    options_.mode = DeliveryMode::at_most_once;
    broker_.publish(event("m1", "1"));
    std::atomic<std::size_t> left_when_handled = 99;
    run(
        [&](Work& work) {
            left_when_handled = broker_.left();
            write(work);
        },
        [&] { return effects() == 1; });
    EXPECT_EQ(left_when_handled, 0u);
}

TEST_P(ConsumerTest, ADeliberateReplayAppliesEverythingAgain) {
    for (int i = 0; i < 5; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    run(write, [&] { return all_acknowledged(); });
    auto inbox = database_->inbox();
    const auto generation = start_replay(*inbox, "wallet");
    ASSERT_TRUE(generation.ok()) << generation.failure().message;
    EXPECT_EQ(*generation, 1u);
    for (int twice = 0; twice < 2; ++twice)
        for (int i = 0; i < 5; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 10);
    EXPECT_FALSE(start_replay(*inbox, "nobody").ok());
}

TEST_P(ConsumerTest, AReplayDoesNotBeginWhileSomethingIsOpen) {
    options_.retries.first = options_.retries.max = std::chrono::minutes{1};
    broker_.publish(event("m", "1"));
    run([](Work&) { throw std::runtime_error("later"); }, [&] { return all_acknowledged() && shelved() == 1; });
    auto inbox = database_->inbox();
    const auto refused = start_replay(*inbox, "wallet");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.failure().code, Code::contended);
}

TEST_P(ConsumerTest, TheOutcomeOfAHandlerIsKept) {
    broker_.publish(event("m", "1"));
    run([](Work& work) { work.outcome = Outcome{7, "balance 12", true}; }, [&] { return all_acknowledged(); });
    auto store = database_->store();
    const auto page = store->list({}, "", 10);
    ASSERT_TRUE(page.ok());
    ASSERT_EQ(page->records.size(), 1u);
    EXPECT_EQ(page->records[0].outcome, (Outcome{7, "balance 12", true}));
}

TEST_P(ConsumerTest, ABrokerThatIsAwayIsAskedAgain) {
    broker_.fail_next_fetches(3);
    broker_.publish(event("m", "1"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 1);
    const std::lock_guard lock(log_mutex_);
    EXPECT_NE(log_.find("the scripted broker is away"), std::string::npos);
}

TEST_P(ConsumerTest, ASourceThatNeverWillDeliverEndsTheRun) {
    broker_.fail_next_fetches(1, Code::invalid);
    auto made = consumer(write);
    std::stop_source never;
    const auto ended = made->run(never.get_token());
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.failure().code, Code::invalid);
}

TEST_P(ConsumerTest, TheBrokerIsKeptInformedWhileASlowHandlerWorks) {
    broker_.publish(event("m", "1"));
    run(
        [&](Work& work) {
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{10};
            while (broker_.kept() < 3 && std::chrono::steady_clock::now() < deadline)
                std::this_thread::sleep_for(std::chrono::milliseconds{2});
            write(work);
        },
        [&] { return all_acknowledged(); });
    EXPECT_GE(broker_.kept(), 3u);
    EXPECT_EQ(effects(), 1);
}

TEST_P(ConsumerTest, AStopFinishesWhatIsInWorkAndGivesTheRestBack) {
    options_.batch_max = 1;
    for (int i = 0; i < 50; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    std::atomic<int> handled = 0;
    {
        auto made = consumer([&](Work& work) {
            write(work);
            ++handled;
        });
        run(*made, [&] { return handled >= 3; });
    }
    const int first = effects();
    EXPECT_EQ(first + static_cast<int>(broker_.left()), 50);
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 50);
}

TEST_P(ConsumerTest, TwoConsumersOfOneGroupShareTheWork) {
    for (int i = 0; i < 400; ++i) broker_.publish(event(fmt::format("m{}", i % 200), "1"));
    options_.batch_max = 16;
    auto one = consumer(write);
    auto two = consumer(write);
    {
        std::jthread first([&](const std::stop_token& stop) { (void)one->run(stop); });
        std::jthread second([&](const std::stop_token& stop) { (void)two->run(stop); });
        wait([&] { return all_acknowledged(); });
    }
    EXPECT_EQ(effects(), 200);
    EXPECT_EQ(one->counts().applied + two->counts().applied, 200u);
}

TEST_P(ConsumerTest, LanesShareTheWorkAndEachMessageIsAppliedOnce) {
    lanes_ = 3;
    options_.batch_max = 16;
    // Copies with and without an ordering key: the latter may meet in two lanes.
    for (int i = 0; i < 600; ++i)
        broker_.publish(event(fmt::format("m{}", i % 200), "1", i % 2 == 0 ? fmt::format("key-{}", i % 10) : ""));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 200);
    EXPECT_EQ(number("select count(distinct id) from effect"), 200);
    EXPECT_EQ(settled(), 200);
    EXPECT_EQ(counts_.applied, 200u);
    EXPECT_EQ(counts_.duplicates, 400u);
    // Nobody has left anything in the books.
    EXPECT_EQ(number("select count(*) from semel.consumer_member"), 0);
}

/// What only a database with several writers can show.
class ConsumerOnPostgres : public ConsumerTest {};

TEST_P(ConsumerOnPostgres, ForOneThatFailsBeforeItWritesNobodyIsRunAgain) {
    for (int i = 0; i < 100; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    options_.retries.tries_max = 1;
    std::map<std::string, int> runs;
    run(
        [&](Work& work) {
            ++runs[work.event.id];
            if (work.event.id == "m13" || work.event.id == "m14" || work.event.id == "m70")
                throw std::runtime_error("not this one");
            write(work);
        },
        [&] { return all_acknowledged() && dead() == 3; });
    EXPECT_EQ(effects(), 97);
    EXPECT_EQ(settled(), 100);
    for (const auto& [id, count] : runs) EXPECT_EQ(count, 1) << id;
}

TEST_P(ConsumerOnPostgres, AStatementThatWasSentAndNotReadIsUndoneWithItsHandler) {
    for (int i = 0; i < 10; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    options_.retries.tries_max = 1;
    run(
        [&](Work& work) {
            if (work.event.id != "m4") return write(work);
            PQsendQuery(work.transaction.postgres, "insert into effect (id, data) values ('m4', 'sent')");
            throw std::runtime_error("gone before its answer");
        },
        [&] { return all_acknowledged() && dead() == 1; });
    EXPECT_EQ(effects(), 9);
    EXPECT_EQ(number("select count(*) from effect where id = 'm4'"), 0);
}

TEST_P(ConsumerOnPostgres, ACopyThatWasLeftOpenFailsItsMessageAlone) {
    for (int i = 0; i < 10; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    options_.retries.tries_max = 1;
    run(
        [&](Work& work) {
            if (work.event.id != "m4" && work.event.id != "m5") return write(work);
            const bool in = work.event.id == "m4";
            PGconn* const connection = work.transaction.postgres;
            PQclear(PQexec(connection, in ? "copy effect from stdin" : "copy (select 1) to stdout"));
            if (in) PQputCopyData(connection, "m4\tcopied\n", 10);
            throw std::runtime_error("gone in the middle");
        },
        [&] { return all_acknowledged() && dead() == 2; });
    EXPECT_EQ(effects(), 8);
    EXPECT_EQ(number("select count(*) from effect where id in ('m4', 'm5')"), 0);
}

TEST_P(ConsumerOnPostgres, WhatWasWrittenToALargeObjectIsUndoneWithItsHandler) {
    for (int i = 0; i < 3; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    options_.retries.tries_max = 1;
    Oid object = 0;
    run(
        [&](Work& work) {
            PGconn* const connection = work.transaction.postgres;
            if (work.event.id == "m0") object = lo_creat(connection, INV_READ | INV_WRITE);
            if (work.event.id != "m1") return write(work);
            EXPECT_EQ(lo_write(connection, lo_open(connection, object, INV_WRITE), "twice", 5), 5);
            throw std::runtime_error("after it wrote");
        },
        [&] { return all_acknowledged() && dead() == 1; });
    EXPECT_EQ(effects(), 2);
    EXPECT_EQ(number(fmt::format("select length(lo_get({}))", object)), 0);
}

TEST_P(ConsumerOnPostgres, ALaneHandlesWhileAnotherDoes) {
    lanes_ = 2;
    // One at a time, and each waits until somebody else is at one: a single lane would wait for ever.
    options_.batch_max = 1;
    for (int i = 0; i < 2; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::thread::id> inside;
    run(
        [&](Work& work) {
            write(work);
            std::unique_lock lock(mutex);
            inside.insert(std::this_thread::get_id());
            changed.notify_all();
            if (!changed.wait_for(lock, std::chrono::seconds{15}, [&] { return inside.size() == 2; }))
                throw Reject("nobody came");
        },
        [&] { return all_acknowledged(); });
    EXPECT_EQ(inside.size(), 2u);
    EXPECT_EQ(effects(), 2);
}

/// Twelve keys with fifteen messages each, in lanes; the books tell the order: each entry notes what was there before it.
void ConsumerTest::run_in_lanes(const Handler& before) {
    constexpr int keys = 12;
    constexpr int each = 15;
    lanes_ = 3;
    options_.batch_max = 8;
    for (int i = 0; i < each; ++i)
        for (int key = 0; key < keys; ++key)
            broker_.publish(event(fmt::format("k{}-{}", key, i), std::to_string(i), fmt::format("key-{}", key)));
    database_->run("create table done (key text primary key, last integer not null)");
    for (int key = 0; key < keys; ++key) database_->run(fmt::format("insert into done values ('key-{}', -1)", key));
    database_->run("create table late (id text not null)");
    run(
        [&](Work& work) {
            before(work);
            const std::string& key = work.message.ordering_key;
            execute(work.transaction,
                    fmt::format("insert into late select '{}' from done where key = '{}' and last <> {} - 1",
                                work.event.id, key, work.event.data));
            execute(work.transaction, fmt::format("update done set last = {} where key = '{}'", work.event.data, key));
            write(work);
        },
        [&] { return all_acknowledged() && effects() == keys * each; });
    EXPECT_EQ(number("select count(*) from late"), 0);
    EXPECT_EQ(number(fmt::format("select count(*) from done where last = {}", each - 1)), keys);
}

TEST_P(ConsumerTest, LanesKeepTheOrderOfEachKeyAlsoBehindOneThatFailed) {
    run_in_lanes([](Work& work) {
        if (work.event.data == "4" && work.message.ordering_key.ends_with("1") && work.tries < 3)
            throw std::runtime_error("not yet");
    });
    EXPECT_EQ(counts_.failed, 4u);  // key-1 and key-11, twice each
    EXPECT_EQ(shelved(), 0);
}

TEST_P(ConsumerTest, LanesKeepTheOrderOfEachKeyWhereOthersMayPassOneThatFails) {
    options_.retries.hold_order = false;
    run_in_lanes([](Work&) {});
}

TEST_P(ConsumerTest, AConsumerWithoutAnInboxIsRefused) {
    lanes_ = 0;
    EXPECT_THROW(consumer(write), std::runtime_error);
}

TEST_P(ConsumerOnPostgres, ABatchThatMetADeadlockIsAppliedAgain) {
    for (int i = 0; i < 10; ++i) broker_.publish(event(fmt::format("m{}", i), std::to_string(i)));
    std::atomic<int> deadlocks = 0;
    run(
        [&](Work& work) {
            write(work);
            if (work.event.id == "m7" && deadlocks++ < 2)
                execute(work.transaction, "do $$ begin raise exception using errcode = '40P01'; end $$");
        },
        [&] { return all_acknowledged(); });
    EXPECT_EQ(deadlocks, 3);
    EXPECT_EQ(effects(), 10);
    EXPECT_EQ(number("select count(*) from effect where id = 'm' || data"), 10);
    EXPECT_EQ(settled(), 10);
    EXPECT_EQ(counts_.failed, 0u);
}

TEST_P(ConsumerTest, LongMessagesAreHandledAsShortOnesAre) {
    const std::string body = fmt::format("\"{}\"", std::string(100'000, 'x'));
    for (int i = 0; i < 6; ++i) broker_.publish(event(fmt::format("m{}", i / 2), i < 4 ? body : "1"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 3);
    EXPECT_EQ(number("select count(*) from effect where length(data) = 100002"), 2);
    EXPECT_EQ(counts_.duplicates, 3u);
}

TEST_P(ConsumerTest, AFailureTakesNoClaimOfOthersAwayWhateverTheyMet) {
    // What the claims of one batch meet: nothing, something settled, something released.
    broker_.ignore_acknowledgements(true);
    for (int i = 0; i < 3; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    run(write, [&] { return effects() == 3; });
    broker_.ignore_acknowledgements(false);
    {
        auto store = database_->store();
        auto committer = std::move(*Committer::start(*store));
        auto scope = Scope::make("", options_.name);
        auto key = Key::parse("/test m3");
        ASSERT_TRUE(scope.ok() && key.ok());
        const Operation operation{std::move(*scope), std::move(*key)};
        auto claimed = committer->claim({.operation = operation, .fingerprint = {}, .attempt = {}, .correlation = {}});
        ASSERT_TRUE(claimed.ok()) << claimed.failure().message;
        const auto& mine = std::get<Claimed>(*claimed);
        ASSERT_TRUE(committer->release({operation.id(), mine.token, mine.attempt}).ok());
    }
    broker_.redeliver();
    for (int i = 3; i < 9; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    options_.retries.tries_max = 1;
    run(
        [&](Work& work) {
            write(work);
            if (work.event.id == "m6") throw std::runtime_error("never");
        },
        [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 8);
    EXPECT_EQ(number("select count(distinct id) from effect"), 8);
    EXPECT_EQ(settled(), 9);
    EXPECT_EQ(dead(), 1);
}

TEST_P(ConsumerTest, IdsThatTheBrokerCouldStillRedeliverAreNotSwept) {
    options_.retention = {.identity = std::chrono::seconds{1}, .response = std::chrono::seconds{1}};
    for (int i = 0; i < 5; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    // The consumer dies after its commit: what it did is not acknowledged, and its member stays in the books.
    broker_.ignore_acknowledgements(true);
    run(write, [&] { return effects() == 5 && number("select count(*) from semel.consumer_member") == 1; });
    ASSERT_EQ(number("select count(*) from semel.consumer_member"), 1);
    auto store = database_->store();
    const auto sweep_when_due = [&]() -> std::uint64_t {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds{1500};
        std::uint64_t removed = 0;
        while (std::chrono::steady_clock::now() < until) {
            const auto swept = store->sweep(100);
            EXPECT_TRUE(swept.ok());
            if (swept) removed += swept->removed;
            std::this_thread::sleep_for(std::chrono::milliseconds{50});
        }
        return removed;
    };
    EXPECT_EQ(sweep_when_due(), 0u);
    EXPECT_EQ(settled(), 5);
    broker_.ignore_acknowledgements(false);
    broker_.redeliver();
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(effects(), 5);
    // With nothing that could come again, others are swept when their time has come.
    auto inbox = database_->inbox();
    ASSERT_TRUE(*forget_members(*inbox, "wallet"));
    for (int i = 5; i < 8; ++i) broker_.publish(event(fmt::format("m{}", i), "1"));
    run(write, [&] { return all_acknowledged(); });
    EXPECT_EQ(sweep_when_due(), 3u);
}

TEST_P(ConsumerTest, ProgressIsNotedAndAMemberThatEndsInOrderLeaves) {
    broker_.publish(event("m", "1"));
    run(write, [&] {
        return all_acknowledged() && number("select count(*) from semel.consumer_member where progress > 0") == 1;
    });
    EXPECT_EQ(number("select count(*) from semel.consumer_member"), 0);
}

// ---- steps -----------------------------------------------------------------------------------------------------

class StepsTest : public ConsumerTest {
protected:
    void SetUp() override {
        ConsumerTest::SetUp();
        store_ = database_->store();
        committer_ = std::move(*Committer::start(*store_));
    }
    void run_steps(StepHandler handler, const std::function<bool()>& until) {
        auto made = Consumer::make(options_, broker_.open(), database_->inbox(), std::move(handler), *committer_);
        ASSERT_TRUE(made.ok()) << made.failure().message;
        run(**made, until);
        counts_ = (*made)->counts();
    }
    static std::string insert(const Transaction& transaction, const std::string& step) {
        execute(transaction, fmt::format("insert into effect (id, data) values ('{}', 'x')", step));
        return "result of " + step;
    }

    std::unique_ptr<Store> store_;
    std::unique_ptr<Committer> committer_;
};

TEST_P(StepsTest, ARedeliveryResumesAtTheFirstUnfinishedStep) {
    broker_.publish(event("order-1", "1"));
    std::atomic<int> runs = 0;
    run_steps(
        [&](Steps& steps) {
            ++runs;
            EXPECT_EQ(steps.step("reserve", [](Transaction t) { return insert(t, "reserve"); }), "result of reserve");
            if (steps.tries() == 1) throw std::runtime_error("crashed between two steps");
            EXPECT_EQ(steps.step("charge", [](Transaction t) { return insert(t, "charge"); }), "result of charge");
            if (steps.tries() == 2) throw std::runtime_error("crashed after the last step");
        },
        [&] { return all_acknowledged() && runs == 3 && effects() == 2 && shelved() == 0; });
    EXPECT_EQ(number("select count(*) from effect where id = 'reserve'"), 1);
    EXPECT_EQ(number("select count(*) from effect where id = 'charge'"), 1);
    EXPECT_EQ(counts_.applied, 1u);
    broker_.publish(event("order-1", "1"));
    run_steps([&](Steps&) { ++runs; }, [&] { return all_acknowledged(); });
    EXPECT_EQ(runs, 3);
    EXPECT_EQ(counts_.duplicates, 1u);
}

TEST_P(StepsTest, AStepThatFailsLeavesNothingOfItself) {
    broker_.publish(event("order-1", "1"));
    run_steps(
        [&](Steps& steps) {
            steps.step("only", [&](Transaction t) {
                insert(t, "only");
                if (steps.tries() == 1) throw std::runtime_error("half way");
                return std::string{};
            });
        },
        [&] { return all_acknowledged() && effects() == 1 && shelved() == 0; });
    EXPECT_EQ(effects(), 1);
}

TEST_P(StepsTest, AHandlerThatKeepsFailingIsDead) {
    options_.retries.tries_max = 2;
    broker_.publish(event("order-1", "1"));
    run_steps([](Steps&) { throw std::runtime_error("never"); }, [&] { return all_acknowledged() && dead() == 1; });
    EXPECT_EQ(shelved(), 0);
    EXPECT_EQ(dead_letters()[0].reason, "tries-exhausted");
}

/// Where several processes share the database.
class SharedStepsTest : public StepsTest {};

TEST_P(SharedStepsTest, WhatAnotherProcessShelvedAMomentAgoIsNotPassed) {
    std::atomic<int> handled = 0;
    auto made = Consumer::make(options_, broker_.open(), database_->inbox(), StepHandler([&](Steps&) { ++handled; }),
                               *committer_);
    ASSERT_TRUE(made.ok()) << made.failure().message;
    broker_.publish(event("order-1", "1", "key"));
    run(**made, [&] {
        if (handled != 1 || !all_acknowledged()) return false;
        // The consumer has just looked: nothing waits.
        auto other = database_->inbox();
        const TimePoint now = *other->begin();
        Shelf(*other, options_.name)
            .put({.ready_at = now + std::chrono::hours{1}, .first_at = now, .message = event("order-2", "1", "key")});
        EXPECT_TRUE(other->commit().ok());
        broker_.publish(event("order-3", "1", "key"));
        wait([&] { return all_acknowledged(); });
        return true;
    });
    EXPECT_EQ(handled, 1);
    EXPECT_EQ((*made)->counts().behind, 1u);
    EXPECT_EQ(shelved(), 2);
}

TEST_P(StepsTest, WhatIsTakenOverIsHeldUnderTheLeaseItWasBegunWith) {
    options_.lease = std::chrono::minutes{10};
    options_.retries.first = std::chrono::milliseconds{10};
    bool claimed_by_another = false;
    std::atomic<int> handled = 0;
    broker_.publish(event("order-1", "1"));
    run_steps(
        [&](Steps& steps) {
            const OperationId id = steps.operation().id();
            const Record record = **store_->find(id);
            if (!claimed_by_another) {
                // A process with a shorter lease claims it, and dies.
                ASSERT_TRUE(committer_->release({id, record.token, record.attempt}).ok());
                Policy policy = record.policy;
                policy.lease = std::chrono::milliseconds{1500};
                const auto other = committer_->claim({.operation = steps.operation(),
                                                      .fingerprint = record.fingerprint,
                                                      .attempt = {},
                                                      .policy = policy,
                                                      .key_time = std::nullopt,
                                                      .correlation = {}});
                claimed_by_another = other && std::holds_alternative<Claimed>(*other);
                throw std::runtime_error("again");
            }
            wait([&] { return (*store_->find(id))->lease_until > record.lease_until; });
            ++handled;
        },
        [&] { return handled == 1 && shelved() == 0; });
    EXPECT_TRUE(claimed_by_another);
}

TEST_P(StepsTest, WhileOneHoldsAMessageAnotherWaitsForIt) {
    broker_.publish(event("order-1", "1"));
    broker_.publish(event("order-1", "1"));
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;
    auto make = [&] {
        return std::move(*Consumer::make(options_, broker_.open(), database_->inbox(), StepHandler([&](Steps& steps) {
                                             most = std::max<int>(most, ++inside);
                                             steps.step("only", [&](Transaction t) { return insert(t, "only"); });
                                             std::this_thread::sleep_for(std::chrono::milliseconds{30});
                                             --inside;
                                         }),
                                         *committer_));
    };
    options_.batch_max = 1;
    options_.batches_ahead = 0;
    options_.lease = std::chrono::milliseconds{300};
    auto one = make();
    auto two = make();
    {
        std::jthread first([&](const std::stop_token& stop) { (void)one->run(stop); });
        std::jthread second([&](const std::stop_token& stop) { (void)two->run(stop); });
        wait([&] { return all_acknowledged(); });
    }
    EXPECT_EQ(most, 1);
    EXPECT_EQ(effects(), 1);
}

const auto by_name = [](const auto& info) { return std::string(info.param); };
INSTANTIATE_TEST_SUITE_P(Databases, ConsumerTest, testing::ValuesIn(database_names), by_name);
INSTANTIATE_TEST_SUITE_P(Databases, ConsumerOnPostgres, testing::Values(std::string_view("postgres")), by_name);
INSTANTIATE_TEST_SUITE_P(Databases, StepsTest, testing::ValuesIn(database_names), by_name);
INSTANTIATE_TEST_SUITE_P(Databases, SharedStepsTest, testing::Values(std::string_view("postgres")), by_name);

}  // namespace
}  // namespace semel::test
