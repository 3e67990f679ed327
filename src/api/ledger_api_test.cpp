#include "api/ledger_api.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "stores/memory/memory_store.hpp"

namespace semel::api {
namespace {

constexpr std::string_view token = "a token of sixteen characters or more";

/// A store whose commits wait until they are let through.
class GatedStore final : public Store {
public:
    class Gated final : public Session {
    public:
        Gated(GatedStore& store, std::unique_ptr<Session> inner) : store_(store), inner_(std::move(inner)) {}
        Result<Executed> execute(std::span<const Group> groups) override {
            store_.pass();
            return inner_->execute(groups);
        }

    private:
        GatedStore& store_;
        std::unique_ptr<Session> inner_;
    };

    Result<std::unique_ptr<Session>> session() override {
        return std::unique_ptr<Session>(std::make_unique<Gated>(*this, std::move(*memory.session())));
    }
    [[nodiscard]] std::size_t sessions_max() const override { return 1; }
    Result<std::optional<Record>> find(const OperationId& id) override { return memory.find(id); }
    Result<Page> list(const Filter& filter, const std::string& cursor, std::size_t limit) override {
        return memory.list(filter, cursor, limit);
    }
    Result<Swept> sweep(std::size_t limit, bool accept) override { return memory.sweep(limit, accept); }
    Result<TimePoint> now() override { return memory.now(); }
    [[nodiscard]] std::string text() const override { return memory.text(); }

    void shut() {
        const std::lock_guard lock(mutex_);
        open_ = false;
    }
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    /// Waits until a commit stands before the gate.
    void wait_for_one() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return standing_; });
    }

    MemoryStore memory{[] { return time_from_micros(1'700'000'000'000'000); }};

private:
    void pass() {
        std::unique_lock lock(mutex_);
        standing_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return open_; });
        standing_ = false;
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = true;       // guarded by mutex_
    bool standing_ = false;  // guarded by mutex_
};

class LedgerApiTest : public testing::Test {
protected:
    LedgerApiTest() {
        LedgerApiOptions options;
        options.tokens.push_back({std::string(token), "orders", "acme", {.hold = true}});
        committer_ = std::move(*Committer::start(store_));
        api_ = std::make_unique<LedgerApi>(*committer_, options);
    }
    ~LedgerApiTest() override {
        store_.open();
        committer_.reset();
    }

    /// What the committer still has to do is done.
    void finish() {
        store_.open();
        committer_.reset();
    }

    http::RequestReader read(std::string_view method, std::string_view path, std::string_view authorization) {
        http::RequestReader reader;
        std::string head = fmt::format("{} {} HTTP/1.1\r\nHost: x\r\n", method, path);
        if (!authorization.empty()) head += fmt::format("Authorization: {}\r\n", authorization);
        reader.feed(head + "\r\n");
        EXPECT_EQ(reader.progress(), http::Progress::done);
        return reader;
    }

    std::unique_ptr<http::Pending> ask(std::string_view path, std::string body) {
        const http::RequestReader reader = read("POST", path, fmt::format("Bearer {}", token));
        heard_ = std::promise<http::MakeReply>();
        return api_->answer(reader.head(), std::move(body),
                            [this](http::MakeReply make) { heard_.set_value(std::move(make)); });
    }
    static std::string token_of(const std::string& claimed) {
        const auto at = claimed.find("\"token\":\"") + 9;
        return claimed.substr(at, claimed.find('"', at) - at);
    }
    http::Reply hear() { return heard_.get_future().get()(); }

    std::optional<State> state(std::string_view key = "k") {
        const auto found = store_.find(Operation{*Scope::make("acme", "s"), *Key::parse(std::string(key))}.id());
        return *found ? std::optional((*found)->state) : std::nullopt;
    }

    int admitted(std::string_view method, std::string_view path, std::string_view authorization) {
        const http::RequestReader reader = read(method, path, authorization);
        auto answer = api_->admit(reader.head());
        return std::holds_alternative<http::Reply>(answer) ? std::get<http::Reply>(answer).status : 0;
    }

    GatedStore store_;
    std::unique_ptr<LedgerApi> api_;
    std::unique_ptr<Committer> committer_;
    std::promise<http::MakeReply> heard_;
};

constexpr std::string_view plain = R"({"scope":"s","key":"k","request":1})";
constexpr std::string_view named =
    R"({"scope":"s","key":"k","request":1,"attempt":"00112233445566778899aabbccddeeff"})";

TEST_F(LedgerApiTest, AHeadIsJudgedBeforeItsBodyIsRead) {
    const std::string good = fmt::format("Bearer {}", token);
    EXPECT_EQ(admitted("POST", "/v1/claim", good), 0);
    EXPECT_EQ(admitted("POST", "/v1/claim", fmt::format("bearer {}", token)), 0);
    EXPECT_EQ(admitted("POST", "/v1/claim", ""), 401);
    EXPECT_EQ(admitted("POST", "/v1/claim", std::string(token)), 401);
    EXPECT_EQ(admitted("POST", "/v1/claim", good + "x"), 401);
    EXPECT_EQ(admitted("POST", "/v1/claim", good.substr(0, good.size() - 1)), 401);
    EXPECT_EQ(admitted("POST", "/v1/claim", "Bearer "), 401);
    EXPECT_EQ(admitted("POST", "/v1/claim", fmt::format("Basic {}", token)), 401);
    EXPECT_EQ(admitted("POST", "/v1/nothing", ""), 401);
    EXPECT_EQ(admitted("POST", "/v1/nothing", good), 404);
    EXPECT_EQ(admitted("POST", "/v1/claim/", good), 404);
    EXPECT_EQ(admitted("POST", "/v1/", good), 404);
    EXPECT_EQ(admitted("POST", "/v1/Claim", good), 404);
    EXPECT_EQ(admitted("POST", "/v1/%63laim", good), 404);
    EXPECT_EQ(admitted("POST", "/v1/../v1/claim", good), 404);
    EXPECT_EQ(admitted("GET", "/v1/claim", good), 405);
    EXPECT_EQ(admitted("DELETE", "/v1/operations", good), 405);
    EXPECT_EQ(admitted("GET", "/v1/openapi.yaml", ""), 0);
}

TEST_F(LedgerApiTest, AGrantThatNobodyWaitsForIsReleased) {
    store_.shut();
    const auto pending = ask("/v1/claim", std::string(plain));
    store_.wait_for_one();
    const auto reply = pending->give_up();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 503);
    EXPECT_FALSE(pending->give_up()) << "once is enough";
    finish();
    EXPECT_EQ(state(), std::nullopt);
}

