#include "semel/client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/bytes.hpp"
#include "curl/test_server.hpp"

namespace semel::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using State = IntentRecord::State;

constexpr std::string_view created =
    "HTTP/1.1 201 Created\r\nSet-Cookie: a=b\r\nX-A: 1\r\nContent-Length: 4\r\n\r\nmade";
constexpr std::string_view unavailable = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";

constexpr std::string_view half = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";

/// Answers one request after the other as the list says, the last for ever. Closes after half an answer, or none.
class Scripted {
public:
    explicit Scripted(std::vector<std::string_view> answers)
        : answers_(std::move(answers)), server_([this](int socket, int) {
              while (true) {
                  std::string request = read_request(socket);
                  if (request.empty()) return;
                  const std::lock_guard lock(mutex_);
                  const std::string_view answer = answers_[std::min(requests_.size(), answers_.size() - 1)];
                  requests_.push_back(std::move(request));
                  write(socket, answer);
                  if (answer.empty() || answer == half) return;
              }
          }) {}
    [[nodiscard]] std::string url() const { return server_.url(); }
    std::vector<std::string> requests() {
        const std::lock_guard lock(mutex_);
        return requests_;
    }

private:
    std::mutex mutex_;
    std::vector<std::string_view> answers_;
    std::vector<std::string> requests_{};  // guarded by mutex_
    TestServer server_;
};

Options quick() {
    Options options;
    options.retry = {
        .budget = seconds{20}, .tries_max = 10, .backoff_first = milliseconds{1}, .backoff_max = milliseconds{5}};
    return options;
}

HttpRequest pay(const std::string& url, std::string body = "{}") {
    return {.url = url, .fields = {{"Content-Type", "application/json"}}, .body = std::move(body)};
}

std::string key_line(const Report& report) { return "\r\nIdempotency-Key: \"" + report.key.text() + "\"\r\n"; }

TEST(Client, EveryTryCarriesTheSameKeyAndTheSameBytes) {
    Scripted server({"", unavailable, half, created});
    const auto journal = memory_journal();
    auto client = Client::open(quick()).value();
    const auto report = client.call(pay(server.url(), R"({"amount":7})"), "a", *journal);
    ASSERT_TRUE(report) << report.failure().message;
    EXPECT_EQ(std::get<Succeeded>(report->outcome).answer.body, "made");
    EXPECT_EQ(report->tries, 3u + 1u);
    const auto requests = server.requests();
    ASSERT_EQ(requests.size(), 4u);
    for (const std::string& each : requests) {
        EXPECT_EQ(each, requests.front());
        EXPECT_THAT(each, HasSubstr(key_line(*report)));
        EXPECT_TRUE(each.ends_with(R"({"amount":7})"));
    }
}

TEST(Client, WhatIsDoneIsToldFromTheJournal) {
    Scripted server({created});
    const auto journal = memory_journal();
    auto client = Client::open(quick()).value();
    const auto first = client.call(pay(server.url()), "a", *journal);
    const auto second = client.call(pay(server.url()), "a", *journal);
    EXPECT_FALSE(first->recorded);
    EXPECT_TRUE(second->recorded);
    EXPECT_EQ(second->tries, 0u);
    EXPECT_EQ(second->key, first->key);
    const HttpAnswer& told = std::get<Succeeded>(second->outcome).answer;
    EXPECT_EQ(told.body, "made");
    EXPECT_EQ(told.value("x-a"), "1");
    EXPECT_EQ(told.value("Set-Cookie"), std::nullopt);
    EXPECT_EQ(server.requests().size(), 1u);
    const auto other = client.call(pay(server.url()), "b", *journal);
    EXPECT_NE(other->key, first->key);
}

TEST(Client, ABodyThatIsNotStoredIsNotTold) {
    Scripted server({created});
    const auto journal = memory_journal();
    Options options = quick();
    options.store_body = false;
    auto client = Client::open(options).value();
    EXPECT_EQ(std::get<Succeeded>(client.call(pay(server.url()), "a", *journal)->outcome).answer.body, "made");
    const auto again = client.call(pay(server.url()), "a", *journal);
    EXPECT_EQ(std::get<Succeeded>(again->outcome).answer.body, "");
    EXPECT_FALSE(std::get<Succeeded>(again->outcome).answer.whole);
}

