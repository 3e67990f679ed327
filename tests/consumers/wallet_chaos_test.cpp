// Every effect exactly once, none lost: 10,000 messages of which 30 % are duplicates, consumers that are killed between claim
// and commit and between commit and acknowledgement, a broker that is restarted in the middle. On each broker and database.
// Kills the broker, so it brings servers of its own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "broker.hpp"
#include "child.hpp"
#include "semel/keys.hpp"
#include "support/postgres.hpp"
#include "wallet.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr int messages_all = 10'000;
constexpr int messages_unique = 7'000;
constexpr int kills_at_each_point = 20;
constexpr auto standstill_max = 120s;  // how long it all takes depends on the machine; that it goes on does not
constexpr const char* points[] = {"handled", "committed"};

struct Place {
    std::string broker;
    std::string database;
};

class WalletChaos : public testing::TestWithParam<Place> {};

TEST_P(WalletChaos, EveryEffectHappensOnceAndNoneIsLost) {
    const auto& [broker_name, database_name] = GetParam();
    const auto broker = make_broker(broker_name);
    const auto database = make_database(database_name);
    make_wallet(*database);
    const std::string topic = "wallet-" + mint_uuid4().text();
    broker->create(topic, 4);

    std::mt19937 random(20261116);
    std::vector<Message> messages;
    for (int i = 0; i < messages_unique; ++i)
        messages.push_back(credit(broker_name, fmt::format("credit-{}", i), i % wallet_accounts, i % 100 + 1));
    for (int i = messages_unique; i < messages_all; ++i)
        messages.push_back(messages[random() % messages_unique]);  // the same id, published again
    std::ranges::shuffle(messages, random);

    // An embedded database has one process.
    const int slot_count = database_name == "sqlite" ? 1 : 2;
    const int members = database_name == "sqlite" ? 2 : 1;
    std::vector<Child> slots;
    slots.reserve(2);
    for (int i = 0; i < slot_count; ++i)
        slots.emplace_back(std::vector<std::string>{SEMEL_WALLET_CONSUMER, broker_name, topic, "wallet",
                                                    database->url(), std::to_string(members)});
    int kills[2] = {0, 0};
    const auto death = [&]() -> std::vector<std::string> {
        const int point = kills[0] <= kills[1] ? 0 : 1;
        if (kills[point] >= kills_at_each_point) return {};
        return {points[point], std::to_string(random() % 3 + 1)};
    };
    std::vector<std::vector<std::string>> deaths(slots.size());
    const auto start = [&](std::size_t i) {
        deaths[i] = death();
        slots[i].start(deaths[i]);
    };
    for (std::size_t i = 0; i < slots.size(); ++i) start(i);

    // Published while the consumers die: in pieces, so that there is work left for every death.
    std::string seen;
    auto seen_at = Steady::now();
    std::size_t published = 0;
    bool restarted = false;
    const auto publish = [&](std::size_t count) {
        count = std::min(count, messages.size() - published);
        broker->publish(topic, std::span(messages).subspan(published, count));
        published += count;
    };
    const auto all_killed = [&] { return kills[0] >= kills_at_each_point && kills[1] >= kills_at_each_point; };
    const auto pieces = static_cast<std::size_t>(2 * kills_at_each_point);
    publish(messages.size() / pieces);
    while (true) {
        const std::string reached =
            fmt::format("kills {} and {}, published {}, entries {} of {}", kills[0], kills[1], published,
                        database->value("select count(*) from entry"), messages_unique);
        if (reached != std::exchange(seen, reached)) seen_at = Steady::now();
        ASSERT_LT(Steady::now() - seen_at, standstill_max) << reached;
        bool died = false;
        for (std::size_t i = 0; i < slots.size(); ++i) {
            const auto status = slots[i].ended();
            if (!status) continue;
            ASSERT_TRUE(was_killed(*status)) << "it ended by itself: " << *status;
            ASSERT_FALSE(deaths[i].empty());
            ++kills[deaths[i][0] == points[0] ? 0 : 1];
            died = true;
            publish(messages.size() / pieces);
            start(i);
        }
        if (!restarted && kills[0] + kills[1] >= kills_at_each_point) {
            restarted = true;
            const std::string command =
                fmt::format("{} {} restart >&2", server_variable("SEMEL_TEST_BROKER_CTL"), broker_name);
            ASSERT_EQ(std::system(command.c_str()), 0) << command;
        }
        if (all_killed()) {
            publish(messages.size());
            if (database->value("select count(distinct id) from entry") == std::to_string(messages_unique)) break;
        } else if (!died && published == messages.size() &&
                   database->value("select count(distinct id) from entry") == std::to_string(messages_unique)) {
            // All done before all deaths: what was done is delivered again, and dies again.
            broker->publish(topic, std::span(messages).first(200));
        }
        std::this_thread::sleep_for(20ms);
    }
    for (Child& slot : slots) {
        const int status = slot.stop();
        EXPECT_TRUE(exited_well(status)) << status;
    }
    EXPECT_TRUE(restarted);
    EXPECT_GE(kills[0], kills_at_each_point);
    EXPECT_GE(kills[1], kills_at_each_point);
    EXPECT_EQ(audit(*database, messages_unique, "wallet"), "");
    broker->remove(topic);
}

std::vector<Place> places() {
    std::vector<Place> all;
    for (const auto broker : broker_names)
        for (const auto database : database_names) all.push_back({std::string(broker), std::string(database)});
    return all;
}
INSTANTIATE_TEST_SUITE_P(All, WalletChaos, testing::ValuesIn(places()),
                         [](const auto& place) { return place.param.broker + "_" + place.param.database; });

}  // namespace
}  // namespace semel::test
