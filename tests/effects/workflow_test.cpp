// Workflows on PostgreSQL and SQLite: results, compensation, versions, waiting for a person, lost replies.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "order.hpp"
#include "semel/committer.hpp"
#include "semel/postgres.hpp"
#include "support/gate.hpp"
#include "support/postgres.hpp"
#include "support/temp_folder.hpp"

namespace semel::test {
namespace {

using namespace effects;

template <class Expected>
Expected as(const Result<WorkflowAnswer>& answer) {
    if (!answer) throw std::runtime_error(answer.failure().message);
    const auto* found = std::get_if<Expected>(&*answer);
    if (found != nullptr) return *found;
    std::string more;
    if (const auto* left = std::get_if<Unfinished>(&*answer)) more = left->step + ": " + left->error;
    if (const auto* changed = std::get_if<DefinitionChanged>(&*answer)) more = changed->why;
    throw std::runtime_error(fmt::format("answer number {} {}", answer->index(), more));
}

class WorkflowTest : public testing::TestWithParam<std::string_view> {
protected:
    WorkflowOptions options() {
        WorkflowOptions options;
        options.lease = 500ms;
        options.limits = {.calls_max = 3, .total = 10s, .backoff_first = 10ms, .backoff_max = 50ms};
        options.inbox = [this] { return Result<std::unique_ptr<Inbox>>(database_->inbox()); };
        return options;
    }
    std::unique_ptr<Workflow> make(Definition definition, std::optional<Duration> lease = {}) {
        WorkflowOptions with = options();
        if (lease) with.lease = *lease;
        auto made = Workflow::make(std::move(definition), std::move(with), *committer_);
        if (!made) throw std::runtime_error(made.failure().message);
        return std::move(*made);
    }
    /// A local step that adds a letter to what is written about this run.
    Step letter(const std::string& name, bool fails = false) {
        const auto write = [this](std::string what, bool throws) {
            return Local{[this, what, throws](const Context&, Transaction) {
                if (throws) throw StepFailed(what + " is out of stock", 410);
                trail_ += what + ";";
                return "result of " + what;
            }};
        };
        return {name, write(name, fails), write("undo " + name, false)};
    }
    Step external(const std::string& name, Provider provider, std::function<Reply(const Context&, const Call&)> call) {
        provider.lease = 400ms;
        provider.call_deadline = 100ms;
        return {name,
                External{.provider = std::move(provider),
                         .call = std::move(call),
                         .limits = {.calls_max = 2, .total = 5s, .backoff_first = 10ms, .backoff_max = 50ms}},
                std::nullopt};
    }
    static Start start(const std::string& key, std::string input = "3 apples") {
        return {.tenant = "acme", .key = *Key::parse(key), .input = std::move(input)};
    }
    static Operation operation(const std::string& key) { return {*Scope::make("acme", "shop"), *Key::parse(key)}; }
    /// Calls until it is true, or for too long.
    static bool soon(const std::function<bool()>& what) {
        const auto until = std::chrono::steady_clock::now() + 30s;
        while (!what()) {
            if (std::chrono::steady_clock::now() > until) return false;
            std::this_thread::sleep_for(10ms);
        }
        return true;
    }

