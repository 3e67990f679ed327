// kill -9 at every boundary of an order, on PostgreSQL and SQLite, against a provider that honours keys and one that does not.
// What a dead process left is carried on by completers alone: no client comes back.
//
// With keys: one charge for each order, whatever died. Without: at most one, and each order that cannot be carried on waits,
// visibly, for somebody to decide on its charge or its refund.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <list>
#include <thread>

#include "consumers/child.hpp"
#include "order.hpp"
#include "semel/committer.hpp"
#include "semel/keys.hpp"
#include "support/temp_folder.hpp"

namespace semel::test {
namespace {

class Deadline {
public:
    /// Fails the test, and says so, when the time is up.
    bool waits(std::string_view for_what) {
        if (std::chrono::steady_clock::now() > until_) {
            ADD_FAILURE() << "waited too long for " << for_what;
            return false;
        }
        std::this_thread::sleep_for(5ms);
        return true;
    }

private:
    std::chrono::steady_clock::time_point until_ = std::chrono::steady_clock::now() + 40s;
};

struct Death {
    std::string point;
    std::string input;
};

std::vector<Death> deaths() {
    std::vector<Death> all;
    for (const char* point :
         {"claimed", "started", "reserve:effect", "reserve:committed", "charge:claimed", "charge:inside",
          "charge:called", "charge:settled", "ship:effect", "ship:committed", "ended"})
        all.push_back({point, "order"});
    for (const char* point : {"ship:effect", "undo charge:claimed", "undo charge:called", "undo charge:settled",
                              "undo reserve:effect", "undo reserve:committed", "ended"})
        all.push_back({point, "fail"});
    return all;
}

class OrderCrash : public testing::TestWithParam<std::string_view> {
protected:
    void SetUp() override {
        std::filesystem::create_directory(folder_.path() / "charges");
        std::filesystem::create_directory(folder_.path() / "refunds");
        database_->run(done_table);
    }

    Child worker(Honours honours, std::vector<std::string> task, Duration lease = 600ms) {
        std::vector<std::string> arguments{SEMEL_ORDER_WORKER, database_->url(), folder_.path().string(),
                                           honours == Honours::keys ? "keys" : "nothing",
                                           std::to_string(lease / std::chrono::milliseconds{1})};
        arguments.insert(arguments.end(), task.begin(), task.end());
        return Child(arguments);
    }
    [[nodiscard]] bool embedded() const { return GetParam() == "sqlite"; }

    std::string count(const std::string& id, const std::string& step) {
        return database_->value(fmt::format("select count(*) from done where id = '{}' and step = '{}'", id, step));
    }
    /// The state of an operation as it is stored: 0 absent, 1 running, 2 unknown, 3 settled.
    int state(const Operation& operation) {
        const auto text =
            database_->value(fmt::format("select state from semel.operation where scope = '{}' and key = '{}'",
                                         operation.scope.text(), operation.key.text()));
        return text.empty() ? 0 : std::stoi(text);
    }
    static Operation order(const std::string& id) { return {*Scope::make("", "order"), *Key::parse(id)}; }
    static Operation step(const std::string& id, const std::string& name) {
        return *effects::Intent{.parent = order(id), .step = name}.operation();
    }

    /// Lets each death happen, one process each.
    void let_die(Honours honours) {
        Deadline deadline;
        std::list<Child> dying;
        int number = 0;
        for (const Death& death : deaths()) {
            const std::string id = fmt::format("o{}", number++);
            dying.push_back(worker(honours, {"run", id, death.input, death.point, "1"}));
            dying.back().start();
            // One process at a time owns a SQLite store.
            const bool last = static_cast<std::size_t>(number) == deaths().size();
            while (embedded() || last || dying.size() == 6) {
                std::erase_if(dying, [&](Child& child) {
                    const auto status = child.ended();
                    if (status) {
                        EXPECT_TRUE(was_killed(*status)) << death.point;
                        ++kills_;
                    }
                    return status.has_value();
                });
                if (dying.empty() || (!embedded() && !last && dying.size() < 6)) break;
                if (!deadline.waits("a death at " + death.point)) return;
            }
        }
        ASSERT_EQ(kills_, static_cast<int>(deaths().size()));
    }

    void judge(const std::string& id, const Death& death, Honours honours);

