// What a relay of the outbox does, on every database, with a broker that does as it is told.
#include "outbox/pump.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <set>
#include <thread>

#include "consumers/database.hpp"
#include "ledger/staged_event.hpp"
#include "staging.hpp"
#include "support/gate.hpp"
#include "support/postgres.hpp"

namespace semel::test {
namespace {

using outbox::Handed;
using outbox::Publisher;
using outbox::Pump;
using outbox::PumpOptions;
using outbox::PumpState;
using outbox::Receipt;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr seconds patience{30};

/// A broker in memory. Thread safe.
class Broker {
public:
    void arrive(const StagedEvent& staged) {
        const std::lock_guard lock(mutex_);
        arrived_.push_back(staged);
        changed_.notify_all();
    }
    [[nodiscard]] std::vector<StagedEvent> arrived() {
        const std::lock_guard lock(mutex_);
        return arrived_;
    }
    [[nodiscard]] std::vector<std::string> ids() {
        std::vector<std::string> all;
        for (const StagedEvent& each : arrived()) all.push_back(each.event.id);
        return all;
    }
    /// Waits until so many have arrived, copies included.
    bool wait_for(std::size_t count) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [&] { return arrived_.size() >= count; });
    }

    bool is_refused(const std::string& id) {
        const std::lock_guard lock(refusing_mutex);
        return refuses.contains(id);
    }
    /// Its receipt does not come until somebody says so.
    void withhold(const std::string& id) {
        const std::lock_guard lock(refusing_mutex);
        withheld_.insert(id);
    }
    void release(const std::string& id) {
        const std::lock_guard lock(refusing_mutex);
        withheld_.erase(id);
        ++releases_;
        released_.notify_all();
    }
    /// Until something is released, and no longer than this.
    void wait_for_news(Duration wait) {
        std::unique_lock lock(refusing_mutex);
        released_.wait_for(lock, wait, [&, before = releases_] { return releases_ != before; });
    }
    bool is_withheld(const std::string& id) {
        const std::lock_guard lock(refusing_mutex);
        return withheld_.contains(id);
    }

    std::atomic<bool> down = false;    ///< everything fails
    std::atomic<bool> silent = false;  ///< takes events, and says nothing
    std::atomic<bool> keeps_order = false;
    std::atomic<std::size_t> on_their_way_most = 0;  ///< of one key at once
    std::atomic<bool> mixed = false;                 ///< those were of several topics
    std::mutex refusing_mutex;
    std::set<std::string> refuses;  ///< ids

private:
    std::set<std::string> withheld_;  ///< ids; guarded by refusing_mutex
    std::size_t releases_ = 0;        // guarded by refusing_mutex
    std::condition_variable released_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<StagedEvent> arrived_;
};

class ScriptedPublisher final : public Publisher {
public:
    explicit ScriptedPublisher(Broker& broker) : broker_(broker) {}
    Result<Handed> publish(const OutboxRow& row) override {
        if (broker_.down) return Failure{Code::unavailable, "publish to the script: it is down"};
        if (broker_.keeps_order && broker_.is_refused(row.staged.event.id)) return Handed{"too large"};
        for (const OutboxRow& each : handed_)
            if (each.staged.ordering_key == row.staged.ordering_key && each.staged.topic != row.staged.topic)
                broker_.mixed = true;
        broker_.on_their_way_most = std::max(broker_.on_their_way_most.load(), ++keys_[row.staged.ordering_key]);
        handed_.push_back(row);
        return Handed{};
    }
    Result<std::vector<Receipt>> receipts(Duration wait) override {
        if (broker_.down) return Failure{Code::unavailable, "publish to the script: it is down"};
        std::vector<Receipt> all;
        if (broker_.silent) {
            broker_.wait_for_news(std::min<Duration>(wait, milliseconds{10}));
            return all;
        }
        for (const OutboxRow& row : std::exchange(handed_, {})) {
            if (broker_.is_withheld(row.staged.event.id)) {
                handed_.push_back(row);
                continue;
            }
            --keys_[row.staged.ordering_key];
            if (broker_.is_refused(row.staged.event.id)) {
                all.push_back({row.place, Receipt::What::refused, "too large"});
                continue;
            }
            broker_.arrive(row.staged);
            all.push_back({row.place, Receipt::What::confirmed, ""});
        }
        if (all.empty()) broker_.wait_for_news(std::min<Duration>(wait, milliseconds{10}));
        return all;
    }
    [[nodiscard]] bool keeps_order() const override { return broker_.keeps_order; }
    void start_over() override {
        handed_.clear();
        keys_.clear();
    }
    [[nodiscard]] std::string text() const override { return "script"; }

private:
    Broker& broker_;
    std::vector<OutboxRow> handed_;
    std::map<std::string, std::size_t> keys_;
};

std::vector<OutboxReading> all_of(const OutboxTable::Held& held, std::size_t limit) {
    std::vector<OutboxReading> all;
    for (const std::int16_t shard : held.shards)
        all.push_back({.shard = shard, .limit = limit, .bytes = outbox_read_bytes_max / held.shards.size()});
    return all;
}

/// Parts of a database that fail, and what it is asked for.
struct Trouble {
    /// Turns that are begun meanwhile are done, and nobody hears of it, until `answer`.
    std::atomic<bool> unanswered = false;
    std::atomic<std::size_t> withheld = 0;  ///< of those
    std::atomic<std::size_t> turns = 0;     ///< begun
    std::atomic<bool> hold = false;
    std::atomic<bool> bell = false;
    std::atomic<std::size_t> answer_most = 1'000'000;  ///< a turn that asks for more gets no answer
    std::atomic<std::size_t> holds_failed = 0;
    std::atomic<std::size_t> bells_failed = 0;
    std::atomic<std::size_t> read_most = 0;  ///< rows in a turn
    std::atomic<std::size_t> turns_failed = 0;

    void answer() {
        {
            const std::lock_guard lock(mutex);
            unanswered = false;
        }
        answered.notify_all();
    }
    bool wait_for_answer(Duration wait) {
        std::unique_lock lock(mutex);
        return answered.wait_for(lock, wait, [&] { return !unanswered; });
    }
    std::mutex mutex;
    std::condition_variable answered;
};

