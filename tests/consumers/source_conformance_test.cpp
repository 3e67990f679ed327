// What a source is. Every test has a topic of its own, and runs against every broker.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "broker.hpp"

namespace semel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds patience{30};     // for what has to happen
constexpr milliseconds quiet{500};  // for what must not
constexpr milliseconds slack{400};  // of a machine that is busy with other tests
constexpr std::size_t many = 1000;

using Bodies = std::set<std::string>;

std::string unique_name(std::string_view what) {
    std::array<unsigned char, 6> bytes{};
    SystemRandom{}.fill(bytes);
    return fmt::format("{}-{}", what, to_hex(bytes));
}

Message message(std::string key, std::string body) {
    Message out;
    out.ordering_key = std::move(key);
    out.content_type = "text/plain";
    out.body = std::move(body);
    return out;
}

/// m0, m1… with `keys` different ordering keys in turn.
std::vector<Message> numbered(std::size_t count, std::size_t keys = 1) {
    std::vector<Message> out;
    for (std::size_t at = 0; at < count; ++at)
        out.push_back(message(fmt::format("k{}", at % keys), fmt::format("m{}", at)));
    return out;
}

Bodies bodies(std::span<const Message> messages) {
    Bodies out;
    for (const Message& one : messages) out.insert(one.body);
    return out;
}
Bodies bodies(std::span<const Delivery> deliveries) {
    Bodies out;
    for (const Delivery& delivery : deliveries) out.insert(delivery.message.body);
    return out;
}
std::vector<Ticket> tickets(std::span<const Delivery> deliveries) {
    std::vector<Ticket> out;
    for (const Delivery& delivery : deliveries) out.push_back(delivery.ticket);
    return out;
}

class SourceConformance : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        broker_ = make_broker(GetParam());
        ASSERT_EQ(broker_->name(), GetParam());
    }
    void TearDown() override {
        for (const std::string& topic : topics_) broker_->remove(topic);
    }

    std::string make_topic(int partitions = 1) {
        topics_.push_back(unique_name("source"));
        broker_->create(topics_.back(), partitions);
        return topics_.back();
    }

    std::unique_ptr<Source> open(const std::string& topic, const Tuning& tuning = {}) {
        return broker_->open(topic, "group-" + topic, tuning);
    }

    void publish(const std::string& topic, std::span<const Message> messages) { broker_->publish(topic, messages); }
    void publish(const std::string& topic, const Message& one) { broker_->publish(topic, {&one, 1}); }

    /// Fetches until `enough`, and fails if that is not before patience is over.
    template <class Enough>
    static std::vector<Delivery> fetch_until(Source& source, const Enough& enough, std::size_t limit = 100) {
        std::vector<Delivery> out;
        const auto deadline = steady_clock::now() + patience;
        while (!enough(out)) {
            if (steady_clock::now() > deadline) {
                ADD_FAILURE() << source.text() << ": only " << out.size() << " messages in " << patience.count()
                              << " s";
                break;
            }
            auto fetched = source.fetch(limit, milliseconds{100});
            if (!fetched) {
                ADD_FAILURE() << fetched.failure().message;
                break;
            }
            for (Delivery& delivery : *fetched) out.push_back(std::move(delivery));
        }
        return out;
    }
    static std::vector<Delivery> fetch_count(Source& source, std::size_t count, std::size_t limit = 100) {
        return fetch_until(
            source, [&](const auto& out) { return out.size() >= count; }, limit);
    }
    static std::vector<Delivery> fetch_bodies(Source& source, const Bodies& wanted) {
        return fetch_until(source, [&](const auto& out) {
            const Bodies got = bodies(out);
            return std::ranges::includes(got, wanted);
        });
    }

    /// Everything that comes within `time`.
    static std::vector<Delivery> fetch_for(Source& source, Duration time) {
        const auto deadline = steady_clock::now() + time;
        return fetch_until(source, [&](const auto&) { return steady_clock::now() >= deadline; });
    }

    /// Nothing of what was published before is left: what is published now is all that comes.
    void expect_nothing_left(const std::string& topic) {
        const auto source = open(topic);
        publish(topic, message("k0", "marker"));
        auto got = fetch_bodies(*source, {"marker"});
        const auto more = fetch_for(*source, quiet);
        EXPECT_EQ(bodies(got), Bodies{"marker"});
        EXPECT_EQ(bodies(more), Bodies{});
        EXPECT_TRUE(source->acknowledge(tickets(got)).ok());
        source->close();
    }

    [[nodiscard]] bool is(std::string_view name) const { return broker_->name() == name; }

    std::unique_ptr<Broker> broker_;
    std::vector<std::string> topics_;
};