    std::unique_ptr<Database> database_ = make_database(GetParam());
    std::unique_ptr<Store> store_ = database_->store();
    std::unique_ptr<Committer> committer_ = std::move(*Committer::start(*store_));
    std::string trail_;
};

TEST_P(WorkflowTest, RunsItsStepsHandsResultsOnAndReplaysItsEnd) {
    Definition definition{.name = "shop"};
    definition.steps = {letter("a"),
                        external("b", Provider::stripe(), [&](const Context& context, const Call&) -> Reply {
                            EXPECT_EQ(context.input(), "3 apples");
                            return Answered{{200, context.result("a") + " and b", true}, true};
                        })};
    definition.result = [](const Context& context) { return context.result("b") + "!"; };
    const auto workflow = make(definition);
    const auto first = as<Completed>(workflow->run(start("k1")));
    EXPECT_EQ(first.result, "result of a and b!");
    EXPECT_FALSE(first.replayed);
    const auto second = as<Completed>(workflow->run(start("k1")));
    EXPECT_TRUE(second.replayed);
    EXPECT_EQ(second.result, first.result);
    (void)as<Mismatch>(workflow->run(start("k1", "4 apples")));
    EXPECT_EQ(trail_, "a;");
}

TEST_P(WorkflowTest, CompensatesInReverseOrderWhenAStepFails) {
    Definition definition{.name = "shop"};
    definition.steps = {letter("a"), letter("b"), letter("c", true), letter("d")};
    const auto workflow = make(definition);
    const auto first = as<Compensated>(workflow->run(start("k1")));
    EXPECT_EQ(trail_, "a;b;undo b;undo a;");
    EXPECT_EQ(first.failed_step, "c");
    EXPECT_EQ(first.failure, (Outcome{410, "c is out of stock", true}));
    EXPECT_TRUE(first.not_undone.empty());
    const auto second = as<Compensated>(workflow->run(start("k1")));
    EXPECT_TRUE(second.replayed);
    EXPECT_EQ(second.failed_step, "c");
    EXPECT_EQ(trail_, "a;b;undo b;undo a;");
    EXPECT_EQ((*store_->find(operation("k1").id()))->outcome.status, workflow_status::compensated);
}

TEST_P(WorkflowTest, ACompensationThatFailsIsSaidAndTheOthersRun) {
    Definition definition{.name = "shop"};
    definition.steps = {letter("a"), letter("b"), letter("c", true)};
    definition.steps[1].compensation =
        Local{[](const Context&, Transaction) -> std::string { throw StepFailed("it is gone"); }};
    const auto workflow = make(definition);
    EXPECT_EQ(as<Compensated>(workflow->run(start("k1"))).not_undone, (std::vector<std::string>{"b"}));
    EXPECT_EQ(trail_, "a;b;undo a;");
    EXPECT_EQ((*store_->find(operation("k1").id()))->outcome.status, workflow_status::compensation_failed);
}

TEST_P(WorkflowTest, AStepThatThrowsIsTriedAgainAndLeavesNothing) {
    database_->run("create table written (step text)");
    int tries = 0;
    Definition definition{.name = "shop"};
    definition.steps = {{"a", Local{[&](const Context&, Transaction transaction) {
                             execute(transaction, "insert into written values ('a')");
                             if (++tries % 4 != 0) throw std::runtime_error("not yet");
                             return std::string("done");
                         }},
                         std::nullopt}};
    const auto workflow = make(definition);
    const auto left = as<Unfinished>(workflow->run(start("k1")));
    EXPECT_EQ(left.step, "a");
    EXPECT_EQ(left.error, "not yet");
    EXPECT_EQ(database_->value("select count(*) from written"), "0");
    // Carried on by the completer, at its own pace.
    Completer completer(*committer_, {workflow.get()}, {.every = 50ms, .backoff_first = 50ms});
    std::jthread thread([&](const std::stop_token& stop) { completer.run(stop); });
    EXPECT_TRUE(soon([&] { return completer.counts().ended == 1; }));
    EXPECT_EQ(database_->value("select count(*) from written"), "1");
}

TEST_P(WorkflowTest, AnUnknownStepParksItVisiblyUntilSomebodyResolvesIt) {
    std::atomic<int> calls = 0;
    Definition definition{.name = "shop"};
    definition.steps = {letter("a"),
                        external("b", Provider::at_most_once("sms"),
                                 [&](const Context&, const Call&) -> Reply {
                                     ++calls;
                                     return InDoubt{"no answer in time", std::nullopt};
                                 }),
                        letter("c")};
    const auto workflow = make(definition);
    const auto parked = as<Parked>(workflow->run(start("k1")));
    EXPECT_EQ(parked.step, "b");
    EXPECT_EQ(parked.why, "no answer in time");
    Completer completer(*committer_, {workflow.get()}, {.every = 30ms, .backoff_first = 30ms});
    std::jthread thread([&](const std::stop_token& stop) { completer.run(stop); });
    EXPECT_TRUE(soon([&] { return completer.counts().looks > 3 && completer.counts().parked == 1; }));
    EXPECT_EQ((*store_->find(operation("k1").id()))->state, State::unknown);
    EXPECT_EQ((*store_->find(operation("k1").id()))->tries, 1U);
    EXPECT_EQ(as<Parked>(workflow->run(start("k1"))).step, "b");
    EXPECT_EQ(trail_, "a;");

    const Operation step = *Intent{.parent = operation("k1"), .step = "b"}.operation();
    const auto record = *store_->find(step.id());
    EXPECT_EQ(record->state, State::unknown);
    EXPECT_TRUE(soon([&] {
        const auto resolved =
            committer_->resolve({step.id(), record->token, Outcome::tombstone(200), "erika", "the customer has it"});
        return resolved && std::holds_alternative<Ok>(*resolved);
    }));
    EXPECT_TRUE(soon([&] { return completer.counts().ended == 1; }));
    EXPECT_EQ(trail_, "a;c;");
    EXPECT_EQ(calls, 1);
}

TEST_P(WorkflowTest, AChangedDefinitionIsRefusedAndContinuedOnPurpose) {
    std::atomic<bool> fails = true;
    const auto sometimes = [&](const std::string& name) {
        return Step{name, Local{[&, name](const Context&, Transaction) {
                        if (fails) throw std::runtime_error("not yet");
                        trail_ += name + ";";
                        return name;
                    }},
                    std::nullopt};
    };
    Definition first{.name = "shop"};
    first.steps = {letter("a"), letter("b"), sometimes("c")};
    (void)as<Unfinished>(make(first)->run(start("k1")));
    EXPECT_EQ(trail_, "a;b;");
    fails = false;

    Definition reordered{.name = "shop"};
    reordered.steps = {letter("b"), letter("a"), sometimes("c")};
    const auto changed = as<DefinitionChanged>(make(reordered)->run(start("k1")));
    EXPECT_NE(changed.why.find("has other steps"), std::string::npos) << changed.why;
    Definition renamed{.name = "shop"};
    renamed.steps = {letter("a"), letter("bee"), sometimes("c")};
    (void)as<DefinitionChanged>(make(renamed)->run(start("k1")));
    renamed.version = 2;
    (void)as<DefinitionChanged>(make(renamed)->run(start("k1")));
    renamed.continues = {{.version = 1, .renamed = {}, .dropped = {}}};
    EXPECT_NE(as<DefinitionChanged>(make(renamed)->run(start("k1"))).why.find("neither has nor names"),
              std::string::npos);
    EXPECT_EQ(trail_, "a;b;");

    // On purpose: `b` is called `bee` now and was done; `n` is new.
    renamed.steps = {letter("a"), letter("bee"), letter("n"), sometimes("c")};
    renamed.continues = {{.version = 1, .renamed = {{"b", "bee"}}, .dropped = {}}};
    const auto workflow = make(renamed);
    Completer completer(*committer_, {workflow.get()}, {.every = 30ms, .backoff_first = 30ms});
    std::jthread thread([&](const std::stop_token& stop) { completer.run(stop); });
    EXPECT_TRUE(soon([&] { return completer.counts().ended == 1; }));
    EXPECT_EQ(trail_, "a;b;n;c;");
}

TEST_P(WorkflowTest, CompensationWaitsForEveryExternalStepThatBegan) {
    // Begun with x before c; continued with c, which fails, before x.
    Step x = external("x", Provider::at_most_once("sms"), [](const Context&, const Call&) -> Reply {
        return InDoubt{"no answer in time", std::nullopt};
    });
    x.compensation = letter("x").compensation;
    Definition first{.name = "shop"};
    first.steps = {letter("a"), x, letter("c", true)};
    EXPECT_EQ(as<Parked>(make(first)->run(start("k1"))).step, "x");
    Definition second{.name = "shop", .version = 2};
    second.steps = {letter("a"), letter("c", true), x};
    second.continues = {{.version = 1, .renamed = {}, .dropped = {}}};
    const auto workflow = make(second);
    EXPECT_EQ(as<Parked>(workflow->run(start("k1"))).step, "x");
    EXPECT_EQ(trail_, "a;");
    const Operation step = *Intent{.parent = operation("k1"), .step = "x"}.operation();
    EXPECT_TRUE(soon([&] {
        const auto record = *store_->find(step.id());
        const auto resolved =
            committer_->resolve({step.id(), record->token, Outcome::tombstone(200), "erika", "the customer has it"});
        return resolved && std::holds_alternative<Ok>(*resolved);
    }));
    EXPECT_EQ(as<Compensated>(workflow->run(start("k1"))).failed_step, "c");
    EXPECT_EQ(trail_, "a;undo x;undo a;");
}

// ---- cancellation and deadline ---------------------------------------------------------------------------------

TEST_P(WorkflowTest, ACancelledOneBeginsNoFurtherStepAndIsUndone) {
    Workflow* self = nullptr;
    Definition definition{.name = "shop"};
    definition.steps = {letter("a"),
                        external("b", Provider::stripe(),
                                 [&](const Context& context, const Call&) -> Reply {
                                     // As another process would, at this moment.
                                     const auto answer =
                                         self->cancel("acme", context.operation().key, "a change of mind");
                                     EXPECT_TRUE(answer && !*answer);
                                     return Answered{{200, "", true}, true};
                                 }),
                        letter("c")};
    definition.steps[1].compensation = Local{[&](const Context&, Transaction) -> std::string {
        trail_ += "undo b;";
        return {};
    }};
    const auto workflow = make(definition);
    self = workflow.get();
    const auto answer = as<Compensated>(workflow->run(start("k1")));
    EXPECT_EQ(answer.failed_step, "c");
    EXPECT_EQ(answer.failure, (Outcome{workflow_status::cancelled, "cancelled: a change of mind", true}));
    EXPECT_EQ(trail_, "a;undo b;undo a;");
    EXPECT_TRUE(as<Compensated>(workflow->run(start("k1"))).replayed);
}

TEST_P(WorkflowTest, ACancellationMayComeBeforeTheStartOrTooLate) {
    Definition definition{.name = "shop"};
    definition.steps = {letter("a")};
    const auto workflow = make(definition);
    EXPECT_FALSE(*workflow->cancel("acme", *Key::parse("early"), "first"));
    EXPECT_FALSE(*workflow->cancel("acme", *Key::parse("early"), "second"));
    EXPECT_EQ(as<Compensated>(workflow->run(start("early"))).failure.body, "cancelled: first");
    EXPECT_EQ(trail_, "");
    (void)as<Completed>(workflow->run(start("late")));
    const auto late = workflow->cancel("acme", *Key::parse("late"), "too late");
    ASSERT_TRUE(late && *late);
    EXPECT_TRUE(std::holds_alternative<Completed>(**late));
    EXPECT_TRUE(as<Completed>(workflow->run(start("late"))).replayed);
}

TEST_P(WorkflowTest, ACancelledOneWaitsForAStepThatNobodyKnowsOf) {
    Definition definition{.name = "shop"};
    definition.steps = {external("pay", Provider::at_most_once("bank"),
                                 [](const Context&, const Call&) -> Reply {
                                     return InDoubt{"no answer", std::nullopt};
                                 }),
                        letter("b")};
    definition.steps[0].compensation = Local{[&](const Context& context, Transaction) {
        trail_ += "refund " + context.result("pay") + ";";
        return std::string{};
    }};
    const auto workflow = make(definition);
    EXPECT_EQ(as<Parked>(workflow->run(start("k1"))).step, "pay");
    EXPECT_FALSE(*workflow->cancel("acme", *Key::parse("k1"), "no longer wanted"));
    EXPECT_TRUE(soon([&] { return std::holds_alternative<Parked>(*workflow->run(start("k1"))); }));
    EXPECT_EQ(trail_, "");
    const Operation step = *Intent{.parent = operation("k1"), .step = "pay"}.operation();
    const auto record = *store_->find(step.id());
    EXPECT_TRUE(soon([&] {
        const auto resolved =
            committer_->resolve({step.id(), record->token, Outcome{200, "receipt 7", true}, "erika", "it was paid"});
        return resolved && std::holds_alternative<Ok>(*resolved);
    }));
    EXPECT_TRUE(soon([&] { return std::holds_alternative<Compensated>(*workflow->run(start("k1"))); }));
    EXPECT_EQ(trail_, "refund receipt 7;");
}

TEST_P(WorkflowTest, OneThatIsOverItsDeadlineIsUndoneWhateverIsConfiguredLater) {
    bool busy = true;
    std::stop_source stop;
    Definition definition{.name = "shop"};
    definition.steps = {letter("a"), letter("b")};
    definition.steps[0].run = Local{[&](const Context&, Transaction) -> std::string {
        stop.request_stop();
        trail_ += "a;";
        return {};
    }};
    definition.steps[0].compensation = Local{[&](const Context&, Transaction) -> std::string {
        if (busy) throw std::runtime_error("not now");
        trail_ += "undo a;";
        return {};
    }};
    const auto patient = make(definition);
    EXPECT_EQ(as<Unfinished>(patient->run(start("k1"), stop.get_token())).step, "b");
    WorkflowOptions hurried = options();
    hurried.deadline = 1us;
    const auto late = *Workflow::make(definition, hurried, *committer_);
    EXPECT_TRUE(soon([&] {
        auto now = late->run(start("k1"));
        return now && std::holds_alternative<Unfinished>(*now) && std::get<Unfinished>(*now).step == "undo a";
    }));
    busy = false;
    std::optional<Compensated> answer;
    EXPECT_TRUE(soon([&] {
        auto now = patient->run(start("k1"));
        if (now && std::holds_alternative<Compensated>(*now)) answer = std::get<Compensated>(*now);
        return answer.has_value();
    }));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->failed_step, "b");
    EXPECT_EQ(answer->failure.status, workflow_status::overdue);
    EXPECT_EQ(trail_, "a;undo a;");
}

TEST_P(WorkflowTest, OneThatIsBeingUndoneDoesNotGoForwardInAnotherVersion) {
    bool busy = true;
    Definition first{.name = "shop"};
    first.steps = {letter("a"), letter("b"), letter("c", true)};
    first.steps[0].compensation = Local{[&](const Context&, Transaction) -> std::string {
        if (busy) throw std::runtime_error("not now");
        trail_ += "undo a;";
        return {};
    }};
    EXPECT_EQ(as<Unfinished>(make(first)->run(start("k1"))).step, "undo a");
    EXPECT_EQ(trail_, "a;b;undo b;");
    busy = false;
    // Without the step that failed, and with another one before those that were done.
    Definition second = first;
    second.version = 2;
    second.steps = {letter("new"), first.steps[0], first.steps[1]};
    second.continues = {{.version = 1, .renamed = {}, .dropped = {"c"}}};
    const auto workflow = make(second);
    std::optional<Compensated> answer;
    EXPECT_TRUE(soon([&] {
        auto now = workflow->run(start("k1"));
        if (now && std::holds_alternative<Compensated>(*now)) answer = std::get<Compensated>(*now);
        return answer.has_value();
    }));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->failed_step, "c");
    EXPECT_EQ(answer->failure.status, 410);
    EXPECT_EQ(trail_, "a;b;undo b;undo a;");
}