class TroubledTable final : public OutboxTable {
public:
    TroubledTable(std::unique_ptr<OutboxTable> table, Trouble& trouble) : table_(std::move(table)), trouble_(trouble) {}
    Result<Held> hold(Duration lease) override {
        if (!trouble_.hold) return table_->hold(lease);
        ++trouble_.holds_failed;
        return Failure{Code::unavailable, "hold: trouble"};
    }
    void leave() override { table_->leave(); }
    void begin_turn(const Turn& turn) override {
        std::size_t wanted = 0;
        for (const OutboxReading& each : turn.read) wanted += each.limit;
        fails_ = wanted > trouble_.answer_most;
        if (!fails_) table_->begin_turn(turn);
        withheld_ = trouble_.unanswered;
        if (withheld_) ++trouble_.withheld;
        ++trouble_.turns;
    }
    std::optional<Result<std::vector<OutboxRow>>> turned(Duration wait) override {
        if (std::exchange(fails_, false)) {
            ++trouble_.turns_failed;
            return Failure{Code::unavailable, "turn: trouble"};
        }
        if (!rows_) rows_ = table_->turned(wait);
        if (!rows_) return std::nullopt;
        if (withheld_ && !trouble_.wait_for_answer(wait)) return std::nullopt;
        if (*rows_) trouble_.read_most = std::max(trouble_.read_most.load(), (*rows_)->size());
        return std::exchange(rows_, std::nullopt);
    }
    Status ring(bool wanted) override {
        if (!wanted || !trouble_.bell) return table_->ring(wanted);
        ++trouble_.bells_failed;
        return Failure{Code::unavailable, "ring: trouble"};
    }
    bool wait(Duration time) override { return table_->wait(time); }
    [[nodiscard]] bool hears() const override { return table_->hears(); }
    Result<Health> health() override { return table_->health(); }
    Result<std::vector<OutboxStuck>> stuck(std::size_t limit) override { return table_->stuck(limit); }
    Result<bool> retry(std::int64_t sequence) override { return table_->retry(sequence); }
    Result<bool> drop(const OutboxDrop& drop) override { return table_->drop(drop); }
    Result<std::vector<OutboxDropped>> dropped(std::size_t limit) override { return table_->dropped(limit); }
    [[nodiscard]] std::string text() const override { return table_->text(); }

private:
    std::unique_ptr<OutboxTable> table_;
    Trouble& trouble_;
    bool fails_ = false;
    bool withheld_ = false;
    std::optional<Result<std::vector<OutboxRow>>> rows_;
};

/// Declared after a relay: it can end, however the test does.
struct AnsweredInTheEnd {
    Trouble& trouble;
    ~AnsweredInTheEnd() { trouble.answer(); }
};

/// A relay at work until it goes.
class Relay {
public:
    Relay(const std::string& url, Broker& broker, const std::string& name = "a", PumpOptions options = quick())
        : Relay(open_outbox_at(url, name), broker, options) {}
    Relay(std::unique_ptr<OutboxTable> table, Broker& broker, PumpOptions options)
        : table_(std::move(table)),
          publisher_(broker),
          pump_(*table_, publisher_, options,
                [this](auto level, auto text) {
                    const std::lock_guard lock(mutex_);
                    said_ += fmt::format("{}: {}\n", level, text);
                }),
          thread_([this](const std::stop_token& stop) { pump_.run(stop); }) {}

    static PumpOptions quick() {
        return {.lease = seconds{2},
                .poll = milliseconds{50},
                .retry_first = milliseconds{50},
                .retry_max = milliseconds{200}};
    }
    /// Its lease does not come to be renewed while a test keeps a turn back.
    static PumpOptions long_lease() {
        PumpOptions options = quick();
        options.lease = seconds{300};
        return options;
    }
    [[nodiscard]] PumpState state() const { return pump_.state(); }
    [[nodiscard]] std::string said() {
        const std::lock_guard lock(mutex_);
        return said_;
    }
    void stop() {
        thread_.request_stop();
        thread_.join();
    }

private:
    std::mutex mutex_;
    std::string said_;
    std::unique_ptr<OutboxTable> table_;
    ScriptedPublisher publisher_;
    Pump pump_;
    std::jthread thread_;
};

template <class Condition>
bool until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(milliseconds{5});
    }
    return true;
}

class Outbox : public testing::TestWithParam<std::string_view> {
protected:
    [[nodiscard]] std::string left() { return database_->value("select count(*) from semel.outbox"); }
    bool empty() {
        return until([&] { return left() == "0"; });
    }
    std::unique_ptr<Database> database_ = make_database(GetParam());
    Broker broker_;
};