INSTANTIATE_TEST_SUITE_P(Brokers, SourceConformance, testing::ValuesIn(broker_names),
                         [](const auto& broker) { return std::string(broker.param); });

// ---- what is delivered -----------------------------------------------------------------------------------------

TEST_P(SourceConformance, DeliversWhatWasPublishedByteForByte) {
    const std::string topic = make_topic();
    std::string binary;
    for (int byte = 0; byte < 256; ++byte) binary.push_back(static_cast<char>(byte));
    std::string big(512 * 1024, '\0');
    SeededRandom random(7);
    random.fill({reinterpret_cast<unsigned char*>(big.data()), big.size()});

    std::vector<Message> sent{message("a", "plain"), message("b", binary), message("c", ""), message("d", big)};
    sent[0].headers = {{"x-trace", "4711"}, {"x-name", "Größe 7 = \"groß\""}};
    sent[1].content_type = "application/octet-stream";
    sent[2].headers = {{"x-trace", "4712"}};
    publish(topic, sent);

    const auto source = open(topic);
    const auto got = fetch_count(*source, sent.size());
    ASSERT_EQ(got.size(), sent.size());
    std::set<std::string> positions;
    for (std::size_t at = 0; at < sent.size(); ++at) {
        const Message& one = got[at].message;
        EXPECT_EQ(name(one.binding), GetParam());
        EXPECT_EQ(one.topic, topic);
        EXPECT_EQ(one.ordering_key, sent[at].ordering_key);
        EXPECT_EQ(one.content_type, sent[at].content_type);
        EXPECT_TRUE(one.body == sent[at].body) << "message " << at << " has " << one.body.size() << " bytes";
        for (const MessageHeader& header : sent[at].headers) {
            const std::string* value = one.header(header.name);
            ASSERT_NE(value, nullptr) << header.name;
            EXPECT_EQ(*value, header.value);
        }
        EXPECT_EQ(one.header("content-type"), nullptr);
        EXPECT_EQ(one.deliveries, 1U);
        positions.insert(one.position);
    }
    EXPECT_EQ(positions.size(), is("rabbitmq") ? 1U : sent.size());
    EXPECT_TRUE(source->acknowledge(tickets(got)).ok());
}

TEST_P(SourceConformance, PositionIsTheSameOnEveryDelivery) {
    const std::string topic = make_topic();
    publish(topic, numbered(3));
    auto source = open(topic);
    std::map<std::string, std::string> first;
    for (const Delivery& delivery : fetch_count(*source, 3)) first[delivery.message.body] = delivery.message.position;
    source->close();
    source = open(topic);
    for (const Delivery& delivery : fetch_bodies(*source, bodies(numbered(3))))
        EXPECT_EQ(delivery.message.position, first[delivery.message.body]);
}

TEST_P(SourceConformance, OrderWithinAnOrderingKeyIsKept) {
    const std::string topic = make_topic(4);
    const auto sent = numbered(500, 10);
    publish(topic, sent);
    const auto source = open(topic);
    const auto got = fetch_count(*source, sent.size());
    ASSERT_EQ(got.size(), sent.size());
    std::map<std::string, int> last;
    for (const Delivery& delivery : got) {
        const int number = std::stoi(delivery.message.body.substr(1));
        const auto [at, first] = last.try_emplace(delivery.message.ordering_key, -1);
        EXPECT_GT(number, at->second) << delivery.message.ordering_key;
        at->second = number;
    }
    EXPECT_EQ(last.size(), 10U);
    EXPECT_TRUE(source->acknowledge(tickets(got)).ok());
}

// ---- fetch -----------------------------------------------------------------------------------------------------