TEST_F(LedgerApiTest, AGrantWhoseAttemptIsNamedStaysForItsRepetition) {
    store_.shut();
    const auto pending = ask("/v1/claim", std::string(named));
    store_.wait_for_one();
    const auto reply = pending->give_up();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 503);
    EXPECT_NE(reply->body.find("repeat the very same command"), std::string::npos);
    finish();
    EXPECT_EQ(state(), State::running);
}

TEST_F(LedgerApiTest, AGrantThatCouldNotBeWrittenIsReleased) {
    const auto pending = ask("/v1/claim", std::string(plain));
    http::Reply reply = hear();
    EXPECT_EQ(reply.status, 201);
    EXPECT_EQ(state(), State::running);
    ASSERT_TRUE(reply.undelivered);
    reply.undelivered();
    finish();
    EXPECT_EQ(state(), std::nullopt);
}

TEST_F(LedgerApiTest, AGrantWhoseAttemptIsNamedIsNotReleasedWhenItCouldNotBeWritten) {
    const auto pending = ask("/v1/claim", std::string(named));
    http::Reply reply = hear();
    EXPECT_EQ(reply.status, 201);
    EXPECT_FALSE(reply.undelivered);
}

TEST_F(LedgerApiTest, AGrantIsReleasedWhenTheListenerEnds) {
    store_.shut();
    auto pending = ask("/v1/claim", std::string(plain));
    store_.wait_for_one();
    pending.reset();
    finish();
    EXPECT_EQ(state(), std::nullopt);
}

TEST_F(LedgerApiTest, ASettleThatNobodyWaitsForIsDone) {
    auto pending = ask("/v1/claim", std::string(named));
    const std::string number = token_of(hear().body);
    store_.shut();
    pending = ask("/v1/settle",
                  fmt::format(R"({{"scope":"s","key":"k","token":"{}","attempt":"{}","outcome":{{"status":1}}}})",
                              number, "00112233445566778899aabbccddeeff"));
    store_.wait_for_one();
    EXPECT_EQ(pending->give_up()->status, 503);
    finish();
    EXPECT_EQ(state(), State::settled);
}

TEST_F(LedgerApiTest, ABatchGivesUpItsGrantsAndTellsWhatIsKnown) {
    store_.shut();
    auto pending = ask("/v1/batch", R"({"groups":[[{"command":"claim","scope":"s","key":"a","request":1}],
        [{"command":"claim","scope":"s","key":"b","request":1,"attempt":"00112233445566778899aabbccddeeff"}]]})");
    store_.wait_for_one();
    const auto reply = pending->give_up();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 200);
    EXPECT_EQ(reply->body.find("{\"groups\":[[{\"status\":503,"), 0U);
    finish();
    EXPECT_EQ(state("a"), std::nullopt);
}

TEST_F(LedgerApiTest, AGroupThatNobodyWaitsForMayHaveBeenDoneButForItsGrants) {
    auto pending = ask("/v1/claim", std::string(named));
    const std::string number = token_of(hear().body);
    store_.shut();
    pending = ask("/v1/batch", fmt::format(R"({{"groups":[[
        {{"command":"settle","scope":"s","key":"k","token":"{}","attempt":"00112233445566778899aabbccddeeff",
          "outcome":{{"status":1}}}},
        {{"command":"claim","scope":"s","key":"next","request":1}}]]}})",
                                           number));
    store_.wait_for_one();
    const auto reply = pending->give_up();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->body.find("nothing was done"), std::string::npos) << reply->body;
    EXPECT_NE(reply->body.find("it may have been done; repeat the very same command"), std::string::npos);
    EXPECT_NE(reply->body.find("a grant that is nobody's may exist until its lease ends"), std::string::npos);
    finish();
    EXPECT_EQ(state("k"), State::settled);
    EXPECT_EQ(state("next"), std::nullopt);
}

TEST_F(LedgerApiTest, WhatIsAnsweredIsCounted) {
    const auto pending = ask("/v1/claim", std::string(plain));
    static_cast<void>(hear());
    EXPECT_NE(api_->metrics().find("semel_api_answers_total{command=\"claim\",answer=\"claimed\"} 1\n"),
              std::string::npos);
}

}  // namespace
}  // namespace semel::api