TEST_P(WorkflowTest, StopsBetweenTwoStepsAndIsCarriedOn) {
    std::stop_source stop;
    Definition definition{.name = "shop"};
    definition.steps = {letter("a"),
                        {"b", Local{[&](const Context&, Transaction) {
                             stop.request_stop();
                             return std::string("b");
                         }},
                         std::nullopt},
                        letter("c")};
    const auto workflow = make(definition);
    EXPECT_EQ(as<Unfinished>(workflow->run(start("k1"), stop.get_token())).step, "c");
    EXPECT_EQ(trail_, "a;");
    EXPECT_EQ(as<Completed>(workflow->run(start("k1"))).result, "result of c");
    EXPECT_EQ(trail_, "a;c;");
}

TEST_P(WorkflowTest, WhatIsTakenOverIsHeldUnderTheLeaseItWasBegunWith) {
    Definition definition{.name = "shop"};
    std::stop_source stop;
    std::function<void()> during;
    definition.steps = {{"a", Local{[&](const Context&, Transaction) {
                             stop.request_stop();
                             return std::string("a");
                         }},
                         std::nullopt},
                        external("b", Provider::stripe(), [&](const Context&, const Call&) -> Reply {
                            during();
                            return Answered{{200, "paid", true}, true};
                        })};
    const auto brief = make(definition, 3s);
    (void)as<Unfinished>(brief->run(start("k1"), stop.get_token()));
    // Carried on by one that is configured with far more patience: a completer goes by the record.
    const auto patient = make(definition, 10min);
    during = [&] {
        const auto lease_until = [&] { return (*store_->find(operation("k1").id()))->lease_until; };
        const auto at_first = lease_until();
        EXPECT_TRUE(soon([&] { return lease_until() > at_first; })) << "not renewed, although its lease is long over";
    };
    EXPECT_EQ(as<Completed>(patient->run(start("k1"))).result, "paid");
}