TEST_P(SourceConformance, FetchWaitsNoLongerThanAsked) {
    const std::string topic = make_topic();
    const auto source = open(topic);
    publish(topic, message("k0", "first"));
    const auto first = fetch_count(*source, 1);  // now it has joined, or connected
    EXPECT_TRUE(source->acknowledge(tickets(first)).ok());
    EXPECT_TRUE(source->flush(patience).ok());
    for (const milliseconds wait : {milliseconds{0}, milliseconds{1}, milliseconds{300}}) {
        const auto began = steady_clock::now();
        const auto fetched = source->fetch(10, wait);
        const auto took = steady_clock::now() - began;
        ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
        EXPECT_EQ(fetched->size(), 0U);
        EXPECT_GE(took, wait - milliseconds{10});
        EXPECT_LE(took, wait + milliseconds{100} + slack);
    }
}

TEST_P(SourceConformance, FetchReturnsAsSoonAsThereIsAMessage) {
    const std::string topic = make_topic();
    const auto source = open(topic);
    publish(topic, message("k0", "first"));
    const auto first = fetch_count(*source, 1);
    steady_clock::time_point published;
    std::thread publisher([&] {
        std::this_thread::sleep_for(milliseconds{200});  // so that the fetch waits already
        publish(topic, message("k0", "second"));
        published = steady_clock::now();
    });
    const auto fetched = source->fetch(10, patience);
    const auto returned = steady_clock::now();
    publisher.join();
    ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
    EXPECT_EQ(bodies(*fetched), Bodies{"second"});
    EXPECT_LE(returned - published, seconds{1} + slack);
}

TEST_P(SourceConformance, FetchReturnsNoMoreThanItsLimit) {
    const std::string topic = make_topic();
    const auto sent = numbered(200);
    publish(topic, sent);
    const auto source = open(topic);
    Bodies got;
    const auto deadline = steady_clock::now() + patience;
    for (std::size_t limit = 0; got.size() < sent.size() && steady_clock::now() < deadline; limit = (limit + 1) % 8) {
        const auto fetched = source->fetch(limit, milliseconds{20});
        ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
        EXPECT_LE(fetched->size(), limit);
        got.merge(bodies(*fetched));
        EXPECT_TRUE(source->acknowledge(tickets(*fetched)).ok());
    }
    EXPECT_EQ(got, bodies(sent));
}

TEST_P(SourceConformance, NothingIsLostWhileNothingIsWanted) {
    const std::string topic = make_topic();
    const auto sent = numbered(500);
    publish(topic, sent);
    const auto source = open(topic);
    const auto some = fetch_count(*source, 100);
    for (int count = 0; count < 100; ++count) {  // nothing more is wanted, and the others are waiting
        const auto fetched = source->fetch(0, milliseconds{3});
        ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
        EXPECT_EQ(fetched->size(), 0U);
        EXPECT_TRUE(source->keep(tickets(some)).ok());
    }
    Bodies rest = bodies(sent);
    for (const Delivery& delivery : some) rest.erase(delivery.message.body);
    const auto others = fetch_bodies(*source, rest);
    EXPECT_EQ(bodies(others), rest);
    EXPECT_EQ(others.size(), rest.size()) << "some came twice";
    EXPECT_TRUE(source->acknowledge(tickets(some)).ok());
    EXPECT_TRUE(source->acknowledge(tickets(others)).ok());
    source->close();
    expect_nothing_left(topic);
}

// ---- acknowledging ---------------------------------------------------------------------------------------------

TEST_P(SourceConformance, WhatWasAcknowledgedDoesNotComeAgain) {
    const std::string topic = make_topic();
    publish(topic, numbered(100));
    const auto source = open(topic);
    const auto got = fetch_count(*source, 100);
    EXPECT_TRUE(source->acknowledge(tickets(got)).ok());
    const auto flushed = source->flush(patience);
    EXPECT_TRUE(flushed.ok()) << flushed.failure().message;
    source->close();
    expect_nothing_left(topic);
}

TEST_P(SourceConformance, CloseTakesWhatWasAcknowledgedAlong) {
    const std::string topic = make_topic();
    publish(topic, numbered(100));
    const auto source = open(topic);
    EXPECT_TRUE(source->acknowledge(tickets(fetch_count(*source, 100))).ok());
    source->close();
    source->close();  // twice is once
    EXPECT_FALSE(source->fetch(1, milliseconds{0}).ok());
    expect_nothing_left(topic);
}

