// A relay whose broker is stopped and comes back, again and again: nothing is lost, and the order of first occurrences stays.
// Runs beside servers of its own.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "consumers/broker.hpp"
#include "consumers/database.hpp"
#include "outbox/pump.hpp"
#include "relay_to.hpp"
#include "semel/envelope.hpp"
#include "semel/keys.hpp"
#include "staging.hpp"

namespace semel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Steady = std::chrono::steady_clock;

constexpr seconds patience{90};
constexpr int keys = 3;

class OutboxRestart : public testing::TestWithParam<std::string_view> {
protected:
    static void control(std::string_view what) {
        const char* program = std::getenv("SEMEL_TEST_BROKER_CTL");
        ASSERT_NE(program, nullptr) << "run this under tests/servers/with-servers";
        const std::string command = fmt::format("{} {} {}", program, GetParam(), what);
        ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }
};

INSTANTIATE_TEST_SUITE_P(Of, OutboxRestart, testing::ValuesIn(broker_names),
                         [](const auto& each) { return std::string(each.param); });

TEST_P(OutboxRestart, NothingIsLostAndTheOrderStays) {
    const auto database = make_database("sqlite");
    const auto broker = make_broker(GetParam());
    const std::string topic = "outbox-" + mint_uuid4().text();
    broker->create(topic, 2);
    const auto table = open_outbox_at(database->url(), "a");
    const auto publisher = std::move(*outbox::open_publisher(relay_to(GetParam())));
    outbox::Pump pump(*table, *publisher, {}, [](auto, auto) {});
    std::jthread thread([&](const std::stop_token& stop) { pump.run(stop); });
    int count = 0;
    Stager stager(database->url());
    std::jthread writer([&](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            stager.commit({staged("k" + std::to_string(count % keys), count, topic)});
            ++count;
            std::this_thread::sleep_for(milliseconds{2});
        }
    });
    const auto published = [&](std::uint64_t wanted) {
        const auto deadline = Steady::now() + patience;
        while (pump.state().published < wanted && Steady::now() < deadline)
            std::this_thread::sleep_for(milliseconds{10});
        return pump.state().published >= wanted;
    };
    for (int round = 0; round < 2; ++round) {
        ASSERT_TRUE(published(pump.state().published + 50));
        control("stop");
        control("start");
    }
    ASSERT_TRUE(published(pump.state().published + 50));
    writer.request_stop();
    writer.join();
    ASSERT_TRUE(published(static_cast<std::uint64_t>(count)));

    const auto source = broker->open(topic, "reader");
    std::set<std::string> seen;
    std::map<std::string, int> last;
    const auto deadline = Steady::now() + patience;
    while (seen.size() < static_cast<std::size_t>(count) && Steady::now() < deadline) {
        auto deliveries = source->fetch(1000, milliseconds{500});
        if (!deliveries) continue;
        for (const Delivery& each : *deliveries) {
            const auto event = read_envelope(each.message, {});
            ASSERT_TRUE(event) << event.failure().message;
            static_cast<void>(source->acknowledge(std::span(&each.ticket, 1)));
            if (!seen.insert(event->id).second) continue;
            const int number = std::stoi(event->data.substr(10)) + 1;
            EXPECT_GT(number, last[event->subject]) << event->id;
            last[event->subject] = number;
        }
    }
    EXPECT_EQ(seen.size(), count);
    source->close();
    broker->remove(topic);
}

}  // namespace
}  // namespace semel::test