TEST(Client, AnotherRunRepeatsTheSameOperation) {
    Scripted server({unavailable, unavailable, created});
    const auto journal = memory_journal();
    Options options = quick();
    options.retry.tries_max = 2;
    const auto first = Client::open(options).value().call(pay(server.url()), "a", *journal);
    EXPECT_TRUE(std::get<GaveUp>(first->outcome).may_have_executed);
    HttpRequest with_a_new_credential = pay(server.url());
    with_a_new_credential.fields.push_back({"Authorization", "Bearer 2"});
    const auto second = Client::open(options).value().call(with_a_new_credential, "a", *journal);
    EXPECT_TRUE(std::holds_alternative<Succeeded>(second->outcome));
    EXPECT_EQ(second->key, first->key);
    for (const std::string& each : server.requests()) EXPECT_THAT(each, HasSubstr(key_line(*first)));
    EXPECT_EQ(journal->hold("a").value()->record()->tries, 3u);
}

TEST(Client, AnotherRequestUnderTheSameIntentIsNotSent) {
    Scripted server({unavailable});
    const auto journal = memory_journal();
    Options options = quick();
    options.retry.tries_max = 1;
    auto client = Client::open(options).value();
    ASSERT_TRUE(client.call(pay(server.url()), "a", *journal));
    HttpRequest other = pay(server.url() + "/other", "[]");
    other.method = "PUT";
    other.fields = {};
    const auto refused = client.call(other, "a", *journal);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().code, Code::invalid);
    for (const std::string_view what :
         {"the method was \"POST\" and is \"PUT\"", "the URL was", "/orders/other\"", "the body is another one",
          "the content type was \"application/json\" and is \"\"", "nothing was sent"})
        EXPECT_THAT(refused.failure().message, HasSubstr(what));
    const auto query = client.call(pay(server.url() + "?token=secret"), "a", *journal);
    EXPECT_THAT(query.failure().message, HasSubstr("the URL's query is another one"));
    EXPECT_THAT(query.failure().message, Not(HasSubstr("secret")));
    EXPECT_EQ(server.requests().size(), 1u);
}

TEST(Client, AKeyIsWrittenTheSameInEveryRun) {
    Scripted server({unavailable});
    const auto journal = memory_journal();
    Options options = quick();
    options.retry.tries_max = 1;
    ASSERT_TRUE(Client::open(options).value().call(pay(server.url()), "a", *journal));
    Options other = options;
    other.key_header = "PayPal-Request-Id";
    EXPECT_THAT(Client::open(other).value().call(pay(server.url()), "a", *journal).failure().message,
                HasSubstr(R"(the key's header was "Idempotency-Key" and is "PayPal-Request-Id"; nothing was sent)"));
    Options bare = options;
    bare.bare_key = true;
    EXPECT_THAT(Client::open(bare).value().call(pay(server.url()), "a", *journal).failure().message,
                HasSubstr("the key was written in quotes and now is not; nothing was sent"));
    EXPECT_EQ(server.requests().size(), 1u);
    Options same = options;
    same.key_header = "idempotency-key";
    EXPECT_TRUE(Client::open(same).value().call(pay(server.url()), "a", *journal)) << "names of headers have no case";
}

TEST(Client, WhatWasSurelyNotExecutedIsRemembered) {
    const UnservedPort nobody;
    const auto journal = memory_journal();
    Options options = quick();
    options.retry.tries_max = 2;
    auto client = Client::open(options).value();
    for (int run = 0; run < 2; ++run) {
        const auto report = client.call(pay(nobody.url()), "a", *journal);
        EXPECT_FALSE(std::get<GaveUp>(report->outcome).may_have_executed) << run;
        EXPECT_EQ(journal->hold("a").value()->record()->state, State::not_executed);
    }
}

IntentRecord begun(Key key, const HttpRequest& request) {
    return {.key = std::move(key),
            .method = "POST",
            .url = request.url,
            .content_type = "application/json",
            .body_sha256 = to_hex(sha256(request.body)),
            .state = State::begun};
}