TEST_P(SourceConformance, WhatWasNotAcknowledgedComesAgain) {
    const std::string topic = make_topic();
    const auto sent = numbered(100);
    publish(topic, sent);
    Tuning tuning;
    tuning.redeliver_after = seconds{2};
    auto source = open(topic, tuning);
    fetch_count(*source, 100);
    source->close();
    source = open(topic, tuning);
    const auto again = fetch_bodies(*source, bodies(sent));
    EXPECT_EQ(bodies(again), bodies(sent));
    EXPECT_TRUE(source->acknowledge(tickets(again)).ok());
    source->close();
    expect_nothing_left(topic);
}

TEST_P(SourceConformance, AcknowledgingOutOfOrderLosesNothing) {
    const std::string topic = make_topic();
    const auto sent = numbered(50);
    publish(topic, sent);
    Tuning tuning;
    tuning.redeliver_after = seconds{2};
    auto source = open(topic, tuning);
    const auto got = fetch_count(*source, 50);
    ASSERT_EQ(got.size(), 50U);
    Bodies undone;
    std::vector<Ticket> done;
    for (std::size_t at = got.size(); at-- > 0;) {  // from the last to the first
        if (at % 10 == 3) {
            undone.insert(got[at].message.body);
        } else {
            done.push_back(got[at].ticket);
        }
    }
    EXPECT_TRUE(source->acknowledge(done).ok());
    EXPECT_TRUE(source->flush(patience).ok());
    source->close();

    source = open(topic, tuning);
    const auto again = fetch_bodies(*source, undone);
    for (const char* before : {"m0", "m1", "m2"}) EXPECT_FALSE(bodies(again).contains(before)) << before;
    if (!is("kafka")) {  // which has one position only: after the lowest unfinished one all come again
        EXPECT_EQ(bodies(again), undone);
    }
    EXPECT_TRUE(source->acknowledge(tickets(again)).ok());
    source->close();
    if (!is("kafka")) expect_nothing_left(topic);
}

TEST_P(SourceConformance, WhatIsNotDoneDoesNotKeepTheOthersFromComing) {
    // However few may be on their way at once, as long as one of them is done.
    struct Case {
        std::size_t unacknowledged_max;
        std::size_t slow;
    };
    for (const auto& [unacknowledged_max, slow_ones] : {Case{2, 1}, Case{4, 1}, Case{4, 3}, Case{10, 9}, Case{40, 3}}) {
        SCOPED_TRACE(fmt::format("{} of {}", slow_ones, unacknowledged_max));
        const std::string topic = make_topic();
        const std::size_t count = slow_ones + 12;
        publish(topic, numbered(count));
        Tuning tuning;
        tuning.unacknowledged_max = unacknowledged_max;
        const auto source = open(topic, tuning);
        const auto slow = fetch_count(*source, slow_ones, 1);
        ASSERT_EQ(slow.size(), slow_ones);
        for (std::size_t done = slow_ones; done < count;) {
            auto got = fetch_count(*source, 1, 1);
            ASSERT_FALSE(got.empty()) << "after " << done;
            done += got.size();
            ASSERT_TRUE(source->acknowledge(tickets(got)).ok());
        }
        ASSERT_TRUE(source->acknowledge(tickets(slow)).ok());
        source->close();
        expect_nothing_left(topic);
    }
}

TEST_P(SourceConformance, CloseTakesAlongWhatWasAcknowledgedBehindWhatIsNotDone) {
    const std::string topic = make_topic();
    publish(topic, numbered(5));
    const auto source = open(topic);
    const auto got = fetch_count(*source, 5);
    ASSERT_EQ(got.size(), 5U);
    ASSERT_TRUE(source->acknowledge(tickets(std::span(got).subspan(1))).ok());
    source->close();
    const auto next = open(topic);
    const auto again = fetch_bodies(*next, {got[0].message.body});
    const auto more = fetch_for(*next, quiet);
    // One position per partition covers all behind it.
    if (!is("kafka")) {
        EXPECT_EQ(bodies(again), Bodies{got[0].message.body});
        EXPECT_EQ(bodies(more), Bodies{});
    }
    next->close();
}

