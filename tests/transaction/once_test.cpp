// What `once` and its halves promise in a caller's own transaction, the same in every mode.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <latch>
#include <random>
#include <stdexcept>
#include <thread>

#include "ledger/row.hpp"
#include "ledger/rules.hpp"
#include "support/commands.hpp"
#include "transaction/applications.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

const Outcome created{201, "{\"id\": 7}", true};

class Once : public testing::TestWithParam<Mode> {
protected:
    /// The business write of all these tests.
    static Effect writes(Client& client, const std::string& what, Outcome outcome = created) {
        return [&client, what, outcome] {
            client.run("insert into effect values ('" + what + "')");
            return outcome;
        };
    }
    std::string effects(const std::string& what = "%") {
        return client->value("select count(*) from effect where what like '" + what + "'");
    }

    /// A whole transaction around one operation, run again as long as the database asks for it.
    static OnceAnswer transact(Client& client, const Operation& operation, const Outcome& outcome = created,
                               const std::string& body = "body", const OnceOptions& options = {}) {
        while (true) {
            client.begin();
            auto answer =
                client.once(operation, fingerprint(body), writes(client, operation.key.text(), outcome), options);
            if (!answer) {
                client.rollback();
                throw std::runtime_error(answer.failure().message);
            }
            if (std::holds_alternative<RetryTransaction>(*answer)) {
                client.rollback();
                continue;
            }
            if (client.commit()) return std::move(*answer);
        }
    }
    Result<OnceAnswer> try_once(const Operation& operation, const std::string& body = "body",
                                const OnceOptions& options = {}) {
        client->begin();
        auto answer = client->once(operation, fingerprint(body), writes(*client, operation.key.text()), options);
        client->rollback();
        return answer;
    }
    Claimed claim_in_transaction(const Operation& operation) {
        auto answer = client->claim(operation, fingerprint("body"));
        if (!answer) throw std::runtime_error(answer.failure().message);
        return std::get<Claimed>(*answer);
    }
    std::optional<Record> find(const Operation& operation) {
        auto found = application->store().find(operation.id());
        if (!found) throw std::runtime_error(found.failure().message);
        return *found;
    }
    Answer by_lease(Command command) { return execute(*session, std::move(command)); }

    std::unique_ptr<Application> application = GetParam().make();
    std::unique_ptr<Client> client = application->connect();
    std::unique_ptr<Session> session = std::move(application->store().session()).value();
};

INSTANTIATE_TEST_SUITE_P(Modes, Once, testing::ValuesIn(all_modes()), [](const auto& mode) { return mode.param.name; });

// ---- one after the other ---------------------------------------------------------------------------------------

TEST_P(Once, TheFirstRunsAndEveryRepeatReplays) {
    EXPECT_EQ(transact(*client, operation("k1")), OnceAnswer{Applied{created}});
    for (int repeat = 0; repeat < 3; ++repeat) {
        const auto replay = std::get<Replay>(transact(*client, operation("k1"), {500, "another", true}));
        EXPECT_EQ(replay.outcome, created);
        EXPECT_EQ(replay.settled_at, find(operation("k1"))->settled_at);
    }
    EXPECT_EQ(effects(), "1");
    EXPECT_TRUE(std::holds_alternative<Applied>(transact(*client, operation("k2"))));
    EXPECT_TRUE(std::holds_alternative<Applied>(transact(*client, operation("k1", "other/payments"))));
    EXPECT_EQ(effects(), "3");
}

