// What only PostgreSQL can do to `once`: waiting, failed transactions, strange sessions, few rights.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>

#include "support/commands.hpp"
#include "support/postgres.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

const Outcome created{201, "{\"id\": 7}", true};

class PostgresOnce : public testing::Test {
protected:
    Result<OnceAnswer> once(TestConnection& on, const std::string& key = "k1", const OnceOptions& options = {}) {
        const Effect effect = [&] {
            on.run("insert into public.effect values ('" + key + "')");
            return created;
        };
        return postgres::once(on.raw(), operation(key), fingerprint("body"), effect, options);
    }
    /// Waits until the server says that the connection waits for a lock.
    void wait_until_blocked(TestConnection& connection) {
        const std::string pid = std::to_string(PQbackendPID(connection.raw()));
        const auto deadline = std::chrono::steady_clock::now() + 30s;
        while (look.value("select wait_event_type from pg_stat_activity where pid = " + pid) != "Lock") {
            if (std::chrono::steady_clock::now() > deadline) {
                one.run("rollback");  // or the waiting thread would never end
                throw std::runtime_error("it does not wait");
            }
            std::this_thread::yield();
        }
    }

    TestDatabase database;
    TestConnection look{database.uri()};
    TestConnection one{database.uri()};
    TestConnection two{database.uri()};
    bool made = (look.run("create table public.effect (what text)"), true);
};

// ---- a concurrent duplicate --------------------------------------------------------------------------------------

TEST_F(PostgresOnce, AtReadCommittedADuplicateWaitsAndGetsTheReplay) {
    one.run("begin");
    ASSERT_EQ(once(one).value(), OnceAnswer{Applied{created}});
    two.run("begin");
    auto waiting = std::async(std::launch::async, [&] { return once(two); });
    wait_until_blocked(two);
    one.run("commit");
    EXPECT_EQ(std::get<Replay>(waiting.get().value()).outcome, created);
    two.run("commit");
    EXPECT_EQ(look.value("select count(*) from public.effect"), "1");
}

TEST_F(PostgresOnce, AtReadCommittedADuplicateOfARolledBackOneRuns) {
    one.run("begin");
    ASSERT_EQ(once(one).value(), OnceAnswer{Applied{created}});
    two.run("begin");
    auto waiting = std::async(std::launch::async, [&] { return once(two); });
    wait_until_blocked(two);
    one.run("rollback");
    EXPECT_EQ(waiting.get().value(), OnceAnswer{Applied{created}});
    two.run("commit");
    EXPECT_EQ(look.value("select count(*) from public.effect"), "1");
}

TEST_F(PostgresOnce, AtStricterLevelsADuplicateIsToldToRetryTheTransaction) {
    for (const std::string level : {"repeatable read", "serializable"}) {
        one.run("begin isolation level " + level);
        ASSERT_EQ(once(one, level).value(), OnceAnswer{Applied{created}});
        two.run("begin isolation level " + level);
        two.run("select 1 from public.effect");  // takes the snapshot
        auto waiting = std::async(std::launch::async, [&] { return once(two, level); });
        wait_until_blocked(two);
        one.run("commit");
        EXPECT_EQ(waiting.get().value(), OnceAnswer{RetryTransaction{}});
        two.run("rollback");
        two.run("begin isolation level " + level);
        EXPECT_EQ(std::get<Replay>(once(two, level).value()).outcome, created);
        two.run("commit");
    }
    EXPECT_EQ(look.value("select count(*) from public.effect"), "2");
}

TEST_F(PostgresOnce, ADuplicateWaitsForOneThatTakesAReleasedOperation) {
    const auto store = std::move(postgres::open({.uri = database.uri()})).value();
    const auto session = std::move(store->session()).value();
    const Claim leased = claim("k1");
    execute(*session, Release{holder(leased, as<Claimed>(execute(*session, leased)))});
    one.run("begin");
    ASSERT_EQ(once(one).value(), OnceAnswer{Applied{created}});
    two.run("begin");
    auto waiting = std::async(std::launch::async, [&] { return once(two); });
    wait_until_blocked(two);
    one.run("commit");
    EXPECT_EQ(std::get<Replay>(waiting.get().value()).outcome, created);
    two.run("commit");
}