TEST_P(SourceConformance, AcknowledgingTwiceDoesNothing) {
    const std::string topic = make_topic();
    publish(topic, numbered(2));
    const auto source = open(topic);
    const auto got = tickets(fetch_count(*source, 2));
    for (int count = 0; count < 3; ++count) {
        EXPECT_TRUE(source->acknowledge(got).ok());
        EXPECT_TRUE(source->flush(patience).ok());
        EXPECT_TRUE(source->give_back(got).ok());
        EXPECT_TRUE(source->keep(got).ok());
        EXPECT_EQ(fetch_for(*source, milliseconds{100}).size(), 0U);
    }
    EXPECT_TRUE(source->acknowledge(std::vector<Ticket>{Ticket{999'999'999}}).ok());
    source->close();
    expect_nothing_left(topic);
}

// ---- giving back -----------------------------------------------------------------------------------------------

TEST_P(SourceConformance, WhatWasGivenBackComesAgainSoonUnderANewTicket) {
    const std::string topic = make_topic();
    publish(topic, numbered(10));
    const auto source = open(topic);
    const auto got = fetch_count(*source, 10);
    ASSERT_EQ(got.size(), 10U);
    const std::vector<Ticket> undone{got[7].ticket, got[2].ticket};
    EXPECT_TRUE(source->give_back(undone).ok());
    const auto began = steady_clock::now();
    const auto again = fetch_bodies(*source, {got[2].message.body, got[7].message.body});
    EXPECT_LE(steady_clock::now() - began, seconds{3} + slack);
    EXPECT_EQ(again.size(), 2U);
    for (const Delivery& delivery : again) {
        EXPECT_EQ(std::ranges::count(tickets(got), delivery.ticket), 0);
        if (!is("rabbitmq")) {
            EXPECT_EQ(delivery.message.deliveries, 2U);
        }
    }
    // The old ticket does nothing: the message is still to be done.
    EXPECT_TRUE(source->acknowledge(undone).ok());
    EXPECT_TRUE(source->flush(patience).ok());
    EXPECT_TRUE(source->give_back(tickets(again)).ok());
    const auto third = fetch_bodies(*source, {got[2].message.body, got[7].message.body});
    EXPECT_TRUE(source->acknowledge(tickets(got)).ok());
    EXPECT_TRUE(source->acknowledge(tickets(third)).ok());
    source->close();
    expect_nothing_left(topic);
}

TEST_P(SourceConformance, WhatWasGivenBackIsNotLostByClosing) {
    const std::string topic = make_topic();
    const auto sent = numbered(20);
    publish(topic, sent);
    auto source = open(topic);
    const auto got = fetch_count(*source, 20);
    EXPECT_TRUE(source->give_back(tickets(got)).ok());
    source->close();
    source = open(topic);
    const auto again = fetch_bodies(*source, bodies(sent));
    EXPECT_EQ(bodies(again), bodies(sent));
    EXPECT_TRUE(source->acknowledge(tickets(again)).ok());
    source->close();
    expect_nothing_left(topic);
}

// ---- several consumers -----------------------------------------------------------------------------------------

TEST_P(SourceConformance, TwoSourcesOfAGroupShareTheMessages) {
    const std::string topic = make_topic(4);
    const auto sent = numbered(many, 20);
    const auto one = open(topic);
    const auto other = open(topic);
    Bodies by_one;
    Bodies by_other;
    std::size_t served = 0;
    const auto serve = [&](Source& source, Bodies& seen) {
        const auto fetched = source.fetch(20, milliseconds{50});
        ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
        served += fetched->size();
        seen.merge(bodies(*fetched));
        EXPECT_TRUE(source.acknowledge(tickets(*fetched)).ok());
    };
    const auto deadline = steady_clock::now() + patience;
    // Again and again: whoever has not joined yet has nothing to share.
    std::size_t published = 0;
    while ((by_one.empty() || by_other.empty()) && steady_clock::now() < deadline) {
        publish(topic, sent);
        published += sent.size();
        while (served < published && steady_clock::now() < deadline) {
            serve(*one, by_one);
            serve(*other, by_other);
        }
    }
    Bodies all = by_one;
    all.insert(by_other.begin(), by_other.end());
    EXPECT_EQ(all, bodies(sent));
    EXPECT_FALSE(by_one.empty());
    EXPECT_FALSE(by_other.empty());
    one->close();
    other->close();
    expect_nothing_left(topic);
}