TEST_P(Once, AnOutcomeIsReplayedByteForByte) {
    std::string all_bytes;
    for (int byte = 0; byte < 256; ++byte) all_bytes.push_back(static_cast<char>(byte));
    const Outcome outcomes[] = {
        {0, "", true}, {-7, all_bytes, true}, Outcome::tombstone(204), {2147483647, std::string(300'000, 'x'), true}};
    for (std::size_t i = 0; i < std::size(outcomes); ++i) {
        const Operation each = operation("k" + std::to_string(i));
        EXPECT_EQ(transact(*client, each, outcomes[i]), OnceAnswer{Applied{outcomes[i]}});
        EXPECT_EQ(std::get<Replay>(transact(*client, each)).outcome, outcomes[i]);
        EXPECT_EQ(find(each)->outcome, outcomes[i]);
    }
}

TEST_P(Once, ARollbackLeavesNothing) {
    client->begin();
    ASSERT_TRUE(client->once(operation("k1"), fingerprint("body"), writes(*client, "k1")).ok());
    client->rollback();
    EXPECT_EQ(effects(), "0");
    EXPECT_EQ(find(operation("k1")), std::nullopt);
    EXPECT_TRUE(std::holds_alternative<Applied>(transact(*client, operation("k1"))));
    EXPECT_EQ(effects(), "1");
}

TEST_P(Once, AnEffectThatThrowsLeavesNothingAndTheTransactionGoesOn) {
    client->begin();
    client->run("insert into effect values ('before')");
    const Effect fails = [&]() -> Outcome {
        client->run("insert into effect values ('k1')");
        throw std::domain_error("card declined");
    };
    EXPECT_THROW((void)client->once(operation("k1"), fingerprint("body"), fails), std::domain_error);
    EXPECT_EQ(client->once(operation("k2"), fingerprint("body"), writes(*client, "k2")).value(),
              OnceAnswer{Applied{created}});
    client->run("insert into effect values ('after')");
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(effects("k1"), "0");
    EXPECT_EQ(effects(), "3");
    EXPECT_EQ(find(operation("k1")), std::nullopt);
    EXPECT_TRUE(std::holds_alternative<Applied>(transact(*client, operation("k1"))));
}

TEST_P(Once, AStatementThatFailsInTheEffectLeavesNothing) {
    client->begin();
    const Effect fails = [&]() -> Outcome {
        client->run("insert into effect values ('k1')");
        client->run("insert into no_such_table values (1)");
        return created;
    };
    EXPECT_THROW((void)client->once(operation("k1"), fingerprint("body"), fails), std::runtime_error);
    client->run("insert into effect values ('after')");
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(effects(), "1");
    EXPECT_EQ(find(operation("k1")), std::nullopt);
}

TEST_P(Once, OneInsideAnotherSharesItsFate) {
    const auto nest = [&](bool fail) {
        client->begin();
        const Effect outer = [&]() -> Outcome {
            const auto inner = client->once(operation("inner"), fingerprint("body"), writes(*client, "inner"));
            EXPECT_EQ(inner.value(), OnceAnswer{Applied{created}});
            if (fail) throw std::runtime_error("after the inner one");
            return created;
        };
        if (fail) {
            EXPECT_THROW((void)client->once(operation("outer"), fingerprint("body"), outer), std::runtime_error);
        } else {
            EXPECT_EQ(client->once(operation("outer"), fingerprint("body"), outer).value(),
                      OnceAnswer{Applied{created}});
        }
        ASSERT_TRUE(client->commit());
    };
    nest(true);
    EXPECT_EQ(effects(), "0");
    EXPECT_EQ(find(operation("inner")), std::nullopt);
    nest(false);
    EXPECT_EQ(effects(), "1");
    EXPECT_EQ(find(operation("inner"))->outcome, created);
    EXPECT_EQ(find(operation("outer"))->outcome, created);
}

TEST_P(Once, I8ForgettingToSettleLeavesATombstoneAndNeverASecondRun) {
    client->begin();
    claim_in_transaction(operation("k1"));
    client->run("insert into effect values ('k1')");
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(std::get<Replay>(transact(*client, operation("k1"))).outcome, Outcome::tombstone(0));
    EXPECT_EQ(effects(), "1");
}

TEST_P(Once, AnEffectThatEndsTheTransactionItselfIsNotRunAgain) {
    client->begin();
    const Effect commits = [&] {
        client->run("insert into effect values ('k1')");
        EXPECT_TRUE(client->commit());
        return created;
    };
    const auto answer = client->once(operation("k1"), fingerprint("body"), commits);
    ASSERT_FALSE(answer.ok());
    EXPECT_TRUE(std::holds_alternative<Replay>(transact(*client, operation("k1"))));
    EXPECT_EQ(effects(), "1");
}

TEST_P(Once, I7AnotherRequestUnderTheSameKeyIsAMismatch) {
    transact(*client, operation("settled"));
    const Claim running = claim("running");
    by_lease(running);
    const Claim unknown = claim("unknown");
    by_lease(Abandon{holder(unknown, as<Claimed>(by_lease(unknown)))});
    for (const std::string key : {"settled", "running", "unknown"})
        EXPECT_EQ(transact(*client, operation(key), created, "another body"), OnceAnswer{Mismatch{}}) << key;
    Fingerprint other_version = fingerprint("body");
    other_version.version = 2;
    client->begin();
    EXPECT_EQ(client->once(operation("settled"), other_version, writes(*client, "x")).value(), OnceAnswer{Mismatch{}});
    client->rollback();
    EXPECT_EQ(effects(), "1");
}

TEST_P(Once, WithoutATransactionItIsRefused) {
    const auto refused = [](const auto& result) { return !result.ok() && result.failure().code == Code::invalid; };
    EXPECT_TRUE(refused(client->once(operation("k1"), fingerprint("body"), writes(*client, "k1"))));
    EXPECT_TRUE(refused(client->claim(operation("k1"), fingerprint("body"))));
    EXPECT_TRUE(refused(client->settle(operation("k1"), {}, created)));
    EXPECT_TRUE(refused(client->create_once("effect", {{"what", "x"}}, {}, {})));
    EXPECT_TRUE(refused(client->apply_if("effect", {"what", "x"}, "what", "x", "y")));
    EXPECT_EQ(effects(), "0");
}

TEST_P(Once, WhatTheLedgerCannotKeepIsRefusedAndTheTransactionGoesOn) {
    const OnceOptions bad[] = {{.retention = {.identity = 1ms}},
                               {.retention = {.identity = std::chrono::hours{24 * 366 * 101}}},
                               {.retention = {.response = -1s}},
                               {.correlation = "line\nbreak"},
                               {.correlation = std::string(256, 'x')}};
    client->begin();
    for (const OnceOptions& options : bad) {
        const auto answer = client->once(operation("k1"), fingerprint("body"), writes(*client, "k1"), options);
        ASSERT_FALSE(answer.ok());
        EXPECT_EQ(answer.failure().code, Code::invalid);
    }
    EXPECT_TRUE(client->once(operation("k1"), fingerprint("body"), writes(*client, "k1")).ok());
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(effects(), "1");
}

// ---- retention -------------------------------------------------------------------------------------------------

Key uuid7(std::chrono::system_clock::duration ago) { return mint_uuid7(std::chrono::system_clock::now() - ago); }

TEST_P(Once, AnOldTimeOrderedKeyIsExpiredOnceItMayHaveBeenSwept) {
    const OnceOptions an_hour{.retention = {.identity = 1h}};
    const Operation old{Scope::parse("acme/payments").value(), uuid7(2h)};
    const Operation fresh{Scope::parse("acme/payments").value(), uuid7(30min)};
    EXPECT_EQ(transact(*client, old, created, "body", an_hour), OnceAnswer{Expired{}});
    EXPECT_EQ(find(old), std::nullopt);
    EXPECT_EQ(transact(*client, fresh, created, "body", an_hour), OnceAnswer{Applied{created}});
    EXPECT_EQ(find(fresh)->key_time, fresh.key.time());
    EXPECT_EQ(effects(), "1");

    // Remembered for ever, a key has no age; and what is remembered is replayed however old its key.
    EXPECT_EQ(transact(*client, old), OnceAnswer{Applied{created}});
    EXPECT_TRUE(std::holds_alternative<Replay>(transact(*client, old, created, "body", an_hour)));

    // The time may also come from elsewhere.
    const OnceOptions given{.retention = {.identity = 1h}, .key_time = old.key.time()};
    EXPECT_EQ(transact(*client, operation("any format"), created, "body", given), OnceAnswer{Expired{}});
}

TEST_P(Once, AKeyFromTheFutureIsRefused) {
    const OnceOptions an_hour{.retention = {.identity = 1h}};
    const auto ahead = try_once({Scope::parse("acme/payments").value(), uuid7(-10min)}, "body", an_hour);
    ASSERT_FALSE(ahead.ok());
    EXPECT_EQ(ahead.failure().code, Code::invalid);
    const auto a_little = try_once({Scope::parse("acme/payments").value(), uuid7(-1min)}, "body", an_hour);
    EXPECT_TRUE(a_little.ok());
}

TEST_P(Once, TheOptionsAreKept) {
    const OnceOptions options{.retention = {.identity = 48h, .response = 7min},
                              .key_time = time_from_micros(1'900'000'000'000'000),
                              .correlation = "order-7"};
    client->begin();
    OnceOptions possible = options;
    possible.key_time = std::nullopt;
    ASSERT_TRUE(client->once(operation("k1"), fingerprint("body"), writes(*client, "k1"), possible).ok());
    ASSERT_TRUE(client->commit());
    const auto record = find(operation("k1"));
    EXPECT_EQ(record->policy.retention, options.retention);
    EXPECT_EQ(record->correlation, "order-7");
    EXPECT_EQ(due_at(*record), *record->settled_at + 7min);
    EXPECT_EQ(expires_at(*record), *record->settled_at + 48h);

    transact(*client, operation("k2"), created, "body", {.retention = {.identity = {}, .response = std::nullopt}});
    EXPECT_EQ(due_at(*find(operation("k2"))), std::nullopt);
    EXPECT_EQ(application->stored(operation("k2").id(), "due"), "");
}

// ---- claim and settle ------------------------------------------------------------------------------------------

TEST_P(Once, TheTwoHalvesMakeAWhole) {
    client->begin();
    const Claimed mine = claim_in_transaction(operation("k1"));
    client->run("insert into effect values ('k1')");
    EXPECT_EQ(std::get<Replay>(client->claim(operation("k1"), fingerprint("body")).value()).outcome,
              Outcome::tombstone(0));
    EXPECT_TRUE(std::holds_alternative<Ok>(client->settle(operation("k1"), mine, created).value()));
    // Said twice it is the same; another outcome is not taken.
    EXPECT_TRUE(std::holds_alternative<Ok>(client->settle(operation("k1"), mine, created).value()));
    EXPECT_EQ(client->settle(operation("k1"), mine, Outcome::tombstone(500)).value(), HolderAnswer{Settled{created}});
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(find(operation("k1"))->outcome, created);
}

TEST_P(Once, I2OnlyTheTransactionThatClaimedMayGiveTheOutcome) {
    client->begin();
    const Claimed mine = claim_in_transaction(operation("k1"));
    ASSERT_TRUE(client->commit());
    const HolderAnswer as_it_is = Settled{Outcome::tombstone(0)};
    const auto settle_on = [&](Client& other) {
        other.begin();
        auto answer = other.settle(operation("k1"), mine, created);
        EXPECT_TRUE(other.commit());
        return answer.value();
    };
    EXPECT_EQ(settle_on(*client), as_it_is);
    EXPECT_EQ(settle_on(*application->connect()), as_it_is);
    EXPECT_TRUE(is<Fenced>(by_lease(Settle{{operation("k1").id(), mine.token, mine.attempt}, created, true})));
    EXPECT_EQ(find(operation("k1"))->outcome, Outcome::tombstone(0));
    EXPECT_EQ(std::get<Replay>(transact(*client, operation("k1"))).outcome, Outcome::tombstone(0));
}

TEST_P(Once, I2ADoneOperationIsSettledForAnotherTransactionEvenWithTheSameOutcome) {
    client->begin();
    const Claimed mine = claim_in_transaction(operation("k1"));
    EXPECT_TRUE(std::holds_alternative<Ok>(client->settle(operation("k1"), mine, created).value()));
    ASSERT_TRUE(client->commit());
    client->begin();
    EXPECT_EQ(client->settle(operation("k1"), mine, created).value(), HolderAnswer{Settled{created}});
    client->rollback();
}

TEST_P(Once, SavepointsAreTheSameTransaction) {
    client->begin();
    client->run("savepoint one");
    const Claimed mine = claim_in_transaction(operation("k1"));
    client->run("savepoint two");
    EXPECT_TRUE(std::holds_alternative<Ok>(client->settle(operation("k1"), mine, Outcome::tombstone(500)).value()));
    client->run("rollback to two");
    EXPECT_TRUE(std::holds_alternative<Ok>(client->settle(operation("k1"), mine, created).value()));
    client->run("release two");
    client->run("release one");
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(find(operation("k1"))->outcome, created);

    client->begin();
    client->run("savepoint one");
    const Claimed gone = claim_in_transaction(operation("k2"));
    client->run("rollback to one");
    EXPECT_EQ(client->settle(operation("k2"), gone, created).value(), HolderAnswer{Fenced{}});
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(find(operation("k2")), std::nullopt);
}

TEST_P(Once, I3AnotherTokenIsFenced) {
    client->begin();
    Claimed mine = claim_in_transaction(operation("k1"));
    ++mine.token.value;
    EXPECT_EQ(client->settle(operation("k1"), mine, created).value(), HolderAnswer{Fenced{}});
    EXPECT_EQ(client->settle(operation("absent"), mine, created).value(), HolderAnswer{Fenced{}});
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(find(operation("k1"))->outcome, Outcome::tombstone(0));
}

// ---- beside leases ---------------------------------------------------------------------------------------------

TEST_P(Once, I1ALiveLeaseIsBusyAndItsHolderIsNotHeldUp) {
    const Claim leased = claim("k1");
    const Holder held = holder(leased, as<Claimed>(by_lease(leased)));
    client->begin();
    const auto busy = std::get<Busy>(client->claim(operation("k1"), fingerprint("body")).value());
    EXPECT_GT(busy.retry_after, 20s);
    EXPECT_LE(busy.retry_after, 30s);
    if (GetParam().name != "sqlite") {
        // SQLite has one writer at a time; elsewhere a transaction that was told Busy stands in nobody's way.
        EXPECT_TRUE(is<Ok>(by_lease(Renew{held})));
    }
    ASSERT_TRUE(client->commit());
    EXPECT_TRUE(is<Ok>(by_lease(Settle{held, created, true})));
    EXPECT_EQ(std::get<Replay>(transact(*client, operation("k1"))).outcome, created);
    EXPECT_EQ(effects(), "0");
}

TEST_P(Once, AnAbandonedOperationIsUnknown) {
    Claim leased = claim("k1");
    leased.policy.on_unknown = OnUnknown::resume;  // a transaction has no lease to take it over with
    by_lease(Abandon{holder(leased, as<Claimed>(by_lease(leased)))});
    const auto since = find(operation("k1"))->unknown_since;
    EXPECT_EQ(transact(*client, operation("k1")), OnceAnswer{Unknown{*since}});
    EXPECT_EQ(effects(), "0");
}

TEST_P(Once, ALeaseThatRanOutIsUnknownAndTheHolderMayStillSettle) {
    Claim leased = claim("k1");
    leased.policy.lease = 1us;
    const Claimed granted = as<Claimed>(by_lease(leased));
    while (application->store().now().value() <= granted.lease_until + 2ms) std::this_thread::yield();
    EXPECT_EQ(transact(*client, operation("k1")), OnceAnswer{Unknown{granted.lease_until}});
    client->begin();
    EXPECT_EQ(client->claim(operation("k1"), fingerprint("body")).value(),
              TransactionClaim{Unknown{granted.lease_until}});
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(find(operation("k1"))->state, State::unknown);
    EXPECT_TRUE(is<Ok>(by_lease(Settle{holder(leased, granted), created, true})));
    EXPECT_EQ(std::get<Replay>(transact(*client, operation("k1"))).outcome, created);
}

TEST_P(Once, I3AReleasedOperationIsClaimedUnderAGreaterToken) {
    const Claim leased = claim("k1", "another body");
    const Claimed granted = as<Claimed>(by_lease(leased));
    ASSERT_TRUE(is<Ok>(by_lease(Release{holder(leased, granted)})));
    EXPECT_EQ(find(operation("k1")), std::nullopt);
    EXPECT_EQ(transact(*client, operation("k1")), OnceAnswer{Applied{created}});
    EXPECT_GT(find(operation("k1"))->token, granted.token);
    EXPECT_EQ(std::get<Replay>(transact(*client, operation("k1"))).outcome, created);
    EXPECT_TRUE(is<Fenced>(by_lease(Settle{holder(leased, granted), Outcome::tombstone(1), true})));
}

TEST_P(Once, WhatATransactionDidIsReplayedToALease) {
    transact(*client, operation("k1"));
    EXPECT_EQ(as<Replay>(by_lease(claim("k1"))).outcome, created);
    EXPECT_TRUE(is<Mismatch>(by_lease(claim("k1", "another body"))));
}

TEST_P(Once, WhatALeaseDidIsReplayedToATransaction) {
    const Claim leased = claim("k1");
    by_lease(Settle{holder(leased, as<Claimed>(by_lease(leased))), created, true});
    EXPECT_EQ(std::get<Replay>(transact(*client, operation("k1"))).outcome, created);
    EXPECT_EQ(effects(), "0");
}

TEST_P(Once, ATombstoneOfTheSweepIsReplayed) {
    transact(*client, operation("k1"), created, "body", {.retention = {.identity = {}, .response = 0s}});
    ASSERT_EQ(application->store().sweep(10).value().bodies_dropped, 1U);
    EXPECT_EQ(std::get<Replay>(transact(*client, operation("k1"))).outcome, Outcome::tombstone(201));
    EXPECT_EQ(transact(*client, operation("k1"), created, "another body"), OnceAnswer{Mismatch{}});
    EXPECT_EQ(effects(), "1");
}

// ---- joined: the application settles what a lease holds ----------------------------------------------------------

Claim joined(const std::string& key, Duration lease = 30s) {
    Claim leased = claim(key);
    leased.policy.on_unknown = OnUnknown::joined;
    leased.policy.lease = lease;
    return leased;
}

TEST_P(Once, I12AJoinedOperationIsSettledTogetherWithItsEffect) {
    const Claim leased = joined("k1");
    const Claimed granted = as<Claimed>(by_lease(leased));
    // The holder's token may come without its attempt: from the header of a request.
    for (const bool with_attempt : {true, false}) {
        Claimed told = granted;
        if (!with_attempt) told.attempt = {};
        client->begin();
        client->run("insert into effect values ('k1')");
        EXPECT_TRUE(std::holds_alternative<Ok>(client->settle(operation("k1"), told, created).value()));
        client->rollback();
    }
    EXPECT_EQ(effects(), "0");
    EXPECT_EQ(find(operation("k1"))->state, State::running);

    client->begin();
    client->run("insert into effect values ('k1')");
    EXPECT_TRUE(std::holds_alternative<Ok>(client->settle(operation("k1"), granted, created).value()));
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(effects(), "1");
    EXPECT_EQ(as<Settled>(by_lease(Settle{holder(leased, granted), Outcome::tombstone(504), true})).outcome, created);
    EXPECT_EQ(as<Replay>(by_lease(claim("k1"))).outcome, created);

    // The same transaction once more, because the reply to its COMMIT was lost: not Ok, or its effect would be a second one.
    client->begin();
    EXPECT_EQ(client->settle(operation("k1"), granted, created).value(), HolderAnswer{Settled{created}});
    client->rollback();
}

TEST_P(Once, I3AJoinedSettleAfterATakeoverIsFenced) {
    const Claim first = joined("k1", 1us);
    const Claimed late = as<Claimed>(by_lease(first));
    while (application->store().now().value() <= late.lease_until) std::this_thread::yield();
    const Claimed current = as<Claimed>(by_lease(joined("k1")));
    ASSERT_TRUE(current.doubt);

    client->begin();
    client->run("insert into effect values ('late')");
    EXPECT_EQ(client->settle(operation("k1"), late, created).value(), HolderAnswer{Fenced{}});
    client->rollback();

    client->begin();
    client->run("insert into effect values ('current')");
    EXPECT_TRUE(std::holds_alternative<Ok>(client->settle(operation("k1"), current, created).value()));
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(effects("late"), "0");
    EXPECT_EQ(effects("current"), "1");
    EXPECT_FALSE(find(operation("k1"))->doubt);
}

// ---- the stored form -------------------------------------------------------------------------------------------

/// The row that is stored is the one that the C++ codec writes for the record that it reads from it.
void expect_canonical(Application& application, const Record& record) {
    const Row row = to_row(record);
    const auto hex = [](const std::optional<std::string>& bytes) { return bytes ? to_hex(*bytes) : ""; };
    EXPECT_EQ(application.stored(record.id, "record"), to_hex(row.record));
    EXPECT_EQ(application.stored(record.id, "outcome"), hex(row.outcome));
    EXPECT_EQ(application.stored(record.id, "scope"), hex(row.scope));
    EXPECT_EQ(application.stored(record.id, "key"), hex(row.key));
    EXPECT_EQ(application.stored(record.id, "due"), row.due ? std::to_string(*row.due) : "");
}

TEST_P(Once, ARecordIsTheOneThatTheRulesMake) {
    const struct {
        std::string name;
        OnceOptions options;
        Outcome outcome;
    } rows[] = {
        {"plain", {}, created},
        {"no body", {}, Outcome::tombstone(204)},
        {"status 0", {}, {0, "x", true}},
        {"negative status", {}, {-1, "", true}},
        {"finite", {.retention = {.identity = 1h, .response = 1us}, .correlation = "c"}, created},
        {"for ever", {.retention = {.identity = {}, .response = {}}}, created},
        {"body as long", {.retention = {.identity = 30min, .response = 24h}}, created},
        {"key time", {.retention = {.identity = 240h}, .key_time = application->store().now().value() - 48h}, created},
        {"long", {.correlation = std::string(255, 'c')}, created}};
    for (const auto& row : rows) {
        for (const bool settles : {true, false}) {
            const Operation each = operation(row.name + (settles ? "" : " unfilled"), "acme/POST /v1/charges#7");
            client->begin();
            const auto answer = client->claim(each, fingerprint("body"), row.options);
            ASSERT_TRUE(answer.ok()) << answer.failure().message;
            if (settles) {
                ASSERT_TRUE(client->settle(each, std::get<Claimed>(*answer), row.outcome).ok());
            }
            ASSERT_TRUE(client->commit());

            const Record found = *find(each);
            const Claim command{.operation = each,
                                .fingerprint = fingerprint("body"),
                                .attempt = found.attempt,
                                .policy = {.retention = row.options.retention},
                                .key_time = row.options.key_time,
                                .correlation = row.options.correlation,
                                .not_after = never,
                                .in_transaction = true};
            Decision expected = decide(std::nullopt, command, {found.created, found.token, Epoch{}});
            if (settles)
                expected =
                    decide(expected.next, Settle{{each.id(), found.token, found.attempt}, row.outcome, true}, {});
            EXPECT_EQ(found, *expected.next) << row.name;
            expect_canonical(*application, found);
        }
    }
}

/// Random leases and transactions on a few operations: after every step the record is what `decide` makes of the one before.
TEST_P(Once, EveryStepIsTheOneThatTheRulesTake) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](unsigned bound) { return random() % bound; };
    constexpr int steps = 200;
    std::vector<std::pair<Operation, Claimed>> granted;
    int changes = 0;
    for (int step = 0; step < steps; ++step) {
        const Operation each = operation("k" + std::to_string(below(40)));
        const std::string body = below(8) == 0 ? "other" : "body";
        std::optional<Claimed> known;
        for (const auto& [whose, token] : granted)
            if (whose == each && below(3) != 0) known = token;
        const auto before = find(each);
        Command command = Release{};
        Answer answer;
        switch (below(5)) {
            case 0: {
                Claim leased = claim(each.key.text(), body);
                leased.policy = {.on_unknown = below(2) == 0 ? OnUnknown::joined : OnUnknown::refuse,
                                 .lease = below(2) == 0 ? Duration{1} : 30s};
                leased.correlation = std::string(below(3) * 100, 'c');
                leased.request = std::string(below(3) * 100, '\xfd');
                if (below(3) == 0)
                    leased.policy.retention = {
                        .identity = 1h, .response = below(2) == 0 ? std::optional<Duration>(1min) : std::nullopt};
                if (const Claimed* mine = std::get_if<Claimed>(&(answer = by_lease(leased))))
                    granted.emplace_back(each, *mine);
                continue;
            }
            case 1:
                if (!known) continue;
                switch (below(3)) {
                    case 0: by_lease(Abandon{{each.id(), known->token, known->attempt}}); break;
                    case 1: by_lease(Release{{each.id(), known->token, known->attempt}}); break;
                    default:
                        by_lease(SaveCheckpoint{{each.id(), known->token, known->attempt},
                                                {"step", std::string(below(300), 'v')}});
                }
                continue;
            case 2: {
                if (!known) continue;
                const Outcome outcome{static_cast<std::int32_t>(below(3)) * 200, std::string(below(3), 'b'), true};
                client->begin();
                const auto settled = client->settle(each, *known, outcome);
                ASSERT_TRUE(settled.ok()) << settled.failure().message;
                ASSERT_TRUE(client->commit());
                std::visit([&](const auto& held) { answer = held; }, *settled);
                if (is<Settled>(answer)) continue;  // an equal outcome too: see I2 above
                command = Settle{{each.id(), known->token, known->attempt}, outcome, true};
                break;
            }
            default: {
                Claim in_transaction = claim(each.key.text(), body);
                in_transaction.in_transaction = true;
                client->begin();
                const auto claimed = client->claim(each, in_transaction.fingerprint);
                ASSERT_TRUE(claimed.ok()) << claimed.failure().message;
                ASSERT_TRUE(client->commit());
                std::visit(match{[](const RetryTransaction&) { FAIL() << "nobody else is there"; },
                                 [&](const auto& held) { answer = held; }},
                           *claimed);
                command = in_transaction;
            }
        }
        const auto after = find(each);
        const bool changed = before != after;
        changes += changed ? 1 : 0;
        Moment moment{application->store().now().value(), Token{}, Epoch{}};
        if (changed) moment.now = after->history.back().at;
        if (auto* grant = std::get_if<Claim>(&command); grant != nullptr && is<Claimed>(answer)) {
            moment.fresh = after->token;
            grant->attempt = after->attempt;
        }
        const Decision expected = decide(before, command, moment);
        EXPECT_EQ(answer.index(), expected.answer.index()) << "step " << step;
        EXPECT_EQ(changed, expected.changed) << "step " << step;
        EXPECT_TRUE(after == expected.next) << "step " << step;
        if (after) expect_canonical(*application, *after);
    }
    EXPECT_GT(changes, 10) << "too little happened";
}

TEST_P(Once, AFlippedBitIsNeitherReplayedNorRunAgain) {
    const OperationId id = operation("k1").id();
    transact(*client, operation("k1"), created, "body", {.correlation = "c"});
    const auto damaged = [&](const std::string& what) {
        const auto by_transaction = try_once(operation("k1"));
        ASSERT_FALSE(by_transaction.ok()) << what;
        EXPECT_EQ(by_transaction.failure().code, Code::corrupt) << what << ": " << by_transaction.failure().message;
        client->begin();
        const auto by_settle = client->settle(operation("k1"), Claimed{.token = {1}}, created);
        client->rollback();
        ASSERT_FALSE(by_settle.ok()) << what;
        EXPECT_EQ(by_settle.failure().code, Code::corrupt) << what << ": " << by_settle.failure().message;
        const auto by_store = application->store().find(id);
        ASSERT_FALSE(by_store.ok()) << what;
        EXPECT_EQ(by_store.failure().code, Code::corrupt) << what;
    };
    for (const std::string column : {"record", "outcome", "scope", "key"}) {
        const std::string good = application->stored(id, column);
        for (std::size_t byte = 0; byte < good.size() / 2; ++byte) {
            std::string bytes = from_hex(good).value();
            bytes[byte] ^= 1;
            application->store_column(id, column, to_hex(bytes));
            damaged(column + " byte " + std::to_string(byte));
        }
        application->store_column(id, column, good);
    }
    for (const std::string column : {"token", "due"}) {
        const std::string good = application->stored(id, column);
        application->store_column(id, column, good + " + 1");
        damaged(column);
        application->store_column(id, column, good);
    }
    for (const std::string state : {"0", "1", "2", "7"}) {
        application->store_column(id, "state", state);
        damaged("state " + state);
    }
    application->store_column(id, "state", "3");
    EXPECT_EQ(std::get<Replay>(transact(*client, operation("k1"))).outcome, created);
    EXPECT_EQ(effects(), "1");
}

// ---- at the same time ------------------------------------------------------------------------------------------

/// Runs `work(client, number)` on its own connection in each of `count` threads, all let go at once.
template <class Work>
void together(Application& application, int count, Work work) {
    std::latch start(count);
    std::vector<std::jthread> threads;
    std::atomic<int> failed = 0;
    for (int number = 0; number < count; ++number) {
        threads.emplace_back([&, number] {
            try {
                const auto client = application.connect();
                start.arrive_and_wait();
                work(*client, number);
            } catch (const std::exception& error) {
                ++failed;
                ADD_FAILURE() << "thread " << number << ": " << error.what();
            }
        });
    }
    threads.clear();
    EXPECT_EQ(failed, 0);
}

constexpr int callers = 20;

TEST_P(Once, I1OfTwentyCallersAtOnceExactlyOneRuns) {
    std::atomic<int> applied = 0;
    std::vector<OnceAnswer> answers(callers);
    together(*application, callers, [&](Client& mine, int number) {
        answers[static_cast<std::size_t>(number)] =
            transact(mine, operation("k1"), {200, "from " + std::to_string(number), true});
    });
    EXPECT_EQ(effects(), "1");
    const Outcome outcome = find(operation("k1"))->outcome;
    for (const OnceAnswer& answer : answers) {
        if (const auto* ran = std::get_if<Applied>(&answer)) {
            ++applied;
            EXPECT_EQ(ran->outcome, outcome);
        } else {
            EXPECT_EQ(std::get<Replay>(answer).outcome, outcome);
        }
    }
    EXPECT_EQ(applied, 1);
}

TEST_P(Once, I1CallersThatTakeSeveralKeysInAnyOrderRunEachOnce) {
    constexpr int keys = 2;  // every deadlock takes a second to be noticed
    std::atomic<int> applied = 0;
    together(*application, 2, [&](Client& mine, int number) {
        const int order[] = {number, (number + 1) % keys};
        while (true) {
            int ran = 0;
            bool again = false;
            mine.begin();
            for (const int key : order) {
                const Operation each = operation("k" + std::to_string(key));
                const auto answer = mine.once(each, fingerprint("body"), writes(mine, each.key.text()));
                ASSERT_TRUE(answer.ok()) << answer.failure().message;
                again = std::holds_alternative<RetryTransaction>(*answer);
                if (again) break;
                ran += std::holds_alternative<Applied>(*answer) ? 1 : 0;
            }
            if (again)
                mine.rollback();
            else if (mine.commit()) {
                applied += ran;
                return;
            }
        }
    });
    EXPECT_EQ(applied, keys);
    EXPECT_EQ(effects(), std::to_string(keys));
}

TEST_P(Once, ARolledBackFirstLetsAnotherRun) {
    std::atomic<bool> first = true;
    together(*application, 8, [&](Client& mine, int) {
        if (first.exchange(false)) {
            mine.begin();
            ASSERT_TRUE(mine.once(operation("k1"), fingerprint("body"), writes(mine, "lost")).ok());
            mine.rollback();
            return;
        }
        transact(mine, operation("k1"));
    });
    EXPECT_EQ(effects("lost"), "0");
    EXPECT_EQ(effects("k1"), "1");
}

/// Kill -9 between the effect and COMMIT, in a process of its own.
TEST_P(Once, AKilledProcessLeavesNothing) {
    // Nothing of this process's connections may be used by the child: it makes its own and never cleans up.
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto mine = application->connect();
        mine->begin();
        const auto answer = mine->once(operation("k1"), fingerprint("body"), writes(*mine, "k1"));
        const char told = answer.ok() && std::holds_alternative<Applied>(*answer) ? 'y' : 'n';
        if (write(ready[1], &told, 1) != 1) _exit(1);
        while (true) pause();
    }
    char told = '?';
    ASSERT_EQ(read(ready[0], &told, 1), 1);
    EXPECT_EQ(told, 'y');
    ASSERT_EQ(kill(child, SIGKILL), 0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    close(ready[0]);
    close(ready[1]);
    EXPECT_EQ(transact(*client, operation("k1"), Outcome::tombstone(1)), OnceAnswer{Applied{Outcome::tombstone(1)}});
    EXPECT_EQ(effects(), "1");
}

// ---- natural idempotency ---------------------------------------------------------------------------------------

TEST_P(Once, CreateOnceReturnsTheRowThatWasThereFirst) {
    client->run(
        "create table payment (\"order\" text, part integer, amount integer, note text, unique (\"order\", part))");
    client->begin();
    const auto first = client->create_once("payment", {{"order", "o'1"}, {"part", "1"}},
                                           {{"amount", "100"}, {"note", std::nullopt}}, {"amount", "note", "order"});
    ASSERT_TRUE(first.ok()) << first.failure().message;
    EXPECT_TRUE(first->created);
    EXPECT_EQ(first->row, (std::vector<std::optional<std::string>>{"100", std::nullopt, "o'1"}));
    ASSERT_TRUE(client->commit());

    client->begin();
    const auto second = client->create_once("payment", {{"order", "o'1"}, {"part", "1"}},
                                            {{"amount", "999"}, {"note", "x"}}, {"amount", "note"});
    ASSERT_TRUE(second.ok()) << second.failure().message;
    EXPECT_FALSE(second->created);
    EXPECT_EQ(second->row, (std::vector<std::optional<std::string>>{"100", std::nullopt}));
    EXPECT_TRUE(
        client->create_once("payment", {{"order", "o'1"}, {"part", "2"}}, {{"amount", "5"}}, {}).value().created);
    const auto nothing = client->create_once("payment", {}, {{"amount", "5"}}, {});
    ASSERT_FALSE(nothing.ok());
    EXPECT_EQ(nothing.failure().code, Code::invalid);
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(client->value("select sum(amount) from payment"), "105");
}

TEST_P(Once, CreateOnceByTwentyCallersMakesOneRow) {
    client->run("create table payment (id text primary key, by_whom text)");
    std::atomic<int> made = 0;
    std::vector<std::string> seen(callers);
    together(*application, callers, [&](Client& mine, int number) {
        while (true) {
            mine.begin();
            const auto row =
                mine.create_once("payment", {{"id", "p1"}}, {{"by_whom", std::to_string(number)}}, {"by_whom"});
            if (!row) {
                ASSERT_EQ(row.failure().code, Code::contended) << row.failure().message;
                mine.rollback();
                continue;
            }
            if (!mine.commit()) continue;
            made += row->created ? 1 : 0;
            seen[static_cast<std::size_t>(number)] = row->row[0].value();
            return;
        }
    });
    EXPECT_EQ(made, 1);
    for (const std::string& each : seen) EXPECT_EQ(each, client->value("select by_whom from payment"));
}

TEST_P(Once, ApplyIfTellsAppliedFromAlreadyAppliedFromConflict) {
    client->run("create table shipment (id text primary key, state text, version integer, note text)");
    client->run("insert into shipment values ('s1', 'packed', 1, null)");
    client->begin();
    const TestColumn s1{"id", "s1"};
    EXPECT_EQ(client->apply_if("shipment", s1, "state", "packed", "sent", {{"note", "by 'rail'"}}).value(),
              AppliedIf::applied);
    EXPECT_EQ(client->apply_if("shipment", s1, "state", "packed", "sent", {{"note", "by air"}}).value(),
              AppliedIf::already_applied);
    EXPECT_EQ(client->apply_if("shipment", s1, "state", "packed", "lost").value(), AppliedIf::conflict);
    EXPECT_EQ(client->apply_if("shipment", {"id", "s2"}, "state", "packed", "sent").value(), AppliedIf::missing);
    EXPECT_EQ(client->apply_if("shipment", {"id", std::nullopt}, "state", "packed", "sent").value(),
              AppliedIf::missing);
    EXPECT_EQ(client->apply_if("shipment", s1, "version", "1", "2").value(), AppliedIf::applied);
    EXPECT_EQ(client->apply_if("shipment", s1, "version", "1", "2").value(), AppliedIf::already_applied);
    ASSERT_TRUE(client->commit());
    EXPECT_EQ(client->value("select state || ' ' || version || ' ' || note from shipment"), "sent 2 by 'rail'");
}

TEST_P(Once, ApplyIfByTwentyCallersIsAppliedOnce) {
    client->run("create table stock (id text primary key, left_over integer)");
    client->run("insert into stock values ('a', 10)");
    std::atomic<int> applied = 0;
    std::atomic<int> already = 0;
    together(*application, callers, [&](Client& mine, int) {
        while (true) {
            mine.begin();
            const auto answer = mine.apply_if("stock", {"id", "a"}, "left_over", "10", "9");
            ASSERT_TRUE(answer.ok()) << answer.failure().message;
            if (*answer == AppliedIf::retry_transaction) {
                mine.rollback();
                continue;
            }
            if (!mine.commit()) continue;
            applied += *answer == AppliedIf::applied ? 1 : 0;
            already += *answer == AppliedIf::already_applied ? 1 : 0;
            return;
        }
    });
    EXPECT_EQ(applied, 1);
    EXPECT_EQ(already, callers - 1);
    EXPECT_EQ(client->value("select left_over from stock"), "9");
}

}  // namespace
}  // namespace semel::test