INSTANTIATE_TEST_SUITE_P(On, Outbox, testing::ValuesIn(database_names),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(Outbox, WhatCommitsIsPublishedAsItWasStagedAndWhatRollsBackIsNot) {
    Stager stager(database_->url());
    Relay relay(database_->url(), broker_);
    stager.run("begin");
    stager.stage(staged("a", 99));
    stager.run("rollback");
    StagedEvent whole = staged("a", 1);
    whole.event.data_schema = "https://shop/schema";
    whole.event.data = std::string("\0bytes\xff", 7);
    whole.event.extensions = {{"correlationid", "c=1"}, {"traceparent", "00-1"}};
    stager.commit({whole, staged("a", 2), staged("", 3)});
    ASSERT_TRUE(broker_.wait_for(3));
    EXPECT_TRUE(empty());
    const auto arrived = broker_.arrived();
    EXPECT_EQ(std::ranges::count(arrived, whole), 1);
    EXPECT_THAT(broker_.ids(), testing::UnorderedElementsAre("a-1", "a-2", "none-3"));
    EXPECT_THAT(relay.said(), testing::Not(HasSubstr("error:")));
}

TEST_P(Outbox, EventsOfAKeyArriveInTheOrderOfTheirCommitsOneAtATime) {
    Stager stager(database_->url());
    for (int i = 0; i < 50; ++i)
        stager.commit({staged("a", 2 * i), staged("b", i), staged("a", 2 * i + 1), staged("", i)});
    const Relay relay(database_->url(), broker_);
    ASSERT_TRUE(broker_.wait_for(200));
    ASSERT_TRUE(empty());
    std::map<std::string, std::vector<int>> numbers;
    for (const StagedEvent& each : broker_.arrived())
        numbers[each.ordering_key].push_back(std::stoi(each.event.data.substr(10)));
    EXPECT_TRUE(std::ranges::is_sorted(numbers["a"]));
    EXPECT_TRUE(std::ranges::is_sorted(numbers["b"]));
    EXPECT_EQ(numbers["a"].size(), 100);
    EXPECT_EQ(relay.state().published, 200);
}

TEST_P(Outbox, OneEventOfAKeyIsOnItsWayAtATime) {
    Stager stager(database_->url());
    stager.run("begin");
    for (int i = 0; i < 100; ++i) stager.stage(staged("a", i));
    stager.run("commit");
    {
        const Relay relay(database_->url(), broker_);
        ASSERT_TRUE(empty());
        EXPECT_EQ(broker_.on_their_way_most, 1);
    }
    broker_.keeps_order = true;
    stager.run("begin");
    for (int i = 100; i < 200; ++i) stager.stage(staged("a", i));
    stager.run("commit");
    const Relay relay(database_->url(), broker_);
    ASSERT_TRUE(empty());
    EXPECT_GT(broker_.on_their_way_most, 10);
    const auto arrived = broker_.arrived();
    for (int i = 0; i < 200; ++i) EXPECT_EQ(arrived[static_cast<std::size_t>(i)].event.id, fmt::format("a-{}", i));
}

TEST_P(Outbox, NothingIsRemovedBeforeItIsConfirmed) {
    Stager stager(database_->url());
    broker_.silent = true;
    stager.commit({staged("a", 1), staged("", 2)});
    {
        Relay relay(database_->url(), broker_);
        ASSERT_TRUE(until([&] { return relay.state().on_their_way == 2; }));
        EXPECT_EQ(left(), "2");
        broker_.down = true;  // what is on its way is forgotten, and the relay ends at once
    }
    EXPECT_EQ(left(), "2");
    broker_.down = broker_.silent = false;
    const Relay relay(database_->url(), broker_);
    ASSERT_TRUE(broker_.wait_for(2));
    EXPECT_TRUE(empty());
}

TEST_P(Outbox, TheNextOfAKeyIsNotSentBeforeAReceiptHoweverOftenTheTableIsRead) {
    Stager stager(database_->url());
    Trouble trouble;
    broker_.withhold("a-1");
    stager.commit({staged("a", 1), staged("a", 2)});
    const Relay relay(std::make_unique<TroubledTable>(open_outbox_at(database_->url(), "a"), trouble), broker_,
                      Relay::quick());
    ASSERT_TRUE(until([&] { return relay.state().on_their_way == 1; }));
    // Each of these is there after a turn that has read `a` as well.
    for (int i = 1; i <= 5; ++i) {
        stager.commit({staged("b", i), staged("a", i + 2)});
        ASSERT_TRUE(broker_.wait_for(static_cast<std::size_t>(i)));
    }
    const std::size_t turns = trouble.turns;
    ASSERT_TRUE(until([&] { return trouble.turns > turns + 1; }));
    EXPECT_THAT(broker_.ids(), ElementsAre("b-1", "b-2", "b-3", "b-4", "b-5"));
    EXPECT_EQ(broker_.on_their_way_most, 1);
    EXPECT_EQ(left(), "7") << "of what has no receipt nothing is removed";
    broker_.release("a-1");
    ASSERT_TRUE(empty());
    EXPECT_EQ(broker_.on_their_way_most, 1);
    EXPECT_THAT(broker_.ids(),
                ElementsAre("b-1", "b-2", "b-3", "b-4", "b-5", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7"));
}

TEST_P(Outbox, WhatIsReadIsPublishedWhileTheNextTurnIsOnItsWay) {
    Stager stager(database_->url());
    Trouble trouble;
    broker_.withhold("a-1");
    stager.commit({staged("a", 1), staged("a", 2), staged("b", 1)});
    const Relay relay(std::make_unique<TroubledTable>(open_outbox_at(database_->url(), "a"), trouble), broker_,
                      Relay::long_lease());
    const AnsweredInTheEnd in_the_end{trouble};
    ASSERT_TRUE(until([&] { return relay.state().published == 1; }));
    trouble.unanswered = true;
    ASSERT_TRUE(until([&] { return trouble.withheld > 0; }));
    stager.commit({staged("b", 2)});
    broker_.release("a-1");
    ASSERT_TRUE(until([&] { return relay.state().published >= 2; }));
    EXPECT_EQ(broker_.ids().at(1), "a-1");
    EXPECT_EQ(std::ranges::count(broker_.ids(), "b-2"), 0) << "no turn has told of it";
    trouble.answer();
    ASSERT_TRUE(empty());
    EXPECT_THAT(broker_.ids(), testing::UnorderedElementsAre("a-1", "a-2", "b-1", "b-2"));
}

TEST_P(Outbox, WhatIsConfirmedWhileATurnThatReadItIsOnItsWayIsNotPublishedAgain) {
    Stager stager(database_->url());
    Trouble trouble;
    broker_.withhold("a-1");
    broker_.withhold("none-1");
    stager.commit({staged("a", 1), staged("a", 2), staged("", 1)});
    const Relay relay(std::make_unique<TroubledTable>(open_outbox_at(database_->url(), "a"), trouble), broker_,
                      Relay::long_lease());
    const AnsweredInTheEnd in_the_end{trouble};
    ASSERT_TRUE(until([&] { return relay.state().on_their_way == 2; }));
    trouble.unanswered = true;
    ASSERT_TRUE(until([&] { return trouble.withheld > 0; }));
    broker_.release("a-1");
    broker_.release("none-1");
    ASSERT_TRUE(until([&] { return relay.state().published == 2; }));
    trouble.answer();
    ASSERT_TRUE(empty());
    EXPECT_THAT(broker_.ids(), testing::UnorderedElementsAre("a-1", "none-1", "a-2"));
}

TEST_P(Outbox, WhatIsRefusedWhileATurnThatReadItIsOnItsWayStopsItsKey) {
    Stager stager(database_->url());
    Trouble trouble;
    broker_.withhold("a-1");
    stager.commit({staged("a", 1), staged("a", 2)});
    PumpOptions patient = Relay::long_lease();
    patient.retry_first = patient.retry_max = std::chrono::hours{1};
    const Relay relay(std::make_unique<TroubledTable>(open_outbox_at(database_->url(), "a"), trouble), broker_,
                      patient);
    const AnsweredInTheEnd in_the_end{trouble};
    ASSERT_TRUE(until([&] { return relay.state().on_their_way == 1; }));
    trouble.unanswered = true;
    ASSERT_TRUE(until([&] { return trouble.withheld > 0; }));
    {
        const std::lock_guard lock(broker_.refusing_mutex);
        broker_.refuses = {"a-1"};
    }
    broker_.release("a-1");
    ASSERT_TRUE(until([&] { return relay.state().refused == 1; }));
    trouble.answer();
    stager.commit({staged("b", 1)});
    ASSERT_TRUE(broker_.wait_for(1));
    const std::size_t turns = trouble.turns;
    ASSERT_TRUE(until([&] { return trouble.turns > turns + 1; }));
    EXPECT_THAT(broker_.ids(), ElementsAre("b-1"));
    EXPECT_EQ(relay.state().refused, 1) << "it is not tried before its time";
    EXPECT_TRUE(until([&] { return left() == "2"; }));
}

TEST_P(Outbox, ABrokerThatIsDownStopsEverythingUntilItIsBack) {
    Stager stager(database_->url());
    broker_.down = true;
    Relay relay(database_->url(), broker_);
    for (int i = 0; i < 10; ++i) stager.commit({staged("a", i)});
    ASSERT_TRUE(until([&] { return !relay.state().broker_down.empty(); }));
    EXPECT_EQ(left(), "10");
    broker_.down = false;
    ASSERT_TRUE(empty());
    EXPECT_TRUE(relay.state().broker_down.empty());
    EXPECT_GE(relay.state().restarts, 1);
    EXPECT_THAT(broker_.ids(), ElementsAre("a-0", "a-1", "a-2", "a-3", "a-4", "a-5", "a-6", "a-7", "a-8", "a-9"));
    EXPECT_THAT(relay.said(), HasSubstr("it is down"));
}

TEST_P(Outbox, ARefusedEventStopsItsKeyOnlyAndGoesWhenItIsTaken) {
    Stager stager(database_->url());
    for (const bool keeps_order : {false, true}) {
        Broker broker;
        broker.keeps_order = keeps_order;
        broker.refuses = {"a-2", "none-1"};
        stager.commit({staged("a", 1), staged("a", 2), staged("a", 3), staged("b", 1), staged("", 1), staged("", 2)});
        Relay relay(database_->url(), broker);
        ASSERT_TRUE(broker.wait_for(3));
        ASSERT_TRUE(until([&] { return relay.state().stuck == 2 && left() == "3"; }));
        EXPECT_THAT(broker.ids(), testing::UnorderedElementsAre("a-1", "b-1", "none-2"));
        EXPECT_THAT(relay.said(), HasSubstr("event a-2 for orders is stuck, and its ordering key with it: too large"));
        const auto table = open_outbox_at(database_->url(), "looking");
        const auto stuck = table->stuck(10);
        ASSERT_TRUE(stuck);
        ASSERT_EQ(stuck->size(), 2);
        EXPECT_EQ(std::ranges::count(*stuck, "a-2", &OutboxStuck::id), 1);
        {
            const std::lock_guard lock(broker.refusing_mutex);
            broker.refuses.clear();
        }
        ASSERT_TRUE(empty());
        const auto ids = broker.ids();
        const auto at = [&](const char* id) { return std::ranges::find(ids, id) - ids.begin(); };
        EXPECT_LT(at("a-2"), at("a-3"));
        EXPECT_EQ(ids.size(), 6);
        EXPECT_TRUE(until([&] { return relay.state().stuck == 0; }));
    }
}

TEST_P(Outbox, AStuckEventIsTriedAgainOrDroppedWhenAPersonSaysSo) {
    Stager stager(database_->url());
    broker_.refuses = {"a-1", "b-1"};
    stager.commit({staged("a", 1), staged("a", 2), staged("b", 1), staged("b", 2)});
    PumpOptions patient = Relay::quick();
    patient.retry_first = patient.retry_max = std::chrono::hours{1};
    Relay relay(database_->url(), broker_, "a", patient);
    const auto table = open_outbox_at(database_->url(), "looking");
    const auto stuck = [&] { return table->stuck(10).value(); };
    ASSERT_TRUE(until([&] { return stuck().size() == 2; }));
    for (const OutboxStuck& each : stuck()) {
        if (each.id == "a-1") {
            const std::lock_guard lock(broker_.refusing_mutex);
            broker_.refuses = {"b-1"};
            EXPECT_TRUE(table->retry(each.place.sequence).value());
        } else {
            EXPECT_EQ(table->drop({.sequence = each.place.sequence, .who = "ann"}).failure().code, Code::invalid);
            EXPECT_TRUE(table->drop({each.place.sequence, "ann", "the order was a test"}).value());
            EXPECT_FALSE(table->drop({each.place.sequence, "bob", "again"}).value());
        }
    }
    const auto dropped = table->dropped(10).value();
    ASSERT_EQ(dropped.size(), 1);
    EXPECT_EQ(std::tie(dropped[0].id, dropped[0].source, dropped[0].type, dropped[0].topic, dropped[0].ordering_key),
              std::make_tuple("b-1", "/shop", "paid", "orders", "b"));
    EXPECT_EQ(std::tie(dropped[0].decision.who, dropped[0].decision.why, dropped[0].tries),
              std::make_tuple("ann", "the order was a test", 1U));
    EXPECT_FALSE(dropped[0].error.empty());
    EXPECT_GE(dropped[0].dropped_at, dropped[0].staged_at);
    EXPECT_FALSE(table->retry(123456).value());
    ASSERT_TRUE(empty());
    EXPECT_THAT(broker_.ids(), testing::UnorderedElementsAre("a-1", "a-2", "b-2"));
}

TEST_P(Outbox, ManyStuckEventsOfOneKeyDoNotHideTheOthers) {
    Stager stager(database_->url());
    broker_.refuses = {"a-0"};
    stager.run("begin");
    for (int i = 0; i < 500; ++i) stager.stage(staged("a", i));
    for (int i = 0; i < 40; ++i) stager.stage(staged("k" + std::to_string(i), 1));
    stager.run("commit");
    PumpOptions options = Relay::quick();
    options.batch = 100;
    const Relay relay(database_->url(), broker_, "a", options);
    ASSERT_TRUE(broker_.wait_for(40));
    EXPECT_EQ(std::ranges::count(broker_.ids(), "a-1"), 0);
}

TEST_P(Outbox, AStoppedKeyGoesOnAsAWholeHoweverLongTheReadTakes) {
    Stager stager(database_->url());
    stager.run("begin");
    for (int i = 0; i < 2000; ++i) stager.stage(staged("a", i));
    stager.run("commit");
    const auto table = open_outbox_at(database_->url(), "a");
    const auto everything = all_of(table->hold(std::chrono::hours{1}).value(), 5000);
    const auto read = [&](const std::vector<OutboxRefusal>& refused) {
        auto rows = table->turn({.refused = refused, .read = everything});
        EXPECT_TRUE(rows) << rows.failure().message;
        return rows ? std::move(*rows) : std::vector<OutboxRow>{};
    };
    const OutboxPlace first = read({}).front().place;
    for (int round = 0; round < 10; ++round) {
        // Back to back, so that one of them is at work when the time comes.
        auto rows = read({{.place = first, .ordering_key = "a", .error = "no", .again_after = milliseconds{30}}});
        while (rows.empty()) rows = read({});
        ASSERT_EQ(rows.size(), 2000) << rows.front().staged.event.id << " without those before it";
    }
}

TEST_P(Outbox, LargeEventsAreReadInPartsHoweverManyABatchMayHave) {
    constexpr std::size_t size = 1U << 20;
    constexpr int count = 40;
    Stager stager(database_->url());
    stager.run("begin");
    for (int i = 0; i < count; ++i) {
        StagedEvent each = staged("a", i);
        each.event.data.assign(size, 'x');
        stager.stage(each);
        each.ordering_key = each.event.id = "k" + std::to_string(i);
        stager.stage(each);
    }
    stager.run("commit");
    {
        const auto table = open_outbox_at(database_->url(), "looking");
        const auto everything = all_of(table->hold(seconds{60}).value(), 2000);
        const auto rows = table->turn({.read = everything}).value();
        // Of each shard the row that reaches the limit is among them.
        EXPECT_LE(rows.size() * size, outbox_read_bytes_max + everything.size() * size);
        std::set<std::int16_t> shards;
        std::vector<std::string> first;
        for (const OutboxRow& row : rows) {
            shards.insert(row.place.shard);
            if (row.staged.ordering_key == "a") first.push_back(row.staged.event.id);
        }
        EXPECT_GE(rows.size(), stager.is_sqlite() ? outbox_read_bytes_max / size : 16U);
        EXPECT_GE(shards.size(), stager.is_sqlite() ? 1U : 10U) << "none is left out for another's sake";
        for (std::size_t i = 0; i < first.size(); ++i) EXPECT_EQ(first[i], "a-" + std::to_string(i));
        table->leave();
    }
    const Relay relay(database_->url(), broker_, "a");
    ASSERT_TRUE(empty());
    std::vector<std::string> order;
    std::set<std::string> seen;
    for (const std::string& id : broker_.ids())
        if (seen.insert(id).second && id.starts_with("a-")) order.push_back(id);
    EXPECT_EQ(seen.size(), 2 * count);
    ASSERT_EQ(order.size(), count);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(order[i], "a-" + std::to_string(i));
}

TEST_P(Outbox, WhatIsStuckDoesNotSlowDownReading) {
    Stager stager(database_->url());
    stager.run("begin");
    const auto table = open_outbox_at(database_->url(), "a");
    constexpr int most = 16'000;
    const bool sqlite = stager.is_sqlite();
    stager.run(fmt::format(
        "with recursive n(n) as (select 1 union all select n + 1 from n where n < {0}) insert into {1} (outbox, {2} "
        "sequence, staged_at, topic, ordering_key, id, source, type, subject, time, data_content_type, data_schema, "
        "extensions, data) select 'main', {3} n, 0, 't', 'k' || (n % ({0} / 2)), 'e' || n, '/', 't', '', '', '', '', "
        "'', "
        "'' from n",
        most, sqlite ? "semel_outbox" : "semel.outbox", sqlite ? "" : "shard,", sqlite ? "" : "3,"));
    stager.run(
        fmt::format("insert into {0}_stuck (outbox, {1} sequence, ordering_key, tries, since, retry_at, error) "
                    "select outbox, {1} sequence, ordering_key, 1, 0, 9000000000000000, 'no' from {0} where "
                    "sequence < {2} / 2",
                    sqlite ? "semel_outbox" : "semel.outbox", sqlite ? "" : "shard,", most));
    stager.run("commit");
    const std::vector<OutboxReading> wanted{{.shard = static_cast<std::int16_t>(sqlite ? 0 : 3), .limit = 100}};
    // More often than PostgreSQL makes a plan for each.
    for (int i = 0; i < 8; ++i) {
        const auto began = std::chrono::steady_clock::now();
        const auto rows = table->turn({.read = wanted});
        ASSERT_TRUE(rows) << rows.failure().message;
        EXPECT_EQ(rows->size(), 2);  // the last of either half
        ASSERT_LT(std::chrono::steady_clock::now() - began, seconds{1});
    }
}

TEST_P(Outbox, WhatIsGoneIsNotStuck) {
    Stager stager(database_->url());
    stager.commit({staged("a", 1)});
    const auto table = open_outbox_at(database_->url(), "a");
    const auto everything = all_of(table->hold(seconds{60}).value(), 10);
    const auto rows = table->turn({.read = everything}).value();
    ASSERT_EQ(rows.size(), 1);
    // Another relay publishes what is refused here.
    const std::vector<OutboxPlace> done{rows[0].place};
    const std::vector<OutboxRefusal> refused{{.place = rows[0].place, .ordering_key = "a", .error = "no"}};
    ASSERT_TRUE(table->turn({.done = done}));
    ASSERT_TRUE(table->turn({.refused = refused}));
    EXPECT_THAT(table->stuck(10).value(), IsEmpty());
    // Left by somebody who removed the event by hand.
    stager.commit({staged("a", 2)});
    const auto next = table->turn({.read = everything}).value();
    const std::vector<OutboxRefusal> again{{.place = next.at(0).place, .ordering_key = "a", .error = "no"}};
    ASSERT_TRUE(table->turn({.refused = again}));
    stager.run(stager.is_sqlite() ? "delete from semel_outbox" : "delete from semel.outbox");
    EXPECT_TRUE(table->drop({next[0].place.sequence, "ann", "it is gone"}).value());
    EXPECT_FALSE(table->drop({next[0].place.sequence, "ann", "it is gone"}).value());
    EXPECT_EQ(table->dropped(10).value().at(0).id, "");
    EXPECT_THAT(table->stuck(10).value(), IsEmpty());
}

TEST_P(Outbox, OfOneKeyOneTopicIsOnItsWayAtATimeWhateverThePublisherKeeps) {
    Stager stager(database_->url());
    broker_.keeps_order = true;
    stager.run("begin");
    for (int i = 0; i < 60; ++i) stager.stage(staged("a", i, i % 10 < 5 ? "orders" : "bills"));
    stager.run("commit");
    const Relay relay(database_->url(), broker_);
    ASSERT_TRUE(empty());
    EXPECT_FALSE(broker_.mixed);
    EXPECT_EQ(broker_.on_their_way_most, 5);
    const auto ids = broker_.ids();
    ASSERT_EQ(ids.size(), 60);
    for (int i = 0; i < 60; ++i) EXPECT_EQ(ids[static_cast<std::size_t>(i)], fmt::format("a-{}", i));
}

TEST_P(Outbox, ABatchIsOfAllShardsAndSmallerAfterATurnThatFailed) {
    Stager stager(database_->url());
    stager.run("begin");
    for (int i = 0; i < 1500; ++i) stager.stage(staged(i % 2 == 0 ? "" : "hot", i));
    stager.run("commit");
    Trouble trouble;
    trouble.answer_most = 300;
    PumpOptions options = Relay::quick();
    options.batch = 480;
    const Relay relay(std::make_unique<TroubledTable>(open_outbox_at(database_->url(), "a"), trouble), broker_,
                      options);
    ASSERT_TRUE(until([&] { return trouble.turns_failed > 0 && broker_.ids().size() > 100; }));
    trouble.answer_most = 1'000'000;
    ASSERT_TRUE(empty());
    EXPECT_LE(trouble.read_most, 480);
    EXPECT_GT(trouble.read_most, 100);
}

TEST_P(Outbox, ADatabaseThatFailsInPartIsAskedWithPausesAndToldOfOnce) {
    Stager stager(database_->url());
    Trouble trouble;
    PumpOptions options = Relay::quick();
    options.lease = seconds{30};
    options.batch = 16'000;
    stager.run("begin");
    for (int i = 0; i < 1000; ++i) stager.stage(staged("", i));
    stager.run("commit");
    trouble.bell = true;
    Relay relay(std::make_unique<TroubledTable>(open_outbox_at(database_->url(), "a"), trouble), broker_, options);
    ASSERT_TRUE(until([&] { return trouble.bells_failed == 1; }));
    const auto began = std::chrono::steady_clock::now();
    ASSERT_TRUE(until([&] { return trouble.bells_failed >= 4; }));
    EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds{500});
    const auto told = [&] {
        const std::string said = relay.said();
        std::size_t count = 0;
        for (std::size_t at = said.find("error:"); at != std::string::npos; at = said.find("error:", at + 1)) ++count;
        return count;
    };
    EXPECT_EQ(told(), 1);
    EXPECT_THAT(relay.state().store_down, HasSubstr("ring: trouble"));
    trouble.bell = false;
    ASSERT_TRUE(until([&] { return relay.state().store_down.empty(); }));
}

TEST_P(Outbox, ALeaseThatCannotBeRenewedIsTriedWithPauses) {
    Stager stager(database_->url());
    Trouble trouble;
    PumpOptions options = Relay::quick();
    options.lease = seconds{6};
    Relay relay(std::make_unique<TroubledTable>(open_outbox_at(database_->url(), "a"), trouble), broker_, options);
    ASSERT_TRUE(until([&] { return relay.state().shards > 0; }));
    trouble.hold = true;
    ASSERT_TRUE(until([&] { return trouble.holds_failed == 1; }));
    const auto began = std::chrono::steady_clock::now();
    stager.commit({staged("a", 1)});
    ASSERT_TRUE(until([&] { return trouble.holds_failed >= 4; }));
    EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds{500});
    ASSERT_TRUE(broker_.wait_for(1)) << "while the lease lasts";
    EXPECT_EQ(relay.said().find("error:"), relay.said().rfind("error:"));
    EXPECT_THAT(relay.state().store_down, HasSubstr("hold: trouble"));
    trouble.hold = false;
    ASSERT_TRUE(until([&] { return relay.state().store_down.empty(); }));
}

TEST_P(Outbox, ABrokerThatNothingWaitsForIsNotDown) {
    Stager stager(database_->url());
    broker_.down = true;
    const Relay relay(database_->url(), broker_);
    stager.commit({staged("a", 1)});
    ASSERT_TRUE(until([&] { return !relay.state().broker_down.empty(); }));
    stager.run(stager.is_sqlite() ? "delete from semel_outbox" : "delete from semel.outbox");
    EXPECT_TRUE(until([&] { return relay.state().broker_down.empty(); }));
}

TEST_P(Outbox, ASleepingRelayIsToldRatherThanLooking) {
    PumpOptions options = Relay::quick();
    options.poll = std::chrono::minutes{10};
    options.lease = std::chrono::minutes{30};
    Stager stager(database_->url());
    const Relay relay(database_->url(), broker_, "a", options);
    for (std::size_t i = 1; i <= 20; ++i) {
        stager.commit({staged("a", static_cast<int>(i))});
        ASSERT_TRUE(broker_.wait_for(i)) << i;
    }
}

TEST_P(Outbox, ARelayThatComesBusyAndThenIdleIsToldAgain) {
    PumpOptions options = Relay::quick();
    options.poll = std::chrono::minutes{10};
    options.lease = std::chrono::minutes{30};
    Stager stager(database_->url());
    stager.run("begin");
    for (int i = 0; i < 1000; ++i) stager.stage(staged("", i));
    stager.run("commit");
    const Relay relay(database_->url(), broker_, "a", options);
    ASSERT_TRUE(broker_.wait_for(1000));
    // Long enough for it not to look by itself any more.
    std::this_thread::sleep_for(milliseconds{1500});
    stager.commit({staged("a", 1)});
    ASSERT_TRUE(broker_.wait_for(1001));
}

TEST_P(Outbox, TwoRelaysShareTheWorkAndOneTakesOverWhenTheOtherEnds) {
    Stager stager(database_->url());
    auto first = std::make_unique<Relay>(database_->url(), broker_, "a");
    const Relay second(database_->url(), broker_, "b");
    if (GetParam() == "postgres") {
        EXPECT_TRUE(until([&] { return first->state().shards == 8 && second.state().shards == 8; }));
    }
    for (int i = 0; i < 100; ++i) stager.commit({staged("k" + std::to_string(i), i)});
    ASSERT_TRUE(empty());
    EXPECT_EQ(broker_.ids().size(), 100);
    EXPECT_EQ(first->state().published + second.state().published, 100);
    first.reset();
    for (int i = 0; i < 100; ++i) stager.commit({staged("k" + std::to_string(i), 100 + i)});
    ASSERT_TRUE(empty());
    EXPECT_EQ(broker_.ids().size(), 200);
}

TEST_P(Outbox, WhatNoBrokerCanCarryIsNotStaged) {
    Stager stager(database_->url());
    stager.run("begin");
    StagedEvent event = staged("a", 1);
    event.event.id = "";
    EXPECT_THAT(stager.try_stage(event).failure().message, HasSubstr("id is empty"));
    event = staged("a", 1);
    event.event.subject = "two\nlines";
    EXPECT_THAT(stager.try_stage(event).failure().message, HasSubstr("subject has a control character"));
    event = staged("a", 1);
    event.event.extensions = {{"Upper", "x"}};
    EXPECT_EQ(stager.try_stage(event).failure().code, Code::invalid);
    event = staged("a", 1);
    event.event.extensions = {{"twice", "x"}, {"twice", "y"}};
    EXPECT_THAT(stager.try_stage(event).failure().message, HasSubstr("twice"));
    stager.run("rollback");
    EXPECT_THAT(stager.try_stage(staged("a", 1)).failure().message, HasSubstr("no transaction"));
}

// ---- PostgreSQL alone ------------------------------------------------------------------------------------------------

class PostgresOutbox : public testing::Test {
protected:
    TestDatabase database_;
    TestConnection look_{database_.uri()};
    Broker broker_;
    [[nodiscard]] bool empty() {
        return until([&] { return look_.value("select count(*) from semel.outbox") == "0"; });
    }
};

TEST_F(PostgresOutbox, ATransactionThatCommitsLateIsNotSkipped) {
    const Relay relay(database_.uri(), broker_);
    Stager slow(database_.uri());
    Stager quick(database_.uri());
    slow.run("begin");
    slow.stage(staged("slow", 1));
    for (int i = 0; i < 50; ++i) quick.commit({staged("quick", i), staged("", i)});
    ASSERT_TRUE(broker_.wait_for(100));
    slow.stage(staged("slow", 2));
    slow.run("commit");
    ASSERT_TRUE(broker_.wait_for(102));
    const auto ids = broker_.ids();
    EXPECT_EQ(ids[100], "slow-1");
    EXPECT_EQ(ids[101], "slow-2");
}

TEST_F(PostgresOutbox, ASecondTransactionOfAKeyWaitsForTheFirst) {
    Stager first(database_.uri());
    Stager second(database_.uri());
    first.run("begin");
    first.stage(staged("a", 1));
    second.run("begin");
    second.run("set local lock_timeout = '50ms'");
    EXPECT_EQ(second.try_stage(staged("a", 2)).failure().code, Code::contended);
    second.run("rollback");
    second.commit({staged("b", 1), staged("", 1)});
    first.run("commit");
    second.commit({staged("a", 2)});
}

TEST_F(PostgresOutbox, SequenceIsCommitOrderOfAKeyUnderManyWriters) {
    const Relay relay(database_.uri(), broker_);
    look_.run("create table account (key text primary key, number int not null)");
    look_.run("insert into account select 'k' || n, 0 from generate_series(0, 2) n");
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 4; ++writer)
        writers.emplace_back([&, writer] {
            TestConnection connection(database_.uri());
            for (int i = 0; i < 60; ++i) {
                // The number is taken after the key's lock: it counts commits.
                const std::string key = "k" + std::to_string((writer + i) % 3);
                connection.run("begin");
                connection.run(fmt::format("select pg_advisory_xact_lock(7306357, hashtext('main/{}'))", key));
                connection.run(fmt::format("update account set number = number + 1 where key = '{}'", key));
                connection.run(
                    fmt::format("select semel.stage_json('orders', '/shop', 'paid', to_json(number), "
                                "ordering_key => key, id => key || '-' || number) from account where key = '{}'",
                                key));
                connection.run(i % 7 == 3 ? "rollback" : "commit");
            }
        });
    writers.clear();
    ASSERT_TRUE(empty());
    std::map<std::string, int> last;
    for (const StagedEvent& each : broker_.arrived())
        EXPECT_EQ(std::stoi(each.event.data), ++last[each.ordering_key]) << each.event.id;
    EXPECT_EQ(last.size(), 3);
}