TEST_P(WorkflowTest, TwoCallersOfOneKeyRunItOnce) {
    Definition definition{.name = "shop"};
    std::atomic<int> calls = 0;
    definition.steps = {external("a", Provider::stripe(), [&](const Context&, const Call&) -> Reply {
        ++calls;
        return Answered{{200, "paid", true}, true};
    })};
    const auto workflow = make(definition);
    std::atomic<int> completed = 0;
    {
        std::vector<std::jthread> callers;
        for (int i = 0; i < 8; ++i)
            callers.emplace_back([&] {
                EXPECT_TRUE(soon([&] {
                    const auto answer = workflow->run(start("k1"));
                    return answer && std::holds_alternative<Completed>(*answer);
                }));
                ++completed;
            });
    }
    EXPECT_EQ(completed, 8);
    EXPECT_EQ(calls, 1);
}

TEST_P(WorkflowTest, DefinitionsThatCannotBeRunAreRefused) {
    const auto refused = [&](const Definition& definition, std::string_view word) {
        auto made = Workflow::make(definition, options(), *committer_);
        ASSERT_FALSE(made);
        EXPECT_NE(made.failure().message.find(word), std::string::npos) << made.failure().message;
    };
    Definition definition{.name = "shop"};
    refused(definition, "1 to 100 steps");
    definition.steps = {letter("a"), letter("a")};
    refused(definition, "two of that name");
    definition.steps = {letter("undo a")};
    refused(definition, "compensations");
    definition.steps = {letter("a#b")};
    refused(definition, "a name has");
    definition.steps = {external("a", Provider::stripe(), {})};
    refused(definition, "needs a call");
    definition.steps = {letter("a")};
    definition.continues = {{.version = 1}};
    refused(definition, "twice, or its own");
    auto without = options();
    without.inbox = {};
    definition.continues = {};
    EXPECT_NE(Workflow::make(definition, without, *committer_).failure().message.find("WorkflowOptions::inbox"),
              std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Databases, WorkflowTest, testing::ValuesIn(database_names),
                         [](const auto& database) { return std::string(database.param); });

// ---- lost replies ----------------------------------------------------------------------------------------------

/// Every COMMIT of an order's whole life is cut, one run each: before it arrives, and after it was done.
TEST(WorkflowLostReply, EveryCommitOfAnOrderMayLoseItsReply) {
    TestDatabase database;
    Gate gate(database.port());
    TestConnection direct(database.uri());
    execute({direct.raw(), nullptr}, done_table);
    TempFolder folder;
    for (const char* name : {"charges", "refunds"}) std::filesystem::create_directory(folder.path() / name);
    std::string uri = database.uri();
    const std::string port = ":" + std::to_string(database.port());
    ASSERT_NE(uri.find(port), std::string::npos) << uri;
    uri.replace(uri.find(port), port.size(), ":" + std::to_string(gate.port()));

    std::atomic<int> nth = 0;  // COMMITs to let pass; negative: none is cut
    std::atomic<Direction> side = Direction::to_client;
    gate.watch([&](Direction direction, std::string_view piece) -> std::size_t {
        const auto word = piece.find(commit_in(direction));
        if (direction != side || word == std::string_view::npos || nth < 0 || nth-- > 0) return piece.size();
        return word;
    });
    nth = -1;
    const auto store = std::move(*postgres::open({.uri = uri}));
    const auto committer = std::move(*Committer::start(*store));
    OrderParts parts{
        {folder.path() / "charges", Honours::keys}, {folder.path() / "refunds", Honours::keys}, Honours::keys, 1s};
    WorkflowOptions options;
    options.lease = 1s;
    options.inbox = [&] { return postgres::open_inbox({.uri = uri}); };
    const auto workflow = std::move(*Workflow::make(order_definition(parts), options, *committer));
    int number = 0;
    for (const Direction direction : {Direction::to_client, Direction::to_server})
        for (int cut = 0; cut < 8; ++cut) {
            const std::string key = fmt::format("o{}", number++);
            side = direction;
            nth = cut;
            const auto until = std::chrono::steady_clock::now() + 20s;
            bool ended = false;
            while (!ended) {
                const auto answer = workflow->run({.key = *Key::parse(key), .input = "order"});
                ended = answer && std::holds_alternative<Completed>(*answer);
                ASSERT_LT(std::chrono::steady_clock::now(), until) << key;
            }
            nth = -1;
            EXPECT_EQ(direct.value(fmt::format("select count(*) from done where id = '{}'", key)), "2") << key;
        }
    EXPECT_GE(gate.cuts(), 8);
    const auto charges = parts.charges.charges();
    EXPECT_EQ(charges.size(), static_cast<std::size_t>(number));
    for (const auto& [key, count] : charges) EXPECT_EQ(count, 1) << key;
}

}  // namespace
}  // namespace semel::test
