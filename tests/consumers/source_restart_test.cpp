// What a source does while its broker is away, and after. Runs beside servers of its own, which it stops and kills.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "broker.hpp"

namespace semel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds patience{60};
constexpr std::size_t count = 300;
constexpr std::size_t in_hand = 60;
constexpr std::size_t acknowledged = 20;

using Bodies = std::set<std::string>;

std::vector<Message> numbered(std::size_t from, std::size_t to) {
    std::vector<Message> out;
    for (std::size_t at = from; at < to; ++at) {
        Message message;
        message.ordering_key = fmt::format("k{}", at % 20);
        message.body = fmt::format("m{}", at);
        out.push_back(std::move(message));
    }
    return out;
}

Bodies bodies(std::size_t from, std::size_t to) {
    Bodies out;
    for (const Message& message : numbered(from, to)) out.insert(message.body);
    return out;
}

class SourceRestart : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        broker_ = make_broker(GetParam());
        std::array<unsigned char, 6> bytes{};
        SystemRandom{}.fill(bytes);
        topic_ = "restart-" + to_hex(bytes);
        broker_->create(topic_, 2);
        tuning_.redeliver_after = seconds{3};
    }
    void TearDown() override { broker_->remove(topic_); }

    std::unique_ptr<Source> open() { return broker_->open(topic_, "group-" + topic_, tuning_); }

    static void control(std::string_view what) {
        const char* program = std::getenv("SEMEL_TEST_BROKER_CTL");
        ASSERT_NE(program, nullptr) << "run this under tests/servers/with-servers";
        const std::string command = fmt::format("{} {} {}", program, GetParam(), what);
        ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }

    /// Fetches until all of `wanted` have come; `unavailable` is no failure here, anything else is.
    static std::vector<Delivery> fetch_all(Source& source, const Bodies& wanted) {
        std::vector<Delivery> out;
        Bodies missing = wanted;
        const auto deadline = steady_clock::now() + patience;
        while (!missing.empty()) {
            if (steady_clock::now() > deadline) {
                ADD_FAILURE() << source.text() << ": " << missing.size() << " messages did not come, such as "
                              << *missing.begin();
                break;
            }
            auto fetched = source.fetch(50, milliseconds{100});
            if (!fetched) {
                EXPECT_EQ(fetched.failure().code, Code::unavailable) << fetched.failure().message;
                if (fetched.failure().code != Code::unavailable) break;
                continue;
            }
            for (Delivery& delivery : *fetched) {
                missing.erase(delivery.message.body);
                out.push_back(std::move(delivery));
            }
        }
        return out;
    }

    static void acknowledge(Source& source, std::span<const Delivery> deliveries) {
        std::vector<Ticket> tickets;
        for (const Delivery& delivery : deliveries) tickets.push_back(delivery.ticket);
        EXPECT_TRUE(source.acknowledge(tickets).ok());
    }

    /// Some are done and some in hand when the broker goes, and then it is there again.
    void lose_nothing(std::string_view how, bool goes_away) {
        broker_->publish(topic_, numbered(0, count));
        auto source = open();
        std::vector<Delivery> first;
        const auto deadline = steady_clock::now() + patience;
        while (first.size() < in_hand && steady_clock::now() < deadline) {
            auto fetched = source->fetch(in_hand - first.size(), milliseconds{100});
            ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
            for (Delivery& delivery : *fetched) first.push_back(std::move(delivery));
        }
        ASSERT_EQ(first.size(), in_hand);
        acknowledge(*source, std::span(first).first(acknowledged));
        const auto flushed = source->flush(patience);
        ASSERT_TRUE(flushed.ok()) << flushed.failure().message;
        Bodies undone = bodies(0, count);
        for (const Delivery& delivery : std::span(first).first(acknowledged)) undone.erase(delivery.message.body);

        // A quorum queue that RabbitMQ 3.10 has just made does not survive a kill, whatever was confirmed.
        if (how == "kill") control("sync");
        control(how);
        if (goes_away) {
            for (Delivery& delivery : expect_unavailable(*source)) first.push_back(std::move(delivery));
            control("start");
        }

        // The source finds the broker again by itself, and what was never delivered comes.
        Bodies never = undone;
        for (const Delivery& delivery : first) never.erase(delivery.message.body);
        fetch_all(*source, never);
        // Tickets from before either still count, or were taken away. Whoever uses them is not told off.
        const auto stale = source->taken_away();
        EXPECT_TRUE(source->acknowledge(stale).ok());
        EXPECT_TRUE(source->give_back(stale).ok());
        source->close();

        // Nothing of this was acknowledged: all of it comes again.
        source = open();
        const auto again = fetch_all(*source, undone);
        acknowledge(*source, again);
        source->close();
        broker_->publish(topic_, numbered(count, count + 40));
        source = open();
        const auto news = fetch_all(*source, bodies(count, count + 40));
        acknowledge(*source, news);
        for (const Delivery& delivery : news)
            EXPECT_FALSE(undone.contains(delivery.message.body)) << delivery.message.body;
    }

    /// Returns what had been read ahead and came nevertheless.
    static std::vector<Delivery> expect_unavailable(Source& source) {
        std::vector<Delivery> ahead;
        const auto deadline = steady_clock::now() + patience;
        while (steady_clock::now() < deadline) {
            auto fetched = source.fetch(1, milliseconds{50});
            if (fetched.ok()) {
                for (Delivery& delivery : *fetched) ahead.push_back(std::move(delivery));
                continue;
            }
            EXPECT_EQ(fetched.failure().code, Code::unavailable) << fetched.failure().message;
            EXPECT_NE(fetched.failure().message.find("127.0.0.1:"), std::string::npos) << fetched.failure().message;
            const auto again = source.fetch(1, milliseconds{50});
            EXPECT_FALSE(again.ok()) << "it is still away";
            return ahead;
        }
        ADD_FAILURE() << source.text() << " does not say that its broker is away";
        return ahead;
    }

    std::unique_ptr<Broker> broker_;
    std::string topic_;
    Tuning tuning_;
};