TEST_F(PostgresOnce, ADeadlockIsToldAsRetryTransaction) {
    one.run("begin");
    two.run("begin");
    ASSERT_EQ(once(one, "a").value(), OnceAnswer{Applied{created}});
    ASSERT_EQ(once(two, "b").value(), OnceAnswer{Applied{created}});
    auto first = std::async(std::launch::async, [&] {
        const auto answer = once(one, "b");
        one.run(std::holds_alternative<RetryTransaction>(answer.value()) ? "rollback" : "commit");
        return *answer;
    });
    wait_until_blocked(one);
    const auto second = once(two, "a");
    two.run(std::holds_alternative<RetryTransaction>(second.value()) ? "rollback" : "commit");
    const OnceAnswer other = first.get();
    EXPECT_EQ(static_cast<int>(std::holds_alternative<RetryTransaction>(*second)) +
                  static_cast<int>(std::holds_alternative<RetryTransaction>(other)),
              1);
    EXPECT_EQ(look.value("select count(*) from public.effect"), "2");
}

TEST_F(PostgresOnce, ALockTimeoutOfTheCallersIsToldAsRetryTransaction) {
    one.run("begin");
    ASSERT_EQ(once(one).value(), OnceAnswer{Applied{created}});
    two.run("begin; set local lock_timeout = '50ms'");
    EXPECT_EQ(once(two).value(), OnceAnswer{RetryTransaction{}});
    two.run("rollback");
    one.run("commit");
}

// ---- transactions that have gone wrong -----------------------------------------------------------------------------

TEST_F(PostgresOnce, AnEffectThatSwallowsAFailedStatementIsRolledBack) {
    one.run("begin");
    one.run("insert into public.effect values ('before')");
    const auto answer = postgres::once(one.raw(), operation("k1"), fingerprint("body"), [&] {
        PQclear(PQexec(one.raw(), "insert into public.effect values ('k1')"));
        PQclear(PQexec(one.raw(), "select 1 / 0"));
        return created;
    });
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.failure().code, Code::unavailable);
    EXPECT_NE(answer.failure().message.find("did not throw"), std::string::npos) << answer.failure().message;
    one.run("insert into public.effect values ('after')");
    one.run("commit");
    EXPECT_EQ(look.value("select string_agg(what, ' ' order by what) from public.effect"), "after before");
    EXPECT_EQ(look.value("select count(*) from semel.operation"), "0");
}

TEST_F(PostgresOnce, AFailedTransactionIsRefused) {
    one.run("begin");
    EXPECT_THROW(one.run("select 1 / 0"), std::runtime_error);
    const auto answer = once(one);
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.failure().code, Code::invalid);
    one.run("rollback");
}

TEST_F(PostgresOnce, AnEffectThatBeginsATransactionOfItsOwnIsNotTakenForThisOne) {
    one.run("begin");
    const auto answer = postgres::once(one.raw(), operation("k1"), fingerprint("body"), [&] {
        one.run("insert into public.effect values ('k1'); commit");
        one.run("begin");
        return created;
    });
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.failure().code, Code::indeterminate) << answer.failure().message;
    one.run("rollback");
    one.run("begin");
    EXPECT_EQ(std::get<Replay>(once(one).value()).outcome, Outcome::tombstone(0));
    one.run("commit");
    EXPECT_EQ(look.value("select count(*) from public.effect"), "1");
}

TEST_F(PostgresOnce, ALostConnectionIsUnavailable) {
    one.run("begin");
    const auto answer = postgres::once(one.raw(), operation("k1"), fingerprint("body"), [&] {
        one.run("insert into public.effect values ('k1')");
        look.run("select pg_terminate_backend(" + std::to_string(PQbackendPID(one.raw())) + ")");
        PQclear(PQexec(one.raw(), "select 1"));
        return created;
    });
    ASSERT_FALSE(answer.ok());
    EXPECT_EQ(answer.failure().code, Code::unavailable) << answer.failure().message;
    two.run("begin");
    EXPECT_EQ(once(two).value(), OnceAnswer{Applied{created}});
    two.run("commit");
    EXPECT_EQ(look.value("select count(*) from public.effect"), "1");
}

TEST_F(PostgresOnce, WhatCannotWorkSaysWhatToDo) {
    const auto refused = [&](TestConnection& on, std::string_view wanted) {
        const auto answer = once(on);
        ASSERT_FALSE(answer.ok());
        EXPECT_EQ(answer.failure().code, Code::invalid) << answer.failure().message;
        EXPECT_NE(answer.failure().message.find(wanted), std::string::npos) << answer.failure().message;
    };
    refused(one, "say BEGIN first");
    one.run("begin read only");
    refused(one, "read-only");
    one.run("rollback");
    TestConnection elsewhere(server_variable("SEMEL_TEST_POSTGRES_ADMIN"));
    elsewhere.run("begin");
    refused(elsewhere, "semel migrate");
    elsewhere.run("rollback");
    EXPECT_EQ(postgres::once(nullptr, operation("k1"), fingerprint("body"), [] { return created; }).failure().code,
              Code::invalid);
    ASSERT_EQ(PQenterPipelineMode(one.raw()), 1);
    refused(one, "pipeline");
}

