// Every scenario passes on an API that is right, and each broken API fails where it is broken, for the right reason.
#include "verify/scenarios.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>
#include <set>

#include "support/temp_folder.hpp"
#include "verify/payments_api.hpp"

namespace semel::verify {
namespace {

using test::Behaviour;
using test::PaymentsApi;

class ApiCounter final : public Counter {
public:
    explicit ApiCounter(const PaymentsApi& api) : api_(api) {}
    Result<std::int64_t> count(const Intent&) override { return api_.effects(); }
    [[nodiscard]] bool per_intent() const override { return false; }

private:
    const PaymentsApi& api_;
};

Subject subject_for(const PaymentsApi& api) {
    Subject subject;
    subject.url = api.url();
    subject.headers = {{"Authorization", "Bearer tenant-a"}};
    subject.body = R"({"amount": 1000, "reference": "{{uuid}}"})";
    subject.other_tenant = {{"Authorization", "Bearer tenant-b"}};
    subject.error_headers = {{"X-Fail", "after"}};
    return subject;
}

Patience quick() {
    Patience patience;
    patience.retry_within = std::chrono::seconds(5);
    patience.count_within = std::chrono::milliseconds(300);
    patience.count_settle = std::chrono::milliseconds(20);
    return patience;
}

struct Runner {
    explicit Runner(Behaviour behaviour) : api(behaviour), subject(subject_for(api)) {}

    std::vector<Outcome> run(Counter* by) {
        const auto tls = Tls::make("");
        EXPECT_TRUE(tls);
        Probe probe(subject, patience, *tls, by);
        std::vector<const Scenario*> all;
        for (const Scenario& each : scenarios())
            if (only.empty() || only.contains(each.name)) all.push_back(&each);
        return verify::run(probe, all, [](const Scenario&, const Outcome*) {});
    }
    std::vector<Outcome> run() {
        ApiCounter counter(api);
        return run(&counter);
    }