TEST_P(SourceConformance, WhoeverClosesHandsItsRestOver) {
    const std::string topic = make_topic(4);
    const auto sent = numbered(200, 20);
    publish(topic, sent);
    Tuning tuning;
    tuning.redeliver_after = seconds{2};
    const auto leaving = open(topic, tuning);
    Bodies done;
    const auto first = fetch_count(*leaving, 40, 40);
    ASSERT_GE(first.size(), 40U);
    // Afterwards: a member of a Kafka group that nobody asks for messages keeps the others from theirs.
    const auto staying = open(topic, tuning);
    const std::span half(first.data(), first.size() / 2);
    EXPECT_TRUE(leaving->acknowledge(tickets(half)).ok());
    done.merge(bodies(half));
    leaving->close();

    const auto deadline = steady_clock::now() + patience;
    while (done.size() < sent.size() && steady_clock::now() < deadline) {
        const auto fetched = staying->fetch(50, milliseconds{100});
        ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
        EXPECT_TRUE(staying->acknowledge(tickets(*fetched)).ok());
        done.merge(bodies(*fetched));
    }
    EXPECT_EQ(done, bodies(sent));
    staying->close();
    expect_nothing_left(topic);
}

TEST_P(SourceConformance, AStaleTicketDoesNothingAfterAnotherConsumerTookOver) {
    const std::string topic = make_topic(2);
    const auto sent = numbered(40, 20);
    publish(topic, sent);
    Tuning tuning;
    tuning.redeliver_after = milliseconds{1500};
    const auto slow = open(topic, tuning);
    const auto got = fetch_count(*slow, sent.size());
    ASSERT_GE(got.size(), sent.size());
    const auto fast = open(topic, tuning);
    if (is("rabbitmq")) {  // it hands nothing on while the connection lives: what is given back is shared out again
        EXPECT_EQ(fetch_for(*fast, quiet).size(), 0U);
        EXPECT_TRUE(slow->give_back(tickets(got)).ok());
    }
    std::vector<Delivery> taken_over;
    const auto deadline = steady_clock::now() + patience;
    while (taken_over.empty() && steady_clock::now() < deadline) {
        auto fetched = fast->fetch(100, milliseconds{100});
        ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
        taken_over = std::move(*fetched);
        if (is("kafka")) {  // its partitions are revoked while it polls
            ASSERT_TRUE(slow->fetch(100, milliseconds{50}).ok());
        }
    }
    ASSERT_FALSE(taken_over.empty());
    // Whatever the slow one says now of what it has no more, is no failure.
    EXPECT_TRUE(slow->keep(tickets(got)).ok());
    if (is("kafka") || is("redis")) {  // which tell
        EXPECT_TRUE(slow->fetch(0, milliseconds{100}).ok());
        const auto stale = slow->taken_away();
        EXPECT_GE(stale.size(), taken_over.size());
        EXPECT_TRUE(slow->acknowledge(stale).ok());
        EXPECT_TRUE(slow->give_back(stale).ok());
        EXPECT_TRUE(slow->flush(patience).ok());
    }
    slow->close();
    fast->close();  // neither has finished anything
    const auto third = open(topic, tuning);
    const auto again = fetch_bodies(*third, bodies(sent));
    EXPECT_EQ(bodies(again), bodies(sent));
    EXPECT_TRUE(third->acknowledge(tickets(again)).ok());
    third->close();
    expect_nothing_left(topic);
}