TEST_F(PostgresOutbox, OtherLanguagesStageWithAFunction) {
    look_.run(
        "select semel.stage_json(topic => 'orders', source => '/shop', type => 'order.paid', ordering_key => 'o7', "
        "id => 'e1', data => '{\"order\": 7}', subject => '7', extensions => '{\"traceparent\": \"00-1\", "
        "\"correlationid\": \"c\"}', \"time\" => '2026-01-02T03:04:05Z')");
    look_.run("select semel.stage('orders', '/shop', 'order.paid', '\\x00ff')");
    const Relay relay(database_.uri(), broker_);
    ASSERT_TRUE(broker_.wait_for(2));
    auto arrived = broker_.arrived();
    if (arrived[0].event.id != "e1") std::swap(arrived[0], arrived[1]);
    StagedEvent wanted{.topic = "orders", .ordering_key = "o7"};
    wanted.event = {.id = "e1",
                    .source = "/shop",
                    .type = "order.paid",
                    .subject = "7",
                    .time = "2026-01-02T03:04:05.000000Z",
                    .data_content_type = "application/json",
                    .extensions = {{"correlationid", "c"}, {"traceparent", "00-1"}},
                    .data = R"({"order": 7})"};
    EXPECT_EQ(arrived[0], wanted);
    EXPECT_EQ(arrived[1].event.data, std::string("\0\xff", 2));
    EXPECT_EQ(arrived[1].event.id.size(), 36);
    EXPECT_EQ(arrived[1].event.data_content_type, "application/octet-stream");
}