TEST(Client, AfterACrashNobodyKnowsWhetherItWasSent) {
    const UnservedPort nobody;
    const auto journal = memory_journal();
    const HttpRequest request = pay(nobody.url());
    const Key key = Key::parse("k1").value();
    EXPECT_TRUE(journal->hold("a").value()->save(begun(key, request)));
    Options options = quick();
    options.retry.tries_max = 1;
    const auto report = Client::open(options).value().call(request, "a", *journal);
    ASSERT_TRUE(report) << report.failure().message;
    EXPECT_EQ(report->key, key);
    EXPECT_TRUE(std::get<GaveUp>(report->outcome).may_have_executed);
    EXPECT_EQ(journal->hold("a").value()->record()->state, State::begun);
}

/// Fails to save: always, or from the second time on.
class FailingJournal final : public Journal {
public:
    explicit FailingJournal(int saves, std::optional<IntentRecord> record = {})
        : left_(saves), record_(std::move(record)) {}
    Result<std::unique_ptr<HeldIntent>> hold(std::string_view) override {
        return std::unique_ptr<HeldIntent>(std::make_unique<Held>(left_, record_));
    }
    Result<bool> forget(std::string_view) override { return false; }

private:
    class Held final : public HeldIntent {
    public:
        Held(int& left, std::optional<IntentRecord> record) : left_(left), record_(std::move(record)) {}
        [[nodiscard]] const std::optional<IntentRecord>& record() const override { return record_; }
        Status save(const IntentRecord&) override {
            if (left_-- > 0) return Done{};
            return Failure{Code::exhausted, "journal: the disk is full"};
        }

    private:
        int& left_;
        std::optional<IntentRecord> record_;
    };
    int left_;
    std::optional<IntentRecord> record_;
};

TEST(Client, NothingIsSentBeforeTheKeyIsDurable) {
    Scripted server({created});
    FailingJournal journal(0);
    const auto report = Client::open(quick()).value().call(pay(server.url()), "a", journal);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.failure().code, Code::exhausted);
    EXPECT_EQ(report.failure().message, "journal: the disk is full; nothing was sent");
    EXPECT_TRUE(server.requests().empty());
}

TEST(Client, WhatIsFoundBegunIsMadeDurableBeforeItIsSent) {
    Scripted server({created});
    FailingJournal journal(0, begun(Key::parse("k1").value(), pay(server.url())));
    const auto report = Client::open(quick()).value().call(pay(server.url()), "a", journal);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.failure().message, "journal: the disk is full; nothing was sent");
    EXPECT_TRUE(server.requests().empty());
}

TEST(Client, AnAnswerThatCannotBeRecordedIsToldNevertheless) {
    Scripted server({created});
    FailingJournal journal(1);
    const auto report = Client::open(quick()).value().call(pay(server.url()), "a", journal);
    ASSERT_TRUE(report);
    EXPECT_TRUE(std::holds_alternative<Succeeded>(report->outcome));
    EXPECT_EQ(report->not_recorded, "journal: the disk is full");
}

TEST(Client, ARefusalThatTheWorldCanChangeIsAskedForAgain) {
    Scripted server({"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", created});
    const auto journal = memory_journal();
    auto client = Client::open(quick()).value();
    const auto first = client.call(pay(server.url()), "a", *journal);
    EXPECT_EQ(std::get<Refused>(first->outcome).answer.status, 401);
    EXPECT_TRUE(std::holds_alternative<Succeeded>(client.call(pay(server.url()), "a", *journal)->outcome));
}

TEST(Client, ARefusalDoesNotEndWhatAnEarlierTryMayHaveDone) {
    for (const std::string_view no :
         {"HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n"}) {
        Scripted server({"", no, created});
        const auto journal = memory_journal();
        auto client = Client::open(quick()).value();
        const auto first = client.call(pay(server.url()), "a", *journal);
        EXPECT_TRUE(std::get<Refused>(first->outcome).doubt);
        EXPECT_EQ(journal->hold("a").value()->record()->state, State::begun);
        const auto second = client.call(pay(server.url()), "a", *journal);
        EXPECT_TRUE(std::holds_alternative<Succeeded>(second->outcome));
        EXPECT_EQ(second->key, first->key);
    }
}

