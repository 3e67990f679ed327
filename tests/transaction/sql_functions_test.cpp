// The SQL functions as services in any language call them.
#include <gtest/gtest.h>

#include <optional>

#include "ledger/fingerprint.hpp"
#include "support/commands.hpp"
#include "support/postgres.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

class SqlFunctions : public testing::Test {
protected:
    struct Error {
        std::string state;
        std::string message;
    };
    /// Runs what must fail.
    Error error(const std::string& sql) {
        PGresult* result = PQexec(sql_.raw(), sql.c_str());
        const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char* message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        Error found{state == nullptr ? "" : state, message == nullptr ? "" : message};
        PQclear(result);
        return found;
    }
    std::string value(const std::string& sql) { return sql_.value(sql); }
    /// `value` of text given as a parameter: anything can be in it.
    std::optional<std::string> of(const char* sql, const std::vector<std::string>& arguments, Error* failed = nullptr) {
        std::vector<const char*> values;
        for (const std::string& argument : arguments) values.push_back(argument.c_str());
        PGresult* result =
            PQexecParams(sql_.raw(), sql, static_cast<int>(values.size()), nullptr, values.data(), nullptr, nullptr, 0);
        std::optional<std::string> found;
        if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1) found = PQgetvalue(result, 0, 0);
        if (!found && failed != nullptr)
            *failed = {PQresultErrorField(result, PG_DIAG_SQLSTATE),
                       PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)};
        PQclear(result);
        return found;
    }
    std::optional<Record> find(const Operation& operation) {
        auto found = store_->find(operation.id());
        if (!found) throw std::runtime_error(found.failure().message);
        return *found;
    }

    TestDatabase database_;
    TestConnection sql_{database_.uri()};
    std::unique_ptr<Store> store_ = std::move(postgres::open({.uri = database_.uri()})).value();
    std::unique_ptr<Session> session_ = std::move(store_->session()).value();
};

// ---- names and fingerprints ----------------------------------------------------------------------------------------

TEST_F(SqlFunctions, ReadScopesAndKeysExactlyAsTheLibraryDoes) {
    const std::string longest(255, 'x');
    const std::string scopes[] = {
        "orders", "acme/orders", "acme/orders#2", "orders#4294967295", "acme/v1/orders", "/v1/orders", "//orders",
        "acme//#1", "a:b@c/POST /v1 {id}", "/orders", "acme/orders#0", longest + "/" + longest + "#10",
        // refused
        "", "/", "acme/", "#1", "orders#", "orders#x", "orders#-1", "orders#+1", "orders#01", "orders#4294967296",
        "orders#99999999999999999999", "orders#1#2", "orders# 1", "orders#1\n", "ac me/orders", "orders\n", "a\x7f/b",
        "\xc3\xa9/orders", "acme/\xc3\xa9", "quote\"\\/\n", longest + "x/orders", "acme/" + longest + "x",
        longest + longest};
    const std::string keys[] = {"k1", " ", "a \"b\" \\", "8e03978e-40d5-43e8-bc93-6894a57f9324", longest,
                                // refused
                                "", longest + "x", "a\nb", "a\x7f", "\xc3\xa9", "tab\t"};
    const auto compare = [&](const std::string& scope, const std::string& key) {
        const auto read_scope = Scope::parse(scope);
        const auto read_key = Key::parse(key);
        Error failed;
        const auto id = of("select replace(semel.operation_id($1, $2)::text, '-', '')", {scope, key}, &failed);
        if (read_scope && read_key) {
            EXPECT_EQ(id, to_hex(Operation{*read_scope, *read_key}.id().bytes))
                << scope << " " << key << failed.message;
            EXPECT_EQ(of("select (semel._operation($1, $2)).written", {scope, key}), read_scope->text());
            return;
        }
        EXPECT_EQ(id, std::nullopt) << scope << " " << key;
        EXPECT_EQ(failed.state, "22023");
        EXPECT_EQ(failed.message, !read_scope ? read_scope.failure().message : read_key.failure().message);
    };
    for (const std::string& scope : scopes) compare(scope, "k1");
    for (const std::string& key : keys) compare("acme/orders#2", key);
    EXPECT_EQ(error("select semel.operation_id(null, 'k1')").state, "22023");
    EXPECT_EQ(error("select semel.operation_id('orders', null)").state, "22023");
}