TEST_P(SourceConformance, WhatIsKeptStaysAndWhatIsNotKeptComesAgain) {
    const std::string topic = make_topic();
    publish(topic, numbered(2));
    Tuning tuning;
    tuning.redeliver_after = milliseconds{1500};
    const auto worker = open(topic, tuning);
    const auto got = fetch_count(*worker, 2);
    ASSERT_EQ(got.size(), 2U);
    const std::vector<Ticket> kept{got[0].ticket};

    // The others hand nothing on from a consumer that is there: Kafka needs no word at all, RabbitMQ heartbeats.
    const bool needs_keep = is("nats") || is("redis");
    if (needs_keep) {
        EXPECT_GT(worker->keep_every(), Duration{0});
        EXPECT_LT(worker->keep_every(), tuning.redeliver_after);
    } else if (is("kafka")) {
        EXPECT_EQ(worker->keep_every(), Duration{0});
    }
    const auto other = needs_keep ? open(topic, tuning) : nullptr;
    Bodies again;
    std::vector<Ticket> stale;
    const auto until = steady_clock::now() + 3 * tuning.redeliver_after;
    while (steady_clock::now() < until) {
        EXPECT_TRUE(worker->keep(kept).ok());
        for (Source* source : {worker.get(), other.get()}) {
            if (source == nullptr) continue;
            const auto fetched = source->fetch(10, milliseconds{100});
            ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
            again.merge(bodies(*fetched));
            EXPECT_TRUE(source->acknowledge(tickets(*fetched)).ok());
        }
        for (const Ticket ticket : worker->taken_away()) stale.push_back(ticket);
    }
    EXPECT_EQ(again, needs_keep ? Bodies{got[1].message.body} : Bodies{});
    EXPECT_EQ(std::ranges::count(stale, kept[0]), 0);
    EXPECT_TRUE(worker->acknowledge(tickets(got)).ok());
    worker->close();
    if (other) other->close();
    expect_nothing_left(topic);
}

// ---- trouble ---------------------------------------------------------------------------------------------------

TEST_P(SourceConformance, AnAddressWhereNobodyAnswersIsUnavailable) {
    const std::map<std::string_view, std::unique_ptr<Broker> (*)(std::string)> makers{
        {"kafka", make_kafka}, {"rabbitmq", make_rabbitmq}, {"nats", make_nats}, {"redis", make_redis}};
    const std::map<std::string_view, std::string> addresses{{"kafka", "127.0.0.1:1"},
                                                            {"rabbitmq", "amqp://guest:guest@127.0.0.1:1/"},
                                                            {"nats", "nats://127.0.0.1:1"},
                                                            {"redis", "redis://:s3cret@127.0.0.1:1"}};
    const auto nobody = makers.at(GetParam())(addresses.at(GetParam()));
    const auto source = nobody->open("source-nobody", "group", Tuning{});
    for (int count = 0; count < 2; ++count) {
        const auto deadline = steady_clock::now() + patience;
        auto fetched = source->fetch(1, milliseconds{100});
        while (fetched.ok() && steady_clock::now() < deadline) fetched = source->fetch(1, milliseconds{100});
        ASSERT_FALSE(fetched.ok());
        EXPECT_EQ(fetched.failure().code, Code::unavailable);
        EXPECT_NE(fetched.failure().message.find("127.0.0.1:1"), std::string::npos) << fetched.failure().message;
        EXPECT_EQ(fetched.failure().message.find("s3cret"), std::string::npos) << fetched.failure().message;
    }
    const auto began = steady_clock::now();
    source->close();
    EXPECT_LE(steady_clock::now() - began, seconds{10});
}

TEST_P(SourceConformance, AMissingTopicIsRefusedOrMade) {
    const std::string topic = unique_name("source-missing");
    const auto source = open(topic);
    const bool made = is("redis") || is("rabbitmq");
    const auto deadline = steady_clock::now() + (made ? milliseconds{1000} : milliseconds{patience});
    auto fetched = source->fetch(1, milliseconds{100});
    while (fetched.ok() && steady_clock::now() < deadline) fetched = source->fetch(1, milliseconds{100});
    if (made) {
        ASSERT_TRUE(fetched.ok()) << fetched.failure().message;
        topics_.push_back(topic);
        publish(topic, message("k0", "first"));
        EXPECT_EQ(fetch_count(*source, 1).size(), 1U);
    } else {
        ASSERT_FALSE(fetched.ok());
        EXPECT_EQ(fetched.failure().code, Code::invalid) << fetched.failure().message;
        EXPECT_NE(fetched.failure().message.find(topic), std::string::npos) << fetched.failure().message;
        const std::string_view setting = is("kafka") ? "topics" : "stream";
        EXPECT_NE(fetched.failure().message.find(setting), std::string::npos) << fetched.failure().message;
        const auto again = source->fetch(1, milliseconds{100});
        ASSERT_FALSE(again.ok()) << "it is still missing";
        EXPECT_EQ(again.failure().code, Code::invalid);
    }
    source->close();
}

}  // namespace
}  // namespace semel::test
