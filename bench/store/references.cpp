#include "store/references.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "base/bytes.hpp"
#include "semel/sqlite.hpp"
#include "stores/sqlite/database.hpp"
#include "support/process.hpp"

namespace semel::bench {
namespace {

using Steady = std::chrono::steady_clock;

class Ids {
public:
    OperationId next() {
        OperationId id;
        for (std::size_t i = 0; i < 16; i += 8) {
            const std::uint64_t bits = random_();
            std::copy_n(reinterpret_cast<const unsigned char*>(&bits), 8,
                        id.bytes.begin() + static_cast<std::ptrdiff_t>(i));
        }
        return id;
    }
    std::vector<OperationId> next(std::size_t count) {
        std::vector<OperationId> ids(count);
        for (OperationId& id : ids) id = next();
        std::ranges::sort(ids);
        return ids;
    }

private:
    std::mt19937_64 random_{std::random_device{}()};
};

/// Calls `pairs` (which returns how many it did) until the time is up.
Run repeat(Seconds length, const std::function<std::size_t()>& pairs) {
    const auto from = Steady::now();
    std::size_t done = 0;
    Seconds taken{0};
    while (taken < length) {
        done += pairs();
        taken = Steady::now() - from;
    }
    Run run;
    run.per_second = static_cast<double>(done) / taken.count();
    run.done = static_cast<double>(done);
    return run;
}

Run repeat_on(std::size_t threads, Seconds length, const std::function<std::function<std::size_t()>()>& make) {
    std::vector<Run> runs(threads);
    {
        std::vector<std::jthread> all;
        for (Run& run : runs) all.emplace_back([&] { run = repeat(length, make()); });
    }
    Run sum;
    for (const Run& run : runs) {
        sum.per_second += run.per_second;
        sum.done += run.done;
    }
    return sum;
}

}  // namespace

// ---- SQLite ----------------------------------------------------------------------------------------------------

Run sqlite_by_hand(const std::string& path, std::size_t batch, Seconds length, const SampleRows& rows) {
    sqlite3* db = nullptr;
    const int opened = sqlite3_open(path.c_str(), &db);
    const sqlite::Connection connection(db);
    const auto check = [&](bool good) {
        if (!good) give_up(fmt::format("{}: {}", path, sqlite3_errmsg(db)));
    };
    const auto prepare = [&](const char* sql) {
        auto made = sqlite::Statement::prepare(db, sql);
        check(made.ok());
        return std::move(*made);
    };
    check(opened == SQLITE_OK);
    check(sqlite::run(db, "pragma journal_mode=wal; pragma synchronous=full; pragma cache_size=-16384").ok());
    check(sqlite::migrate(db).ok());
    auto begin = prepare("begin immediate");
    auto commit = prepare("commit");
    auto insert = prepare(
        "insert into semel_operation (op, token, due, state, scope, key, record) "
        "values (?1, ?2, ?3, ?4, ?5, ?6, ?7) on conflict (op) do nothing");
    auto update = prepare("update semel_operation set due = ?2, state = ?3, record = ?4, outcome = ?5 where op = ?1");
    Ids ids;
    std::int64_t token = 1;
    const auto in_one_commit = [&](const auto& work) {
        if (batch > 1) check(begin.run() == SQLITE_DONE);
        work();
        if (batch > 1) check(commit.run() == SQLITE_DONE);
    };
    return repeat(length, [&] {
        const auto batch_ids = ids.next(batch);
        in_one_commit([&] {
            for (const OperationId& id : batch_ids) {
                insert.bind_blob(1, view(id.bytes));
                insert.bind(2, token++);
                insert.bind(3, *rows.claimed.due);
                insert.bind(4, 1);
                insert.bind_text(5, *rows.claimed.scope);
                insert.bind_text(6, *rows.claimed.key);
                insert.bind_blob(7, rows.claimed.record);
                check(insert.run() == SQLITE_DONE);
            }
        });
        in_one_commit([&] {
            for (const OperationId& id : batch_ids) {
                update.bind_blob(1, view(id.bytes));
                update.bind(2, *rows.settled.due);
                update.bind(3, 3);
                update.bind_blob(4, rows.settled.record);
                update.bind_blob(5, *rows.settled.outcome);
                check(update.run() == SQLITE_DONE);
            }
        });
        return batch;
    });
}

// ---- PostgreSQL ------------------------------------------------------------------------------------------------

namespace {

std::string be(std::uint64_t value, int bytes) {
    std::string text;
    for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
    return text;
}

/// A one-dimensional array without nulls, as libpq takes it in binary.
std::string array_of(std::uint32_t element, const std::vector<std::string>& values) {
    std::string text = be(1, 4) + be(0, 4) + be(element, 4) + be(values.size(), 4) + be(1, 4);
    for (const std::string& value : values) text += be(value.size(), 4) + value;
    return text;
}

class Prepared {
public:
    Prepared(const std::string& uri, const char* claim, const char* settle)
        : connection_(PQconnectdb(uri.c_str()), &PQfinish) {
        for (const auto& [name, sql] : {std::pair{"claim", claim}, std::pair{"settle", settle}})
            check(PQprepare(connection_.get(), name, sql, 0, nullptr));
    }