TEST(Client, WritesTheKeyAsItIsAskedTo) {
    Scripted server({created});
    Options options = quick();
    options.key_header = "PayPal-Request-Id";
    options.bare_key = true;
    auto client = Client::open(options).value();
    ASSERT_TRUE(client.call(pay(server.url()), Key::parse("k1").value()));
    EXPECT_THAT(server.requests().at(0), HasSubstr("\r\nPayPal-Request-Id: k1\r\n"));
    EXPECT_THAT(server.requests().at(0), Not(HasSubstr("Idempotency-Key")));
    EXPECT_THAT(client.call(pay(server.url()), Key::parse("k 1").value()).failure().message,
                HasSubstr("without quotes"));
}

TEST(Client, StopsWhileItWaits) {
    std::stop_source stop;
    const TestServer server([&](int socket, int) {
        read_request(socket);
        write(socket, "HTTP/1.1 503 No\r\nRetry-After: 15\r\nContent-Length: 0\r\n\r\n");
        wait_for_end(socket);
    });
    const auto journal = memory_journal();
    auto client = Client::open(quick()).value();
    std::jthread stopper([&] { stop.request_stop(); });
    const auto report = client.call(pay(server.url()), "a", *journal, stop.get_token());
    EXPECT_EQ(std::get<GaveUp>(report->outcome).why, "it was asked to stop");
}

TEST(Client, RequestsAndOptionsAreChecked) {
    const auto journal = memory_journal();
    auto client = Client::open(quick()).value();
    const struct {
        HttpRequest request;
        std::string_view why;
    } rows[] = {{{.url = "ftp://h/"}, "neither http:// nor https://"},
                {{.url = "http://u:p@h/"}, "user name"},
                {{.url = "http://h/#f"}, "URL"},
                {{.method = "HEAD", .url = "http://h/"}, "method \"HEAD\""},
                {{.method = "PO ST", .url = "http://h/"}, "method"},
                {{.method = "", .url = "http://h/"}, "method"},
                {{.url = "http://h/", .fields = {{"Host", "x"}}}, "it comes from the URL"},
                {{.url = "http://h/", .fields = {{"idempotency-key", "x"}}}, "the client writes the key itself"},
                {{.url = "http://h/", .fields = {{"X", "a\r\nb"}}}, "control character"},
                {{.url = "http://h/", .fields = {{"Content-Length", "1"}}}, "Content-Length"},
                {{.url = "http://h/", .fields = {{"Transfer-Encoding", "chunked"}}}, "Transfer-Encoding"}};
    for (const auto& row : rows) {
        const auto report = client.call(row.request, "a", *journal);
        ASSERT_FALSE(report) << row.why;
        EXPECT_EQ(report.failure().code, Code::invalid);
        EXPECT_THAT(report.failure().message, HasSubstr(row.why));
    }
    EXPECT_EQ(journal->hold("a").value()->record(), std::nullopt) << "nothing was begun";
    EXPECT_THAT(Client::open({.key_header = "a b"}).failure().message, HasSubstr("key header"));
    EXPECT_THAT(Client::open({.key_header = "Content-Length"}).failure().message, HasSubstr("key header"));
    EXPECT_THAT(Client::open({.retry = {.budget = {}}}).failure().message, HasSubstr("budget"));
    EXPECT_THAT(Client::open({.retry = {.budget = std::chrono::hours{200'000L * 24}}}).failure().message,
                HasSubstr("budget 200000d: must be longer than nothing, and 366d at most"));
    EXPECT_THAT(Client::open({.timeout = Duration::max()}).failure().message, HasSubstr("366d at most"));
    EXPECT_TRUE(Client::open({.retry = {.budget = patience_max}, .timeout = patience_max}));
    EXPECT_THAT(Client::open({.tls = {.ca = "/no/such.pem"}}).failure().message, HasSubstr("/no/such.pem"));
}

}  // namespace
}  // namespace semel::client