TEST_F(SqlFunctions, HaveTheIdsOfTheFormatPage) {
    EXPECT_EQ(value("select semel.operation_id('orders', 'k1')"), "df11488e-de97-22d6-db44-9b774a8f88ab");
    EXPECT_EQ(value(R"(select semel.operation_id('acme/POST /v1/charges#4294967295', 'a "b" \'))"),
              "cf7921ad-4232-588c-a305-b76ff6e2f721");
}

TEST_F(SqlFunctions, MakeTheFingerprintsOfTheLibrary) {
    for (const std::string& body :
         {std::string(), std::string("100 EUR to bob"), std::string("caf\xc3\xa9"), std::string(100'000, 'x')}) {
        const std::string expected = to_hex(fingerprint_of_bytes(body).bytes);
        EXPECT_EQ(of("select encode(semel.fingerprint($1::text), 'hex')", {body}), expected);
        EXPECT_EQ(of("select encode(semel.fingerprint(decode($1, 'hex')), 'hex')", {to_hex(body)}), expected);
    }
    // A literal, or a parameter whose type the client leaves open, is text.
    EXPECT_EQ(value("select semel.fingerprint('100')"), value("select semel.fingerprint(text '100')"));
    EXPECT_EQ(value("select semel.fingerprint(jsonb '{\"a\": 1, \"b\": 2}')"),
              value("select semel.fingerprint(jsonb '{\"b\":2,   \"a\":1}')"));
    EXPECT_NE(value("select semel.fingerprint(jsonb '{\"a\": 1}')"),
              value("select semel.fingerprint(jsonb '{\"a\": 2}')"));
}

TEST_F(SqlFunctions, TellTheTimeInsideAKey) {
    for (const std::string key : {"018bcfe5-687b-7000-8000-000000000000", "018BCFE5-687B-7FFF-BFFF-FFFFFFFFFFFF",
                                  "00000000-0000-7000-8000-000000000000", "ffffffff-ffff-7000-8000-000000000000",
                                  "018bcfe5-687b-4000-8000-000000000000", "018bcfe5-687b-7000-c000-000000000000",
                                  "order-7", "018bcfe5-687b-7000-8000-00000000000"}) {
        const auto time = Key::parse(key).value().time();
        EXPECT_EQ(of("select coalesce(semel._key_time($1)::text, '')", {key}),
                  time ? std::to_string(micros(*time)) : "")
            << key;
    }
}

// ---- claim and settle ------------------------------------------------------------------------------------------------

constexpr const char* claim_k1 = "select answer from semel.claim('acme/payments', 'k1', semel.fingerprint('body'))";

TEST_F(SqlFunctions, ClaimAndSettleInOneTransactionAndReplayInAnother) {
    sql_.run("begin");
    const std::string token = value(
        "select token from semel.claim('acme/payments', 'k1', semel.fingerprint('body'), correlation => 'order-7')");
    EXPECT_EQ(value("select semel.settle('acme/payments', 'k1', " + token + ", 201, '\\x00ff')"), "ok");
    sql_.run("commit");
    EXPECT_EQ(value("select row(answer, token, status, outcome, outcome_kept, settled_at > now() - interval '1 "
                    "minute', since, retry_after) "
                    "from semel.claim('acme/payments', 'k1', semel.fingerprint('body'))"),
              R"((replay,,201,"\\x00ff",t,t,,))");
    EXPECT_EQ(value("select answer from semel.claim('acme/payments', 'k1', semel.fingerprint('another'))"), "mismatch");
    const auto record = find(operation("k1"));
    EXPECT_EQ(record->outcome, (Outcome{201, std::string("\0\xff", 2), true}));
    EXPECT_EQ(record->correlation, "order-7");
    EXPECT_EQ(record->fingerprint, fingerprint_of_bytes("body"));
    EXPECT_EQ(std::to_string(record->token.value), token);
}

TEST_F(SqlFunctions, AnswerForALease) {
    Claim leased = claim("k1");
    leased.fingerprint = fingerprint_of_bytes("body");
    const Claimed granted = as<Claimed>(execute(*session_, leased));
    EXPECT_EQ(value(claim_k1), "busy");
    EXPECT_EQ(value("select retry_after between interval '20s' and interval '30s' "
                    "from semel.claim('acme/payments', 'k1', semel.fingerprint('body'))"),
              "t");
    execute(*session_, Abandon{holder(leased, granted)});
    EXPECT_EQ(value(claim_k1), "unknown");
    EXPECT_EQ(value("select since > now() - interval '1 minute' from semel.claim('acme/payments', 'k1', "
                    "semel.fingerprint('body'))"),
              "t");
}

TEST_F(SqlFunctions, KeepTheRetentionGiven) {
    const std::string old = mint_uuid7(std::chrono::system_clock::now() - 48h).text();
    EXPECT_EQ(value("select answer from semel.claim('s', '" + old + "', semel.fingerprint(''), retention => '1 day')"),
              "expired");
    EXPECT_EQ(value("select answer from semel.claim('s', '" + old + "', semel.fingerprint(''), '3 days', '2 hours')"),
              "claimed");
    const auto record = find({Scope::parse("s").value(), Key::parse(old).value()});
    EXPECT_EQ(record->policy.retention, (Retention{72h, 2h}));
    EXPECT_EQ(record->key_time, Key::parse(old).value().time());
    EXPECT_EQ(value("select answer from semel.claim('s', 'k', semel.fingerprint(''), response_retention => null)"),
              "claimed");
    EXPECT_EQ(find(operation("k", "s"))->policy.retention, (Retention{std::nullopt, std::nullopt}));
}

TEST_F(SqlFunctions, RefuseWhatTheyCannotKeep) {
    const auto refused = [&](const std::string& sql, std::string_view why) {
        const Error found = error(sql);
        EXPECT_EQ(found.state, "22023") << sql << found.message;
        EXPECT_NE(found.message.find(why), std::string::npos) << found.message;
    };
    refused("select semel.claim('s', 'k', null)", "16");
    refused("select semel.claim('s', 'k', sha256('x'))", "32 bytes");
    refused("select semel.claim('s', 'k', semel.fingerprint(''), '1 ms')", "retention is 1 ms");
    refused("select semel.claim('s', 'k', semel.fingerprint(''), '200 years')", "retention");
    refused("select semel.claim('s', 'k', semel.fingerprint(''), null, '-1 s')", "response_retention");
    refused("select semel.claim('s', 'k', semel.fingerprint(''), correlation => E'a\\nb')", "correlation \"a\\x0ab\"");
    refused("select semel.claim('s', 'k', semel.fingerprint(''), correlation => null)", "correlation");
    refused("select semel.claim('s', '" + mint_uuid7(std::chrono::system_clock::now() + 1h).text() +
                "', semel.fingerprint(''), '1 day')",
            "ahead");
    refused("select semel.claim('s#x', 'k', semel.fingerprint(''))", "s#x");
    refused("select semel.settle('s', 'k', null)", "token");
    EXPECT_EQ(value("select count(*) from semel.operation"), "0");
}

TEST_F(SqlFunctions, SettleOrFailLetsNothingCommitThatIsNotTheFirst) {
    sql_.run("create table effect (what text)");
    sql_.run("begin");
    const std::string token = value("select token from semel.claim('s', 'k', semel.fingerprint(''))");
    sql_.run("select semel.settle_or_fail('s', 'k', " + token + ", 200, 'done')");
    sql_.run("commit");

    EXPECT_EQ(value("select semel.settle('s', 'k', " + token + ", 200, 'done')"), "settled");
    EXPECT_EQ(value("select semel.settle('s', 'k', " + token + " + 1, 200, 'done')"), "fenced");
    EXPECT_EQ(value("select semel.settle('s', 'absent', " + token + ", 200, 'done')"), "fenced");
    for (const auto& [given, state] : {std::pair(token, "SM002"), std::pair(token + " + 1", "SM001")}) {
        sql_.run("begin");
        sql_.run("insert into effect values ('late')");
        EXPECT_EQ(error("select semel.settle_or_fail('s', 'k', " + given + ", 200, 'done')").state, state);
        sql_.run("commit");  // of a failed transaction: a rollback
    }
    EXPECT_EQ(value("select count(*) from effect"), "0");
}

TEST_F(SqlFunctions, ADamagedRowIsNeverReplayed) {
    sql_.run("begin");
    sql_.run(
        "select semel.settle_or_fail('acme/payments', 'k1', token, 200, 'done') "
        "from semel.claim('acme/payments', 'k1', semel.fingerprint('body'))");
    sql_.run("commit");
    EXPECT_EQ(value(claim_k1), "replay");
    sql_.run("update semel.operation set outcome = 'dune'");
    const Error found = error(claim_k1);
    EXPECT_EQ(found.state, "XX001");
    EXPECT_EQ(found.message, store_->find(operation("k1").id()).failure().message);
    EXPECT_EQ(error("select semel.settle('acme/payments', 'k1', 1)").state, "XX001");
    EXPECT_EQ(value("select state from semel.find('acme/payments', 'k1')"), "damaged");
}

// ---- once ------------------------------------------------------------------------------------------------------------

TEST_F(SqlFunctions, OnceRunsAnEffectAndRepliesWithItsResult) {
    sql_.run("create table wallet (id text primary key, balance int not null check (balance >= 0))");
    sql_.run("insert into wallet values ('bob', 100)");
    const auto pay = [](const std::string& key, int amount) {
        return "select answer || ' ' || coalesce(result::text, '-') from semel.once('acme/payments', '" + key +
               "', semel.fingerprint('pay'), $effect$ "
               "update wallet set balance = balance - ($1->>'amount')::int where id = $1->>'wallet' returning "
               "jsonb_build_object('balance', balance) "
               "$effect$, '{\"wallet\": \"bob\", \"amount\": " +
               std::to_string(amount) + "}')";
    };
    EXPECT_EQ(value(pay("k1", 30)), "applied {\"balance\": 70}");
    EXPECT_EQ(value(pay("k1", 30)), "replay {\"balance\": 70}");
    EXPECT_EQ(value(pay("k2", 30)), "applied {\"balance\": 40}");
    // What an effect raises leaves nothing, and the same key may be tried again.
    EXPECT_EQ(error(pay("k3", 50)).state, "23514");
    EXPECT_EQ(find(operation("k3")), std::nullopt);
    EXPECT_EQ(value(pay("k3", 40)), "applied {\"balance\": 0}");
    EXPECT_EQ(find(operation("k3"))->outcome, (Outcome{0, "{\"balance\": 0}", true}));
    EXPECT_EQ(value("select answer from semel.once('acme/payments', 'k1', semel.fingerprint('another'), 'select 1')"),
              "mismatch");
    EXPECT_EQ(value("select result from semel.once('s', 'number', semel.fingerprint(''), 'select 42')"), "42");
    EXPECT_EQ(value("select result from semel.once('s', 'nothing', semel.fingerprint(''), 'select 1 where false')"),
              "null");
    EXPECT_EQ(error("select semel.once('s', 'k', semel.fingerprint(''), 'commit')").state, "0A000");
    EXPECT_EQ(value("select count(*) from semel.find('s', 'k')"), "0");
}

// ---- natural idempotency -----------------------------------------------------------------------------------------------

TEST_F(SqlFunctions, CreateOnceAndApplyIfNeedNoLedger) {
    sql_.run("create schema shop; set search_path = shop");
    sql_.run(
        "create table \"Order\" (id uuid, part int, amount numeric, made timestamptz default now(), \"no\"\"te\" text, "
        "primary key (id, part))");
    const std::string id = R"('{"id": "8e03978e-40d5-43e8-bc93-6894a57f9324", "part": 1}')";
    const auto create = [&](const std::string& rest) {
        return value("select created || ' ' || (held - 'made' - 'id')::text from semel.create_once('\"Order\"', " + id +
                     ", '" + rest + "')");
    };
    EXPECT_EQ(create(R"({"amount": 12.50, "no\"te": "x; drop table \"Order\""})"),
              R"(true {"part": 1, "no\"te": "x; drop table \"Order\"", "amount": 12.50})");
    EXPECT_EQ(create(R"({"amount": 99})"),
              R"(false {"part": 1, "no\"te": "x; drop table \"Order\"", "amount": 12.50})");
    EXPECT_EQ(error("select semel.create_once('\"Order\"', '{}')").state, "22023");
    EXPECT_EQ(error("select semel.create_once('\"Order\"', '{\"amount\": 1}')").state, "42P10")
        << "no unique constraint on it";
    EXPECT_EQ(error("select semel.create_once('no_such_table', '{\"id\": 1}')").state, "42P01");

    const auto apply = [&](const std::string& which, const std::string& expected, const std::string& next) {
        return value("select semel.apply_if('\"Order\"', " + which + ", 'amount', '" + expected + "', '" + next +
                     "', '{\"no\\\"te\": \"seen\"}')");
    };
    EXPECT_EQ(apply(id, "12.5", "13"), "applied");
    EXPECT_EQ(apply(id, "12.5", "13"), "already_applied");
    EXPECT_EQ(apply(id, "12.5", "14"), "conflict");
    EXPECT_EQ(apply(R"('{"id": "00000000-0000-0000-0000-000000000000"}')", "12.5", "14"), "missing");
    EXPECT_EQ(error("select semel.apply_if('\"Order\"', '{}', 'amount', '1', '2')").state, "22023");
    EXPECT_EQ(value("select amount || ' ' || \"no\"\"te\" from \"Order\""), "13 seen");
}