TEST_F(PostgresOutbox, TheFunctionRefusesWhatNoBrokerCanCarry) {
    for (const std::string call :
         {"semel.stage_json('', '/shop', 'paid', '{}')", "semel.stage_json('orders', '', 'paid', '{}')",
          "semel.stage_json('orders', '/shop', E'a\\nb', '{}')",
          "semel.stage_json('orders', '/shop', 'paid', '{}', id => null)",
          "semel.stage_json('orders', '/shop', 'paid', null)",
          "semel.stage_json('orders', '/shop', 'paid', '{}', extensions => '{\"id\": \"1\"}')",
          "semel.stage_json('orders', '/shop', 'paid', '{}', extensions => '{\"A\": \"1\"}')"}) {
        PGresult* result = PQexec(look_.raw(), ("select " + call).c_str());
        const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        EXPECT_STREQ(state == nullptr ? "" : state, "22023") << call;
        PQclear(result);
    }
}

TEST_F(PostgresOutbox, WorksThroughAPoolerInTransactionMode) {
    Stager stager(database_.pooled_uri());
    const Relay relay(database_.pooled_uri(), broker_);
    for (int i = 0; i < 20; ++i) stager.commit({staged("a", i)});
    ASSERT_TRUE(broker_.wait_for(20));
    ASSERT_TRUE(empty());
    const auto arrived = broker_.ids();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(arrived[static_cast<std::size_t>(i)], fmt::format("a-{}", i));
}

