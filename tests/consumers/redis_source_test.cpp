// What only Redis Streams do: trimmed entries, names of consumers, somebody else's hands on the stream.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "broker.hpp"
#include "consumers/redis/wire.hpp"
#include "semel/redis.hpp"

namespace semel::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

class RedisSource : public testing::Test {
protected:
    void SetUp() override {
        const char* url = std::getenv("SEMEL_TEST_REDIS");
        ASSERT_NE(url, nullptr) << "SEMEL_TEST_REDIS is not set: run this under tests/servers/with-servers";
        url_ = url;
        std::array<unsigned char, 6> bytes{};
        SystemRandom{}.fill(bytes);
        stream_ = "redis-source-" + to_hex(bytes);
        auto wire = redis::Wire::begin(redis::parse_address(url_).value());
        ASSERT_TRUE(wire.ok());
        wire_ = std::move(wire).value();
    }
    void TearDown() override {
        if (wire_) ask({"DEL", stream_});
    }

    redis::Reply ask(const std::vector<std::string_view>& command) {
        EXPECT_TRUE(wire_->send(command).ok());
        auto reply = wire_->next(steady_clock::now() + seconds{10});
        EXPECT_TRUE(reply.ok() && reply->has_value());
        return *std::move(*reply);
    }
    std::string add(std::string_view data) {
        return std::string(redis::text_of(*ask({"XADD", stream_, "*", "data", data})));
    }
    /// Ends the connections whose line in CLIENT LIST has this word, but for this one. Returns how many.
    int kill_clients_of(std::string_view word) {
        const std::string own = std::to_string(ask({"CLIENT", "ID"})->integer);
        std::istringstream lines{std::string(redis::text_of(*ask({"CLIENT", "LIST"})))};
        int killed = 0;
        for (std::string line; std::getline(lines, line);) {
            const std::string id = line.substr(3, line.find(' ') - 3);  // id=7 addr=…
            if (id == own || line.find(' ' + std::string(word) + ' ') == std::string::npos) continue;
            ask({"CLIENT", "KILL", "ID", id});
            ++killed;
        }
        return killed;
    }
    std::int64_t pending() {
        const auto reply = ask({"XPENDING", stream_, "group"});
        return reply->type == REDIS_REPLY_ARRAY ? reply->element[0]->integer : -1;
    }

    redis::Options options() {
        redis::Options out;
        out.url = url_;
        out.stream = stream_;
        out.group = "group";
        out.idle_max = milliseconds{300};
        return out;
    }
    static std::unique_ptr<Source> open(redis::Options options) {
        auto source = redis::open(std::move(options));
        EXPECT_TRUE(source.ok());
        return std::move(source).value();
    }
    /// The next failure of fetch, or nothing.
    static std::optional<Failure> failure_of(Source& source, seconds within) {
        const auto deadline = steady_clock::now() + within;
        while (steady_clock::now() < deadline) {
            auto fetched = source.fetch(10, milliseconds{50});
            if (!fetched) return fetched.failure();
        }
        return std::nullopt;
    }
    static std::vector<Delivery> fetch(Source& source, std::size_t count, std::size_t limit = 100) {
        std::vector<Delivery> out;
        const auto deadline = steady_clock::now() + seconds{10};
        while (out.size() < count && steady_clock::now() < deadline) {
            auto fetched = source.fetch(limit, milliseconds{50});
            if (!fetched) continue;
            for (Delivery& delivery : *fetched) out.push_back(std::move(delivery));
        }
        EXPECT_EQ(out.size(), count);
        return out;
    }

    std::string url_;
    std::string stream_;
    std::optional<redis::Wire> wire_;
};

TEST_F(RedisSource, AnEntryThatWasTrimmedBeforeItWasHandledIsReportedOnceByName) {
    const std::string id = add("first");
    const auto dead = open(options());
    fetch(*dead, 1);
    ask({"XTRIM", stream_, "MAXLEN", "0"});
    const auto source = open(options());
    const auto failure = failure_of(*source, seconds{5});
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->code, Code::corrupt);
    EXPECT_NE(failure->message.find(stream_ + "@" + id), std::string::npos) << failure->message;
    EXPECT_FALSE(failure_of(*source, seconds{1}).has_value());
    EXPECT_EQ(pending(), 0);
}

TEST_F(RedisSource, AnEntryThatWasTrimmedInWorkIsReportedByItsWorkerAndCanBeFinished) {
    const std::string id = add("first");
    const auto source = open(options());
    const auto got = fetch(*source, 1);
    ASSERT_EQ(got.size(), 1U);
    ask({"XTRIM", stream_, "MAXLEN", "0"});
    const std::vector<Ticket> ticket{got[0].ticket};
    EXPECT_TRUE(source->keep(ticket).ok());
    const auto failure = failure_of(*source, seconds{5});
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->code, Code::corrupt);
    EXPECT_NE(failure->message.find(stream_ + "@" + id), std::string::npos) << failure->message;
    EXPECT_TRUE(source->acknowledge(ticket).ok());
    EXPECT_TRUE(source->flush(seconds{5}).ok());
    EXPECT_FALSE(failure_of(*source, seconds{1}).has_value());
}