    TempFolder folder_;
    std::unique_ptr<Database> database_ = make_database(GetParam());
    int kills_ = 0;
    int parked_ = 0;
};

/// What an order came to that has ended, or waits.
void OrderCrash::judge(const std::string& id, const Death& death, Honours honours) {
    const std::string about = fmt::format("{} ({}) died at {}", id, death.input, death.point);
    const ChargeBook charges(folder_.path() / "charges", honours);
    const ChargeBook refunds(folder_.path() / "refunds", honours);
    const auto charged = charges.charges()[step(id, "charge").key.text()];
    const auto refunded = refunds.charges()[step(id, "undo charge").key.text()];
    EXPECT_LE(charged, 1) << about;
    EXPECT_LE(refunded, 1) << about;
    if (death.point == "claimed") {
        // It was never started, and whoever asked for it was not told that it was.
        EXPECT_EQ(state(order(id)), 0) << about;
        EXPECT_EQ(charged, 0) << about;
        return;
    }
    if (state(order(id)) != 3) {
        EXPECT_EQ(honours, Honours::nothing) << about;
        // Parked: a step that nobody knows about, and it is listed as that.
        EXPECT_EQ(state(order(id)), 2) << about;
        EXPECT_TRUE(state(step(id, "charge")) == 2 || state(step(id, "undo charge")) == 2) << about;
        ++parked_;
        return;
    }
    EXPECT_EQ(charged, 1) << about;
    EXPECT_EQ(count(id, "reserve"), "1") << about;
    const bool fails = death.input == "fail";
    EXPECT_EQ(count(id, "ship"), fails ? "0" : "1") << about;
    EXPECT_EQ(count(id, "unreserve"), fails ? "1" : "0") << about;
    EXPECT_EQ(refunded, fails ? 1 : 0) << about;
}

TEST_P(OrderCrash, WithKeysEveryOrderIsChargedOnceWhateverDied) {
    let_die(Honours::keys);
    // Two where the database allows it, at the same time.
    std::vector<Child> completers;
    for (int i = 0; i < (embedded() ? 1 : 2); ++i) {
        completers.push_back(worker(Honours::keys, {"complete"}));
        completers.back().start();
    }
    Deadline deadline;
    const auto open = [&] {
        return database_->value("select count(*) from semel.operation where state in (1, 2)") != "0";
    };
    while (open())
        if (!deadline.waits("the completers")) break;
    for (Child& completer : completers) EXPECT_TRUE(exited_well(completer.stop()));
    int number = 0;
    for (const Death& death : deaths()) judge(fmt::format("o{}", number++), death, Honours::keys);
    EXPECT_EQ(parked_, 0);
    EXPECT_EQ(ChargeBook(folder_.path() / "charges", Honours::keys).charges().size(), deaths().size() - 1);
}

TEST_P(OrderCrash, WithoutKeysNoOrderIsChargedTwiceAndWhatNobodyKnowsWaits) {
    let_die(Honours::nothing);
    Child completer = worker(Honours::nothing, {"complete"});
    completer.start();
    Deadline deadline;
    // Dead inside of an effect: claimed, inside and called of the charge, claimed and called of the refund.
    constexpr int unknown = 5;
    const auto settled_or_parked = [&] {
        int number = 0;
        for (const Death& death : deaths()) {
            const std::string id = fmt::format("o{}", number++);
            const bool waits =
                state(order(id)) == 2 && (state(step(id, "charge")) == 2 || state(step(id, "undo charge")) == 2);
            if (state(order(id)) != 3 && !waits && !(death.point == "claimed" && state(order(id)) == 0)) return false;
        }
        return true;
    };
    while (!settled_or_parked())
        if (!deadline.waits("the completer")) break;
    EXPECT_TRUE(exited_well(completer.stop()));
    int number = 0;
    for (const Death& death : deaths()) judge(fmt::format("o{}", number++), death, Honours::nothing);
    EXPECT_EQ(parked_, unknown);

    // A person decides on each: then it goes on by itself.
    {
        const auto store = database_->store();
        const auto committer = std::move(*Committer::start(*store));
        for (number = 0; static_cast<std::size_t>(number) < deaths().size(); ++number) {
            const std::string id = fmt::format("o{}", number);
            for (const char* name : {"charge", "undo charge"}) {
                const Operation operation = step(id, name);
                if (state(operation) != 2) continue;
                const auto record = store->find(operation.id());
                ASSERT_TRUE(record && *record);
                const ChargeBook book(folder_.path() / (std::string_view(name) == "charge" ? "charges" : "refunds"),
                                      Honours::nothing);
                std::optional<Outcome> verdict;
                if (book.charged(operation.key.text())) verdict = Outcome{200, "found in the settlement file", true};
                while (true) {
                    const auto resolved = committer->resolve(
                        {operation.id(), (*record)->token, verdict, "erika", "looked into the settlement file"});
                    ASSERT_TRUE(resolved);
                    if (!std::holds_alternative<TooEarly>(*resolved)) break;
                    if (!deadline.waits("the effect's deadline")) return;
                }
            }
        }
    }
    completer.start();
    const auto open = [&] {
        return database_->value("select count(*) from semel.operation where state in (1, 2)") != "0";
    };
    while (open())
        if (!deadline.waits("the rest")) break;
    EXPECT_TRUE(exited_well(completer.stop()));
    parked_ = 0;
    number = 0;
    for (const Death& death : deaths()) judge(fmt::format("o{}", number++), death, Honours::nothing);
    EXPECT_EQ(parked_, 0);
}

TEST_P(OrderCrash, APausedHolderThatWakesUpIsFenced) {
    constexpr Duration lease = 500ms;
    Child paused = worker(Honours::keys, {"run", "p1", "order", "stop:inside", "1"}, lease);
    paused.start();
    Deadline deadline;
    while (!paused.stopped())
        if (!deadline.waits("the pause")) return;
    const bool shared = !embedded();
    if (shared) {
        Child completer = worker(Honours::keys, {"complete"}, lease);
        completer.start();
        while (state(order("p1")) != 3)
            if (!deadline.waits("the completer")) return;
        EXPECT_TRUE(exited_well(completer.stop()));
    } else {
        // Nobody else may have the store: the lease runs out and nobody takes over.
        const auto until = std::chrono::steady_clock::now() + 2 * lease;
        while (std::chrono::steady_clock::now() < until)
            if (!deadline.waits("the lease")) return;
    }
    paused.go_on();
    std::optional<int> status;
    while (!(status = paused.ended()))
        if (!deadline.waits("its end")) return;
    // Superseded where somebody took over; late, and not superseded, where nobody did (I3).
    const effects::WorkflowAnswer superseded = effects::Superseded{};
    const effects::WorkflowAnswer completed = effects::Completed{};
    ASSERT_TRUE(WIFEXITED(*status));
    EXPECT_EQ(WEXITSTATUS(*status), 10 + static_cast<int>(shared ? superseded.index() : completed.index()));
    EXPECT_EQ(state(order("p1")), 3);
    judge("p1", {"nowhere", "order"}, Honours::keys);
}

TEST_P(OrderCrash, TheCompleterTakesOverWithinTwiceTheLease) {
    constexpr Duration lease = 3s;
    Child completer = worker(Honours::keys, {"complete"}, lease);
    if (!embedded()) completer.start();
    Child dying = worker(Honours::keys, {"run", "t1", "order", "reserve:committed", "1"}, lease);
    dying.start();
    Deadline deadline;
    while (!dying.ended())
        if (!deadline.waits("the death")) return;
    const auto died = std::chrono::steady_clock::now();
    // One process at a time owns a SQLite store: the next one finds the leases of the dead at once (I5).
    if (embedded()) completer.start();
    const auto taken = [&] {
        return database_->value("select count(*) from done where id = 't1' and step = 'ship'") == "1";
    };
    while (!taken())
        if (!deadline.waits("the takeover")) return;
    EXPECT_LE(std::chrono::steady_clock::now() - died, 2 * lease);
    while (state(order("t1")) != 3)
        if (!deadline.waits("the end")) return;
    EXPECT_TRUE(exited_well(completer.stop()));
    judge("t1", {"nowhere", "order"}, Honours::keys);
}

INSTANTIATE_TEST_SUITE_P(Databases, OrderCrash, testing::ValuesIn(database_names),
                         [](const auto& database) { return std::string(database.param); });

}  // namespace
}  // namespace semel::test