    void run(const char* name, const std::vector<std::string>& values) {
        std::vector<const char*> data;
        std::vector<int> lengths;
        for (const std::string& value : values) {
            data.push_back(value.data());
            lengths.push_back(static_cast<int>(value.size()));
        }
        const std::vector<int> binary(values.size(), 1);
        check(PQexecPrepared(connection_.get(), name, static_cast<int>(values.size()), data.data(), lengths.data(),
                             binary.data(), 1));
    }

private:
    void check(PGresult* raw) {
        const std::unique_ptr<PGresult, decltype(&PQclear)> result(raw, &PQclear);
        const ExecStatusType status = PQresultStatus(raw);
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) give_up(PQerrorMessage(connection_.get()));
    }
    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

}  // namespace

Run postgres_one_by_one(const std::string& uri, std::size_t connections, Seconds length, const SampleRows& rows) {
    return repeat_on(connections, length, [&]() -> std::function<std::size_t()> {
        auto connection =
            std::make_shared<Prepared>(uri,
                                       "insert into semel.operation (op, token, due, state, scope, key, record) values "
                                       "($1::uuid, $2::bigint, $3::bigint, "
                                       "$4::smallint, $5::text, $6::text, $7::bytea) on conflict (op) do nothing",
                                       "update semel.operation set due = $2::bigint, state = $3::smallint, record = "
                                       "$4::bytea, outcome = $5::bytea "
                                       "where op = $1::uuid");
        return [connection, &rows, ids = Ids{}]() mutable -> std::size_t {
            const std::string id(view(ids.next().bytes));
            const auto number = [](std::int64_t value) { return be(static_cast<std::uint64_t>(value), 8); };
            connection->run("claim", {id, be(1, 8), number(*rows.claimed.due), be(1, 2), *rows.claimed.scope,
                                      *rows.claimed.key, rows.claimed.record});
            connection->run("settle",
                            {id, number(*rows.settled.due), be(3, 2), rows.settled.record, *rows.settled.outcome});
            return 1;
        };
    });
}

Run postgres_batched(const std::string& uri, std::size_t connections, std::size_t batch, Seconds length,
                     const SampleRows& rows) {
    return repeat_on(connections, length, [&]() -> std::function<std::size_t()> {
        auto connection = std::make_shared<Prepared>(
            uri,
            "insert into semel.operation (op, token, due, state, scope, key, record) select * from unnest($1::uuid[], "
            "$2::bigint[], $3::bigint[], $4::smallint[], $5::text[], $6::text[], $7::bytea[]) on conflict (op) do "
            "nothing",
            "update semel.operation o set due = u.due, state = u.state, record = u.record, outcome = u.outcome "
            "from unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::bytea[], $5::bytea[]) as u (op, due, state, "
            "record, "
            "outcome) where o.op = u.op");
        return [connection, batch, &rows, ids = Ids{}]() mutable -> std::size_t {
            std::vector<std::string> batch_ids;
            for (const OperationId& id : ids.next(batch)) batch_ids.emplace_back(view(id.bytes));
            const auto same = [&](std::uint32_t element, const std::string& value) {
                return array_of(element, std::vector<std::string>(batch, value));
            };
            const auto numbers = [&](std::int64_t value) { return same(20, be(static_cast<std::uint64_t>(value), 8)); };
            const std::string op = array_of(2950, batch_ids);
            connection->run(
                "claim", {op, numbers(1), numbers(*rows.claimed.due), same(21, be(1, 2)), same(25, *rows.claimed.scope),
                          same(25, *rows.claimed.key), same(17, rows.claimed.record)});
            connection->run("settle", {op, numbers(*rows.settled.due), same(21, be(3, 2)),
                                       same(17, rows.settled.record), same(17, *rows.settled.outcome)});
            return batch;
        };
    });
}

}  // namespace semel::bench