TEST_F(PostgresOutbox, AWriterThatHoldsOthersUpIsToldOf) {
    PumpOptions options = Relay::quick();
    options.alarm = milliseconds{100};
    Stager slow(database_.uri());
    slow.run("begin");
    slow.stage(staged("a", 1));
    Relay relay(database_.uri(), broker_, "a", options);
    EXPECT_TRUE(
        until([&] { return relay.said().find("has staged events and has been open for") != std::string::npos; }));
    EXPECT_GT(relay.state().held_up_seconds, 0);
    slow.run("commit");
    EXPECT_TRUE(until([&] { return relay.state().held_up_seconds == 0; }));
}

TEST_F(PostgresOutbox, ADeadRelaysShardsAreTakenOverAfterItsLease) {
    const auto dead = open_outbox_at(database_.uri(), "dead");
    EXPECT_EQ(dead->hold(seconds{2}).value().shards.size(), 16);
    const Relay relay(database_.uri(), broker_);
    EXPECT_TRUE(until([&] { return relay.state().shards == 16; }));
}

TEST_F(PostgresOutbox, RelaysFindTheirWayBackAfterTheDatabaseDroppedThem) {
    Relay relay(database_.uri(), broker_);
    Stager stager(database_.uri());
    stager.commit({staged("a", 1)});
    ASSERT_TRUE(broker_.wait_for(1));
    for (int i = 2; i < 6; ++i) {
        look_.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'semel' "
            "and datname = current_database()");
        stager.commit({staged("a", i)});
        ASSERT_TRUE(until([&] { return broker_.ids().back() == "a-" + std::to_string(i); }));
    }
    ASSERT_TRUE(empty());
}

TEST_F(PostgresOutbox, RepliesThatAreLostCostCopiesAtMost) {
    Gate gate(database_.port());
    std::atomic<int> pieces = 0;
    gate.watch([&](Direction direction, std::string_view piece) {
        return direction == Direction::to_client && ++pieces % 40 == 0 ? 0 : piece.size();
    });
    const Relay relay(database_.uri_at_port(gate.port()), broker_);
    Stager stager(database_.uri());
    int staged_so_far = 0;
    while (gate.cuts() < 5 && staged_so_far < 5000) stager.commit({staged("a", staged_so_far++)});
    EXPECT_GE(gate.cuts(), 5);
    ASSERT_TRUE(empty());
    std::set<std::string> seen;
    for (const std::string& id : broker_.ids())
        if (!seen.contains(id)) {
            EXPECT_EQ(id, fmt::format("a-{}", seen.size()));
            seen.insert(id);
        }
    EXPECT_EQ(seen.size(), staged_so_far);
}

}  // namespace
}  // namespace semel::test
