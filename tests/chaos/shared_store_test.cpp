// Many processes and users' open transactions on one PostgreSQL.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <thread>

#include "semel/committer.hpp"
#include "support/commands.hpp"
#include "support/postgres.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

/// One process's part. It ends by itself, whatever happens: what the test owns is not its to clean up.
bool claim_all(const std::string& uri, int operations) noexcept try {
    auto store = postgres::open({.uri = uri, .sessions_max = 2}).value();
    auto committer = Committer::start(*store).value();
    TestConnection notes(uri);
    for (int i = 0; i < operations; ++i) {
        const auto answer = committer->claim(claim("op" + std::to_string(i)));
        if (!answer) return false;
        // Every grant is noted by its own insert: the test counts them afterwards.
        if (std::holds_alternative<Claimed>(*answer))
            notes.run("insert into grants values (" + std::to_string(i) + ")");
    }
    return true;
} catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return false;
}

TEST(SharedStore, OfManyProcessesExactlyOneIsGrantedEachOperation) {  // I1
    const TestDatabase database;
    TestConnection(database.uri()).run("create table grants (op int)");
    constexpr int processes = 6;
    constexpr int operations = 200;
    std::vector<pid_t> children;
    for (int p = 0; p < processes; ++p) {
        const pid_t child = fork();
        if (child == 0) _exit(claim_all(database.uri(), operations) ? 0 : 1);
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = 0;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    TestConnection look(database.uri());
    EXPECT_EQ(look.value("select count(*) from grants"), std::to_string(operations));
    EXPECT_EQ(look.value("select count(distinct op) from grants"), std::to_string(operations));
}

TEST(SharedStore, ARowLockedByAUsersTransactionIsBusyAndHoldsNobodyElseUp) {
    const TestDatabase database;
    auto store = postgres::open({.uri = database.uri(), .sessions_max = 1}).value();
    auto committer = Committer::start(*store).value();
    const Claim settled = claim("locked");
    const auto mine = std::get<Claimed>(committer->claim(settled).value());

    // A user's transaction holds the row of one operation, and has inserted another one without committing.
    TestConnection user(database.uri());
    user.run("begin");
    user.run("select * from semel.operation for update");
    TestConnection inserter(database.uri());
    inserter.run("begin");
    const std::string inserted = to_hex(operation("inserted").id().bytes);
    inserter.run("insert into semel.operation (op, token, state, record) values ('" + inserted + "', 1, 3, 'x')");

    std::vector<std::thread> threads;
    std::atomic<int> claimed = 0;
    std::atomic<int> busy = 0;
    for (int i = 0; i < 32; ++i) {
        threads.emplace_back([&, i] {
            const std::string key = i == 0 ? "locked" : i == 1 ? "inserted" : "free" + std::to_string(i);
            const auto answer = committer->claim(claim(key), 5s);
            ASSERT_TRUE(answer) << answer.failure().message;
            claimed += std::holds_alternative<Claimed>(*answer) ? 1 : 0;
            busy += std::holds_alternative<Busy>(*answer) ? 1 : 0;
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(claimed, 30);
    EXPECT_EQ(busy, 2);

    // The holder's own command waits for the lock instead of giving an answer it does not know.
    std::thread settling([&] {
        const auto answer = committer->settle(holder(settled, mine), {200, "done", true}, true, 10s);
        ASSERT_TRUE(answer) << answer.failure().message;
        EXPECT_TRUE(std::holds_alternative<Ok>(*answer));
    });
    user.run("rollback");
    inserter.run("rollback");
    settling.join();
    EXPECT_EQ(std::get<Replay>(committer->claim(claim("locked")).value()).outcome.body, "done");
}

/// Two instances on one database. What each remembers of its operations the other may change.
struct Instances {
    TestDatabase database{};
    std::unique_ptr<Store> here_store = postgres::open({.uri = database.uri(), .sessions_max = 1}).value();
    std::unique_ptr<Store> there_store = postgres::open({.uri = database.uri(), .sessions_max = 1}).value();
    std::unique_ptr<Committer> here = Committer::start(*here_store).value();
    std::unique_ptr<Committer> there = Committer::start(*there_store).value();
};

void expect_fenced(bool renewed_first) {
    Instances both;
    Claim wanted = claim("taken over");
    wanted.policy.on_unknown = OnUnknown::retry;
    wanted.policy.dedup_window = 1h;
    const auto mine = std::get<Claimed>(both.here->claim(wanted).value());
    ASSERT_TRUE(std::holds_alternative<Ok>(both.here->abandon(holder(wanted, mine)).value()));
    const auto again = std::get<Claimed>(both.here->claim(wanted).value());
    // As if its lease had run out: the other one makes it unknown and takes it over.
    ASSERT_TRUE(std::holds_alternative<Ok>(both.there->abandon(holder(wanted, again)).value()));
    const auto theirs = std::get<Claimed>(both.there->claim(wanted).value());

    if (renewed_first) {
        EXPECT_TRUE(std::holds_alternative<Fenced>(both.here->renew(holder(wanted, again)).value()));
    }
    EXPECT_TRUE(std::holds_alternative<Fenced>(both.here->settle(holder(wanted, again), {500, "late", true}).value()));
    EXPECT_TRUE(std::holds_alternative<Ok>(both.there->settle(holder(wanted, theirs), {200, "done", true}).value()));
    EXPECT_EQ(std::get<Replay>(both.here->claim(wanted).value()).outcome.body, "done");
}

// Each with a record that is remembered here: what was told once is looked up from then on.
TEST(SharedStore, WhatAnotherInstanceHasTakenOverIsNotSettledHere) { expect_fenced(false); }  // I3
TEST(SharedStore, WhatAnotherInstanceHasTakenOverIsNotRenewedHere) { expect_fenced(true); }   // I3

TEST(SharedStore, WhatAnotherInstanceSettledIsToldHereAndStays) {  // I2
    Instances both;
    const Claim wanted = claim("settled");
    const auto mine = std::get<Claimed>(both.here->claim(wanted).value());
    ASSERT_TRUE(std::holds_alternative<Ok>(both.there->renew(holder(wanted, mine)).value()));
    ASSERT_TRUE(std::holds_alternative<Ok>(both.here->renew(holder(wanted, mine)).value()));
    ASSERT_TRUE(std::holds_alternative<Ok>(both.there->settle(holder(wanted, mine), {200, "there", true}).value()));
    const auto told = both.here->settle(holder(wanted, mine), {200, "here", true}).value();
    ASSERT_TRUE(std::holds_alternative<Settled>(told));
    EXPECT_EQ(std::get<Settled>(told).outcome.body, "there");
    EXPECT_EQ(std::get<Replay>(both.here->claim(wanted).value()).outcome.body, "there");
}

TEST(SharedStore, HoldersAreNotHeldUpByAUsersTransactionThatHasAnothersRow) {
    const TestDatabase database;
    auto store = postgres::open({.uri = database.uri(), .sessions_max = 1}).value();  // all in few batches
    auto committer = Committer::start(*store).value();
    constexpr int operations = 16;
    std::vector<Holder> holders;
    for (int i = 0; i < operations; ++i) {
        const Claim wanted = claim("mine" + std::to_string(i));
        holders.push_back(holder(wanted, std::get<Claimed>(committer->claim(wanted).value())));
    }
    TestConnection user(database.uri());
    user.run("begin");
    user.run("select * from semel.operation where key = 'mine0' for update");
    std::atomic<int> ok = 0;
    std::vector<std::thread> threads;
    for (const Holder& each : holders)
        threads.emplace_back([&, each] {
            const auto answer = committer->settle(each, {200, "done", true}, true, 20s);
            ASSERT_TRUE(answer) << answer.failure().message;
            ok += std::holds_alternative<Ok>(*answer) ? 1 : 0;
        });
    for (std::size_t i = 1; i < threads.size(); ++i) threads[i].join();  // while the row is locked
    EXPECT_EQ(ok, operations - 1);
    user.run("rollback");
    threads[0].join();
    EXPECT_EQ(ok, operations);
}

TEST(SharedStore, SettingsThatLoseAcknowledgedClaimsAreRefused) {
    const TestDatabase database;
    TestConnection admin(database.uri());
    admin.run(
        "do $$ begin execute format('alter database %I set synchronous_commit = off', current_database()); end $$");
    const auto refused = postgres::open({.uri = database.uri()});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.failure().code, Code::invalid);
    EXPECT_NE(refused.failure().message.find("synchronous_commit"), std::string::npos) << refused.failure().message;
}

TEST(SharedStore, ANewerSchemaAndAMissingOneAreRefusedWithWhatToDo) {
    const TestDatabase database;
    TestConnection admin(database.uri());
    admin.run("update semel.meta set value = value + 1 where name = 'schema'");
    auto refused = postgres::open({.uri = database.uri()});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.failure().message.find("use a newer semel"), std::string::npos) << refused.failure().message;
    EXPECT_FALSE(postgres::migrate({.uri = database.uri()}));
    admin.run("drop schema semel cascade");
    refused = postgres::open({.uri = database.uri()});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.failure().message.find("semel migrate"), std::string::npos) << refused.failure().message;
    EXPECT_TRUE(postgres::migrate({.uri = database.uri()}));
    EXPECT_TRUE(postgres::migrate({.uri = database.uri()}));
    EXPECT_TRUE(postgres::open({.uri = database.uri()}));
}

}  // namespace
}  // namespace semel::test