// ---- sessions as people have them ----------------------------------------------------------------------------------

TEST_F(PostgresOnce, TheSessionsSettingsDoNotMatter) {
    look.run("create schema trap");
    look.run("create table trap.operation (op text)");
    look.run("create function trap.sha256(bytea) returns bytea language sql return null::bytea");
    look.run("create function trap.never(text, text) returns boolean language sql return false");
    look.run("create operator trap.= (leftarg = text, rightarg = text, function = trap.never)");
    look.run("create function trap.never(bigint, bigint) returns boolean language sql return false");
    look.run("create operator trap.<> (leftarg = bigint, rightarg = bigint, function = trap.never)");
    for (const std::string setting :
         {"search_path = trap, pg_catalog", "search_path=''", "standard_conforming_strings = off",
          "client_encoding = 'LATIN1'", "bytea_output = 'escape'", "datestyle = 'SQL, DMY'",
          "intervalstyle = 'sql_standard'", "timezone = 'Asia/Kathmandu'", "plan_cache_mode = 'force_generic_plan'",
          "extra_float_digits = 0"}) {
        TestConnection strange(database.uri());
        strange.run("set " + setting);
        strange.run("begin");
        const std::string key = setting.substr(0, setting.find('\''));
        EXPECT_EQ(once(strange, key).value(), OnceAnswer{Applied{created}}) << setting;
        EXPECT_EQ(std::get<Replay>(once(strange, key).value()).outcome, created) << setting;
        strange.run("commit");
        const auto found = std::move(postgres::open({.uri = database.uri()})).value()->find(operation(key).id());
        ASSERT_TRUE(found.ok()) << found.failure().message;
        EXPECT_EQ((*found)->outcome, created) << setting;
    }
}

TEST_F(PostgresOnce, TheRightsThatTheGuideNamesAreEnough) {
    const std::string role = "r_" + to_hex(mint_attempt().bytes);
    const std::string admin = server_variable("SEMEL_TEST_POSTGRES_ADMIN");
    const std::string name = database.uri().substr(database.uri().rfind('/') + 1);
    TestConnection grants(admin.substr(0, admin.rfind('/') + 1) + name);
    grants.run("create role " + role);
    grants.run("grant usage on schema semel to " + role);
    grants.run("grant select, insert, update on semel.operation to " + role);
    grants.run("grant usage on sequence semel.token to " + role);
    grants.run("grant select on semel.operations to " + role);
    grants.run("grant select, insert on public.effect to " + role);
    grants.run("set role " + role);
    grants.run("begin");
    EXPECT_EQ(once(grants).value(), OnceAnswer{Applied{created}});
    EXPECT_EQ(std::get<Replay>(once(grants).value()).outcome, created);
    EXPECT_EQ(grants.value("select state from semel.find('acme/payments', 'k1')"), "settled");
    grants.run("commit");
    grants.run("reset role");
    grants.run("drop owned by " + role);
    grants.run("drop role " + role);
}

TEST_F(PostgresOnce, TablesMayBeNamedWithTheirSchema) {
    look.run("create schema shop; create table shop.\"Order\" (id text primary key, state text)");
    one.run("begin");
    const postgres::Column id{"id", "o1"};
    const postgres::Column state{"state", "new"};
    const std::string returning[] = {"state"};
    EXPECT_TRUE(postgres::create_once(one.raw(), "shop.Order", std::span(&id, 1), std::span(&state, 1), returning)
                    .value()
                    .created);
    EXPECT_EQ(postgres::apply_if(one.raw(), "shop.Order", id, "state", "new", "paid").value(), AppliedIf::applied);
    one.run("commit");
    one.run("begin");
    const auto injected = postgres::create_once(one.raw(), "shop.Order\" (id) values ('x'); drop table shop.\"Order",
                                                std::span(&id, 1), {}, {});
    ASSERT_FALSE(injected.ok());
    one.run("rollback");
    EXPECT_EQ(look.value("select state from shop.\"Order\""), "paid");
}

}  // namespace
}  // namespace semel::test