    PaymentsApi api;
    Subject subject;
    Patience patience = quick();
    std::set<std::string_view> only;
};

std::string text_of(const Outcome& outcome) {
    std::string text(outcome.scenario->name);
    if (const auto* passed = std::get_if<Passed>(&outcome.verdict)) text += " passed: " + passed->note;
    if (const auto* other = std::get_if<NotApplicable>(&outcome.verdict)) text += " not applicable: " + other->why;
    if (const auto* failed = std::get_if<Failed>(&outcome.verdict))
        text += " failed: " + failed->reason + "; expected " + failed->expected + "; seen " + failed->seen;
    return text;
}

using Findings = std::map<std::string_view, Finding>;

Findings findings_of(const std::vector<Outcome>& outcomes) {
    Findings findings;
    for (const Outcome& each : outcomes) {
        if (const auto* failed = std::get_if<Failed>(&each.verdict))
            findings.emplace(each.scenario->name, failed->finding);
        else
            EXPECT_TRUE(std::holds_alternative<Passed>(each.verdict)) << text_of(each);
    }
    return findings;
}

std::string all_text(const std::vector<Outcome>& outcomes) {
    std::string text;
    for (const Outcome& each : outcomes) text += text_of(each) + '\n';
    return text;
}

const Failed& failure_of(const std::vector<Outcome>& outcomes, std::string_view name) {
    static const Failed none{Finding::uncounted, "it did not fail", "", ""};
    for (const Outcome& each : outcomes)
        if (each.scenario->name == name)
            if (const auto* failed = std::get_if<Failed>(&each.verdict)) return *failed;
    return none;
}

// ---- servers that are right ----------------------------------------------------------------------------------------

TEST(VerifyScenarios, AllPassOnAnApiThatIsRight) {
    Runner runner(Behaviour::good);
    const auto outcomes = runner.run();
    EXPECT_EQ(outcomes.size(), scenarios().size());
    EXPECT_EQ(findings_of(outcomes), Findings{}) << all_text(outcomes);
}

TEST(VerifyScenarios, AllPassWhenTwinsAreToldToWait) {
    Runner runner(Behaviour::good_and_busy);
    const auto outcomes = runner.run();
    EXPECT_EQ(findings_of(outcomes), Findings{}) << all_text(outcomes);
    const auto& parallel = std::get<Passed>(outcomes[2].verdict);
    EXPECT_NE(parallel.note.find("x 409"), std::string::npos) << parallel.note;
}

TEST(VerifyScenarios, AnErrorBeforeTheEffectMayBeTriedAgain) {
    Runner runner(Behaviour::good);
    runner.subject.error_headers = {{"X-Fail", "before"}};
    runner.only = {"retry-after-error"};
    const auto outcomes = runner.run();
    EXPECT_EQ(findings_of(outcomes), Findings{}) << all_text(outcomes);
    EXPECT_EQ(std::get<Passed>(outcomes[0].verdict).note, "503, then 201, 1 effect");
}

TEST(VerifyScenarios, KeysMayBeOptional) {
    Runner runner(Behaviour::runs_without_key);
    runner.subject.key_optional = true;
    runner.subject.key_spelling = KeySpelling::quoted;
    runner.subject.key_format = KeyFormat::uuidv7;
    const auto outcomes = runner.run();
    EXPECT_EQ(findings_of(outcomes), Findings{}) << all_text(outcomes);
}

// ---- servers that are broken ---------------------------------------------------------------------------------------

struct Broken {
    std::string_view name;
    Behaviour behaviour;
    Findings findings;
    std::string_view scenario;                 // whose reason is
    std::string_view reason;                   // begins so
    std::set<std::string_view> may_fail = {};  // it depends on who comes first
};

class VerifyBrokenApi : public testing::TestWithParam<Broken> {};

TEST_P(VerifyBrokenApi, IsFoundWhereItIsBroken) {
    const Broken& broken = GetParam();
    Runner runner(broken.behaviour);
    if (broken.behaviour == Behaviour::loses_after_error) runner.subject.error_headers = {{"X-Fail", "before"}};
    const auto outcomes = runner.run();
    Findings findings = findings_of(outcomes);
    for (const std::string_view name : broken.may_fail) findings.erase(name);
    EXPECT_EQ(findings, broken.findings) << all_text(outcomes);
    EXPECT_TRUE(failure_of(outcomes, broken.scenario).reason.starts_with(broken.reason)) << all_text(outcomes);
    for (const Outcome& each : outcomes)
        EXPECT_TRUE(!std::holds_alternative<Failed>(each.verdict) || !each.exchanges.empty()) << text_of(each);
}

const Broken all_broken[] = {
    {"NoDedup",
     Behaviour::no_dedup,
     {{"replay", Finding::doubled},
      {"reuse", Finding::doubled},
      {"parallel", Finding::doubled},
      {"hang-up", Finding::doubled},
      {"key-spelling", Finding::doubled},
      {"retry-after-error", Finding::doubled},
      {"replay-bytes", Finding::wrong_answer}},
     "replay",
     "the effect happened 2 times",
     {"late-effects"}},
    {"ReadThenWriteRace",
     Behaviour::read_then_write_race,
     {{"parallel", Finding::doubled}},
     "parallel",
     "the effect happened ",
     {"hang-up", "late-effects"}},
    {"KeyWithoutTenant",
     Behaviour::key_without_tenant,
     {{"other-tenant", Finding::leaked}},
     "other-tenant",
     "the other tenant got the first one's answer, and no effect of its own"},
    {"RerunAfter500",
     Behaviour::rerun_after_500,
     {{"retry-after-error", Finding::doubled}},
     "retry-after-error",
     "it ran again after a 500"},
    {"EmptyReplay",
     Behaviour::empty_replay,
     {{"replay-bytes", Finding::wrong_answer}, {"parallel", Finding::wrong_answer}},
     "replay-bytes",
     "the replay's body is empty"},
    {"LosesOnHangUp",
     Behaviour::loses_on_hang_up,
     {{"hang-up", Finding::lost}},
     "hang-up",
     "the answer was 201 Created, but the effect did not happen"},
    {"LosesAfterError",
     Behaviour::loses_after_error,
     {{"retry-after-error", Finding::lost}},
     "retry-after-error",
     "after a 503 the retry was answered 201, but the effect did not happen"},
    {"Forgets",
     Behaviour::forgets,
     {{"replay", Finding::lost},
      {"reuse", Finding::lost},
      {"parallel", Finding::lost},
      {"hang-up", Finding::lost},
      {"key-spelling", Finding::lost},
      {"other-tenant", Finding::lost},
      {"replay-bytes", Finding::lost},
      {"header-hygiene", Finding::lost}},
     "replay",
     "the answer was 201 Created, but the effect did not happen"},
    {"LeaksCookie",
     Behaviour::leaks_cookie,
     {{"header-hygiene", Finding::leaked}},
     "header-hygiene",
     "the replay sets the first caller's cookie again"},
    {"IgnoresBody",
     Behaviour::ignores_body,
     {{"reuse", Finding::wrong_answer}},
     "reuse",
     "the other body was answered as if it were the first"},
    {"QuotedIsAnother",
     Behaviour::quoted_is_another,
     {{"key-spelling", Finding::doubled}},
     "key-spelling",
     "the quoted and the bare key named two operations"},
    {"RunsWithoutKey",
     Behaviour::runs_without_key,
     {{"missing-key", Finding::wrong_answer}},
     "missing-key",
     "a request without a key was carried out"},
};

INSTANTIATE_TEST_SUITE_P(, VerifyBrokenApi, testing::ValuesIn(all_broken),
                         [](const auto& each) { return std::string(each.param.name); });

// ---- without a count, and other cases --------------------------------------------------------------------------------

TEST(VerifyAnswers, AloneShowWhatTheyCan) {
    Runner runner(Behaviour::no_dedup);
    const auto outcomes = runner.run(nullptr);
    EXPECT_EQ(failure_of(outcomes, "replay-bytes").reason, "the replay's body differs from byte 12 on");
    EXPECT_EQ(failure_of(outcomes, "parallel").finding, Finding::wrong_answer);
    EXPECT_TRUE(std::holds_alternative<NotApplicable>(outcomes.back().verdict)) << "late effects need a count";
}

TEST(VerifyAnswers, AloneShowAnotherTenantsAnswer) {
    Runner runner(Behaviour::key_without_tenant);
    runner.only = {"other-tenant"};
    EXPECT_EQ(failure_of(runner.run(nullptr), "other-tenant").reason, "the other tenant got the first one's answer");
}

TEST(VerifyAnswers, AreTakenFromNobodyWhereNobodyIs) {
    Runner runner(Behaviour::good);
    runner.subject.url = "http://127.0.0.1:1/";
    const auto outcomes = runner.run();
    for (const Outcome& each : outcomes)
        EXPECT_EQ(failure_of(outcomes, each.scenario->name).finding, Finding::unreachable) << text_of(each);
}

TEST(VerifyScenarios, AreNotApplicableWithoutWhatTheyNeed) {
    Runner runner(Behaviour::good);
    runner.subject.other_tenant.clear();
    runner.subject.error_headers.clear();
    runner.subject.body = R"({"amount": "ten", "currency": "eur"})";
    runner.only = {"other-tenant", "retry-after-error", "reuse"};
    for (const Outcome& each : runner.run())
        EXPECT_TRUE(std::holds_alternative<NotApplicable>(each.verdict)) << text_of(each);
}

TEST(VerifyScenarios, DoNotTakeABadOtherBodyForARefusedReuse) {
    Runner runner(Behaviour::good);
    runner.subject.other_body = R"({"nothing": true})";
    runner.only = {"reuse"};
    const auto outcomes = runner.run();
    ASSERT_TRUE(std::holds_alternative<NotApplicable>(outcomes[0].verdict)) << text_of(outcomes[0]);
}

TEST(VerifyScenarios, DoNotTakeAWrongCredentialForASeparateTenant) {
    Runner runner(Behaviour::good);
    runner.subject.other_tenant = {{"Authorization", ""}};
    runner.only = {"other-tenant"};
    const auto outcomes = runner.run();
    ASSERT_TRUE(std::holds_alternative<NotApplicable>(outcomes[0].verdict)) << text_of(outcomes[0]);
}

TEST(VerifyScenarios, DoNotTakeASuccessForAnError) {
    Runner runner(Behaviour::good);
    runner.subject.error_headers = {{"X-Other", "1"}};
    runner.only = {"retry-after-error"};
    const auto outcomes = runner.run();
    ASSERT_TRUE(std::holds_alternative<NotApplicable>(outcomes[0].verdict)) << text_of(outcomes[0]);
}

class CountsOneMoreEachTime final : public Counter {
public:
    Result<std::int64_t> count(const Intent&) override { return ++count_; }
    [[nodiscard]] bool per_intent() const override { return false; }

private:
    std::int64_t count_ = 0;
};

TEST(VerifyScenarios, FindEffectsThatComeLate) {
    Runner runner(Behaviour::good);
    runner.only = {"late-effects"};
    CountsOneMoreEachTime counter;
    const auto tls = Tls::make("");
    ASSERT_TRUE(tls);
    Probe probe(runner.subject, runner.patience, *tls, &counter);
    ASSERT_TRUE(probe.count({}));
    const auto verdict = find_scenario("late-effects")->run(probe);
    ASSERT_TRUE(std::holds_alternative<Failed>(verdict));
    EXPECT_EQ(std::get<Failed>(verdict).reason, "effects appeared after their scenario had ended");
}

TEST(VerifyExchanges, AreKeptWithoutCredentials) {
    Runner runner(Behaviour::good);
    runner.subject.headers.push_back({"X-Signature", "sign-me"});
    runner.subject.secret_headers = {"x-signature"};
    runner.only = {"replay"};
    const auto outcomes = runner.run();
    ASSERT_EQ(outcomes[0].exchanges.size(), 2U);
    for (const Exchange& each : outcomes[0].exchanges) {
        EXPECT_EQ(each.request.find("tenant-a"), std::string::npos) << each.request;
        EXPECT_EQ(each.request.find("sign-me"), std::string::npos) << each.request;
        EXPECT_NE(each.request.find("Authorization: <redacted>"), std::string::npos) << each.request;
        EXPECT_NE(each.request.find("\"amount\": 1000"), std::string::npos) << each.request;
        EXPECT_EQ(each.response.find("session="), std::string::npos) << each.response;
    }
    EXPECT_EQ(outcomes[0].exchanges[1].label, "retry");
    EXPECT_NE(outcomes[0].exchanges[1].response.find("{\"id\":\"ch_1\"}"), std::string::npos);
}

// ---- ways to count -----------------------------------------------------------------------------------------------------

TEST(VerifyCounters, ByUrlCommandAndSqlSeeTheSameEffects) {
    const test::TempFolder folder;
    const std::string path = folder.path() / "effects.db";
    sqlite3* database = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
    ASSERT_EQ(sqlite3_exec(database, "create table charges (x)", nullptr, nullptr, nullptr), SQLITE_OK);
    const std::string mark = folder.path() / "mark";
    {
        PaymentsApi api(Behaviour::good, [&] {
            sqlite3_exec(database, "insert into charges values (1)", nullptr, nullptr, nullptr);
            std::system(("echo >> " + mark).c_str());  // NOLINT: a path without blanks
        });
        const auto tls = Tls::make("");
        ASSERT_TRUE(tls);
        const Duration timeout = std::chrono::seconds(10);
        std::vector<std::unique_ptr<Counter>> counters;
        auto pointer = JsonPointer::parse("/charges");
        ASSERT_TRUE(pointer);
        counters.push_back(count_by_url(api.url("/effects"), {}, *pointer, timeout, *tls));
        counters.push_back(count_by_command("cat " + mark + " 2>/dev/null | wc -l", timeout));
        auto by_sql = count_by_sql("sqlite:" + path, "select count(*) from charges", timeout);
        ASSERT_TRUE(by_sql);
        counters.push_back(std::move(*by_sql));
        for (const auto& counter : counters) {
            const Subject subject = subject_for(api);
            const Patience patience = quick();
            Probe probe(subject, patience, *tls, counter.get());
            const auto verdict = find_scenario("replay")->run(probe);
            ASSERT_TRUE(std::holds_alternative<Passed>(verdict));
            EXPECT_EQ(std::get<Passed>(verdict).note, "201, then 201, 1 effect");
        }
    }
    sqlite3_close(database);
}

}  // namespace
}  // namespace semel::verify