// ---- for people ----------------------------------------------------------------------------------------------------------

TEST_F(SqlFunctions, TheViewShowsEveryState) {
    execute(*session_, claim("running"));
    const Claim unknown = claim("unknown");
    execute(*session_, Abandon{holder(unknown, as<Claimed>(execute(*session_, unknown)))});
    const Claim released = claim("released");
    execute(*session_, Release{holder(released, as<Claimed>(execute(*session_, released)))});
    sql_.run(
        "select semel.once('acme/payments', 'settled', semel.fingerprint(''), 'select 1', correlation => 'order-7')");
    EXPECT_EQ(
        value("select string_agg(concat_ws(' ', key, state, status, outcome_bytes, correlation, created is not null, "
              "settled_at is not null, unknown_since is not null, lease_until is not null, due is not null), '; ' "
              "order by key) "
              "from semel.operations where scope = 'acme/payments'"),
        "running running t f f t f; settled settled 0 1 order-7 t t f f t; unknown unknown t f t t f");
    EXPECT_EQ(value("select count(*) from semel.find('acme/payments', 'released')"), "0");
    EXPECT_EQ(value("select scope || ' ' || key || ' ' || state from semel.find('acme/payments', 'unknown')"),
              "acme/payments unknown unknown");
}

}  // namespace
}  // namespace semel::test