INSTANTIATE_TEST_SUITE_P(Brokers, SourceRestart, testing::ValuesIn(broker_names),
                         [](const auto& broker) { return std::string(broker.param); });

TEST_P(SourceRestart, NothingIsLostWhenTheBrokerIsStoppedAndStarted) { lose_nothing("stop", true); }

TEST_P(SourceRestart, NothingIsLostWhenTheBrokerIsKilled) { lose_nothing("kill", true); }

TEST_P(SourceRestart, NothingIsLostWhenTheBrokerIsBackBeforeAnybodyLooks) { lose_nothing("restart", false); }

TEST_P(SourceRestart, AcknowledgementsMadeWhileTheBrokerIsAwayArriveOrTheMessagesComeAgain) {
    broker_->publish(topic_, numbered(0, 100));
    auto source = open();
    const auto got = fetch_all(*source, bodies(0, 100));
    control("stop");
    std::vector<Ticket> done;
    for (const Delivery& delivery : got) done.push_back(delivery.ticket);
    static_cast<void>(source->acknowledge(done));  // may say already that nobody is there; flush has to
    EXPECT_FALSE(source->flush(milliseconds{300}).ok());
    control("start");
    // Any of it may come again, until nothing has for longer than it takes; whatever comes is acknowledged.
    broker_->publish(topic_, numbered(100, 140));
    Bodies missing = bodies(100, 140);
    const auto deadline = steady_clock::now() + patience;
    auto last = steady_clock::now();
    while (steady_clock::now() < deadline &&
           (!missing.empty() || steady_clock::now() < last + tuning_.redeliver_after)) {
        const auto fetched = source->fetch(50, milliseconds{100});
        if (!fetched || fetched->empty()) continue;
        last = steady_clock::now();
        for (const Delivery& delivery : *fetched) missing.erase(delivery.message.body);
        acknowledge(*source, *fetched);
    }
    EXPECT_TRUE(missing.empty());
    static_cast<void>(source->flush(seconds{10}));  // may tell of what was lost while the broker was away
    const auto flushed = source->flush(seconds{10});
    EXPECT_TRUE(flushed.ok()) << flushed.failure().message;
    source->close();
    broker_->publish(topic_, numbered(140, 180));
    source = open();
    const auto news = fetch_all(*source, bodies(140, 180));
    acknowledge(*source, news);
    Bodies all;
    for (const Delivery& delivery : news) all.insert(delivery.message.body);
    EXPECT_EQ(all, bodies(140, 180));
}

TEST_P(SourceRestart, ASourceMayBeOpenedAndClosedWhileTheBrokerIsAway) {
    broker_->publish(topic_, numbered(0, 10));
    control("stop");
    auto source = open();
    expect_unavailable(*source);
    const auto began = steady_clock::now();
    source->close();
    EXPECT_LE(steady_clock::now() - began, seconds{15});
    source = open();
    expect_unavailable(*source);
    control("start");
    acknowledge(*source, fetch_all(*source, bodies(0, 10)));
}

TEST_P(SourceRestart, ABrokerThatHangsDelaysNoFetch) {
    broker_->publish(topic_, numbered(0, 10));
    auto source = open();
    const auto got = fetch_all(*source, bodies(0, 10));
    acknowledge(*source, std::span(got).first(5));
    control("pause");
    for (int times = 0; times < 5; ++times) {
        const auto began = steady_clock::now();
        const auto fetched = source->fetch(10, milliseconds{200});
        EXPECT_LE(steady_clock::now() - began, milliseconds{700});
        if (!fetched) {
            EXPECT_EQ(fetched.failure().code, Code::unavailable) << fetched.failure().message;
        }
        acknowledge(*source, std::span(got).subspan(5));
    }
    control("resume");
    broker_->publish(topic_, numbered(10, 20));
    acknowledge(*source, fetch_all(*source, bodies(10, 20)));
    source->close();
}

}  // namespace
}  // namespace semel::test