TEST_F(RedisSource, ALostConnectionTakesNothingAwayAndBringsNothingTwice) {
    // In a database of its own, by which its connections are known: other tests use the same server.
    ask({"SELECT", "9"});
    for (int count = 0; count < 20; ++count) add(std::to_string(count));
    auto quiet = options();
    quiet.url += "/9";
    quiet.idle_max = seconds{60};
    const auto source = open(quiet);
    const auto first = fetch(*source, 10, 10);
    EXPECT_GT(kill_clients_of("db=9"), 0);
    EXPECT_TRUE(source->acknowledge(std::vector<Ticket>{first[0].ticket}).ok());
    const auto rest = fetch(*source, 10);  // the other ten only
    std::set<std::string> bodies;
    for (const auto* part : {&first, &rest}) {
        for (const Delivery& delivery : *part) bodies.insert(delivery.message.body);
    }
    EXPECT_EQ(bodies.size(), 20U);
    EXPECT_TRUE(source->taken_away().empty());
    for (const auto* part : {&first, &rest}) {
        for (const Delivery& delivery : *part)
            EXPECT_TRUE(source->acknowledge(std::vector<Ticket>{delivery.ticket}).ok());
    }
    EXPECT_TRUE(source->flush(seconds{5}).ok());
    EXPECT_EQ(pending(), 0);
}

TEST_F(RedisSource, WhatAReplyThatNeverCameHeldIsReadAgain) {
    add("first");
    auto named = options();
    named.consumer = "worker";
    named.idle_max = seconds{60};
    // The same name read it before, and nobody heard of it.
    ask({"XGROUP", "CREATE", stream_, "group", "0"});
    ask({"XREADGROUP", "GROUP", "group", "worker", "STREAMS", stream_, ">"});
    const auto source = open(named);
    const auto got = fetch(*source, 1);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].message.body, "first");
    EXPECT_EQ(got[0].message.deliveries, 2U);
}

TEST_F(RedisSource, AMintedConsumerIsRemovedWithoutItsEntries) {
    add("first");
    add("second");
    const auto source = open(options());
    const auto got = fetch(*source, 2);
    EXPECT_TRUE(source->acknowledge(std::vector<Ticket>{got[0].ticket}).ok());
    source->close();
    EXPECT_EQ(pending(), 1);
    const auto consumers = ask({"XINFO", "CONSUMERS", stream_, "group"});
    ASSERT_EQ(consumers->elements, 1U);
    EXPECT_EQ(redis::text_of(*consumers->element[0]->element[1]), "semel-given-back");
}

TEST_F(RedisSource, AGroupThatSomebodyRemovedIsMadeAgainFromTheBeginning) {
    add("first");
    const auto source = open(options());
    const auto got = fetch(*source, 1);
    ask({"XGROUP", "DESTROY", stream_, "group"});
    const auto again = fetch(*source, 1);
    ASSERT_EQ(again.size(), 1U);
    EXPECT_EQ(again[0].message.body, "first");
    ask({"DEL", stream_});
    add("second");
    EXPECT_EQ(fetch(*source, 1)[0].message.body, "second");
}

TEST_F(RedisSource, AKeyThatIsNoStreamIsRefused) {
    ask({"SET", stream_, "text"});
    const auto source = open(options());
    const auto failure = failure_of(*source, seconds{5});
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->code, Code::invalid);
    EXPECT_NE(failure->message.find("(stream)"), std::string::npos) << failure->message;
}

TEST_F(RedisSource, PasswordAndDatabaseAreUsed) {
    // A user of this test's own, who may do what a source needs and nothing else.
    ask({"ACL", "SETUSER", stream_, "reset", "on", ">s3cret", "~" + stream_, "+@stream", "+eval", "+select"});
    const auto with = [&](const std::string& credentials) {
        auto out = options();
        out.url = "redis://" + credentials + "@" + url_.substr(url_.find("://") + 3) + "/1";
        return out;
    };
    const auto refused = open(with(stream_ + ":wrong"));
    const auto failure = failure_of(*refused, seconds{5});
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(failure->code, Code::invalid);
    EXPECT_NE(failure->message.find("(url)"), std::string::npos) << failure->message;
    EXPECT_EQ(failure->message.find("wrong"), std::string::npos) << failure->message;

    add("in database 0");
    ask({"SELECT", "1"});
    add("in database 1");
    const auto source = open(with(stream_ + ":s3cret"));
    EXPECT_EQ(fetch(*source, 1)[0].message.body, "in database 1");
    source->close();
    ask({"DEL", stream_});
    ask({"SELECT", "0"});
    ask({"ACL", "DELUSER", stream_});
}

}  // namespace
}  // namespace semel::test
