// Relays that are killed at every point and paused for longer than their lease, on every database, while others stage, commit
// and roll back. At the broker: every committed event at least once, none that was rolled back, and the first occurrences of
// each key in the order of commits. In the database: nothing left, and nothing gone before it had arrived.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <random>
#include <thread>

#include "consumers/broker.hpp"
#include "consumers/child.hpp"
#include "consumers/database.hpp"
#include "semel/envelope.hpp"
#include "semel/keys.hpp"
#include "staging.hpp"

namespace semel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

constexpr seconds patience{60};
constexpr int keys = 5;

class OutboxCrash : public testing::TestWithParam<std::tuple<std::string_view, std::string_view>> {
protected:
    OutboxCrash() { broker_->create(topic_, 4); }
    ~OutboxCrash() override { broker_->remove(topic_); }

    [[nodiscard]] Child relay() const {
        return Child({SEMEL_RELAY_PROCESS, database_->url(), std::string(std::get<1>(GetParam()))});
    }

    /// Business transactions: some commit several events, some roll back. What each key committed is kept in its order.
    void stage_all(int from, int count) {
        Stager stager(database_->url());
        std::mt19937 random(static_cast<unsigned>(from) + 7);
        for (int i = from; i < from + count; ++i) {
            const bool commits = random() % 5 != 0;
            std::vector<StagedEvent> events;
            for (auto n = random() % 3 + 1; n > 0; --n) {
                const std::string key = random() % 6 == 0 ? "" : "k" + std::to_string(random() % keys);
                StagedEvent each = staged(key, next_++, topic_);
                if (!commits) each.event.id += "-rolled-back";
                events.push_back(std::move(each));
            }
            stager.run("begin");
            for (const StagedEvent& each : events) stager.stage(each);
            stager.run(commits ? "commit" : "rollback");
            if (!commits) continue;
            for (const StagedEvent& each : events) committed_[each.ordering_key].push_back(each.event.id);
        }
    }

    bool empty_soon() {
        const auto deadline = Steady::now() + patience;
        while (database_->value("select count(*) from semel.outbox") != "0") {
            if (Steady::now() > deadline) return false;
            std::this_thread::sleep_for(milliseconds{20});
        }
        return true;
    }

    /// All that the broker has, in its order.
    std::vector<std::string> arrived(std::size_t count) {
        const auto source = broker_->open(topic_, "reader");
        const auto deadline = Steady::now() + patience;
        std::vector<std::string> ids;
        std::set<std::string> distinct;
        int quiet = 0;
        while (Steady::now() < deadline && (distinct.size() < count || quiet < 2)) {
            auto deliveries = source->fetch(5000, milliseconds{300});
            if (!deliveries) continue;
            quiet = deliveries->empty() ? quiet + 1 : 0;
            for (const Delivery& each : *deliveries) {
                auto event = read_envelope(each.message, {});
                if (!event) throw std::runtime_error(event.failure().message);
                distinct.insert(event->id);
                ids.push_back(event->id);
                static_cast<void>(source->acknowledge(std::span(&each.ticket, 1)));
            }
        }
        source->close();
        return ids;
    }

    void judge() {
        ASSERT_TRUE(empty_soon()) << "events are left";
        std::size_t count = 0;
        for (const auto& [key, ids] : committed_) count += ids.size();
        const auto ids = arrived(count);
        std::map<std::string, std::vector<std::string>> first;
        std::set<std::string> seen;
        for (const std::string& id : ids) {
            EXPECT_EQ(id.find("rolled-back"), std::string::npos) << id;
            if (seen.insert(id).second) first[id.starts_with("none") ? "" : id.substr(0, id.find('-'))].push_back(id);
        }
        EXPECT_EQ(seen.size(), count);
        for (const auto& [key, wanted] : committed_) {
            if (key.empty()) continue;
            EXPECT_EQ(first[key], wanted) << "key " << key;
        }
        RecordProperty("copies", static_cast<int>(ids.size() - seen.size()));
        fmt::print("{} events, {} copies\n", count, ids.size() - seen.size());
    }

    std::unique_ptr<Database> database_ = make_database(std::get<0>(GetParam()));
    std::unique_ptr<Broker> broker_ = make_broker(std::get<1>(GetParam()));
    std::string topic_ = "outbox-" + mint_uuid4().text();
    std::map<std::string, std::vector<std::string>> committed_;
    int next_ = 0;
};

INSTANTIATE_TEST_SUITE_P(On, OutboxCrash,
                         testing::Combine(testing::ValuesIn(database_names), testing::ValuesIn(broker_names)),
                         [](const auto& each) {
                             return fmt::format("{}_{}", std::get<0>(each.param), std::get<1>(each.param));
                         });

TEST_P(OutboxCrash, KilledAtEveryPoint) {
    // Without work nobody reaches a point.
    std::jthread writer([&](const std::stop_token& stop) {
        for (int i = 0; i < 100 && !stop.stop_requested(); ++i) {
            stage_all(i * 20, 20);
            std::this_thread::sleep_for(milliseconds{20});
        }
    });
    std::map<std::string, int> kills;
    std::mt19937 random(3);
    int life = 0;
    for (const std::string point :
         {"read", "publish", "confirm", "ask", "remove", "read", "publish", "confirm", "ask", "remove"}) {
        Child child = relay();
        child.start({fmt::format("relay-{}", life++), point, std::to_string(random() % 4)});
        const auto deadline = Steady::now() + patience;
        std::optional<int> ended;
        while (!(ended = child.ended()) && Steady::now() < deadline) {
            std::this_thread::sleep_for(milliseconds{5});
        }
        ASSERT_TRUE(ended.has_value()) << point;
        ASSERT_TRUE(was_killed(*ended)) << point;
        ++kills[point];
    }
    writer.request_stop();
    writer.join();
    for (const char* point : {"read", "publish", "confirm", "ask", "remove"}) EXPECT_EQ(kills[point], 2) << point;
    Child last = relay();
    last.start({"last"});
    judge();
    EXPECT_TRUE(exited_well(last.stop()));
}

TEST_P(OutboxCrash, OnePausedForLongerThanItsLeaseAndOneKilled) {
    Child sleeper = relay();
    sleeper.start({"sleeper", "pause", "0"});
    stage_all(0, 100);
    ASSERT_TRUE(sleeper.wait_until_stopped());
    // Its lease runs out: the next one has its work, and dies of it; then the third.
    Child victim = relay();
    victim.start({"victim", "confirm", "0"});
    stage_all(100, 100);
    const auto deadline = Steady::now() + patience;
    std::optional<int> ended;
    while (!(ended = victim.ended()) && Steady::now() < deadline) std::this_thread::sleep_for(milliseconds{5});
    ASSERT_TRUE(ended && was_killed(*ended));
    Child third = relay();
    third.start({"third"});
    ASSERT_TRUE(empty_soon());
    sleeper.go_on();
    stage_all(200, 100);
    judge();
    EXPECT_TRUE(exited_well(third.stop()));
    EXPECT_TRUE(exited_well(sleeper.stop()));
}

}  // namespace
}  // namespace semel::test
