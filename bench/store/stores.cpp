#include "store/stores.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "base/bytes.hpp"
#include "ledger/rules.hpp"
#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"
#include "stores/postgres/wire.hpp"
#include "stores/sqlite/database.hpp"
#include "support/callers.hpp"
#include "support/process.hpp"

namespace semel::bench {
namespace {

template <class T>
T or_give_up(Result<T> result) {
    if (!result) give_up(result.failure().message);
    return std::move(*result);
}

Opened with_committer(std::unique_ptr<Store> store) {
    Opened opened{std::move(store), nullptr};
    opened.committer = or_give_up(Committer::start(*opened.store));
    return opened;
}

TimePoint wall_now() {
    return time_from_micros(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
            .count());
}

/// Rows of the past, a block at a time, sorted by id within the block: random to the table, kind to the page cache.
class PastRows {
public:
    PastRows(std::uint64_t count, Past past) : left_(count), past_(past), now_(wall_now()) {}

    /// Empty at the end.
    std::vector<Row> next_block() {
        constexpr std::uint64_t block_rows_max = 100'000;
        std::vector<Row> rows;
        for (std::uint64_t i = std::min(left_, block_rows_max); i > 0; --i, --left_) rows.push_back(next());
        std::ranges::sort(rows, {}, &Row::id);
        return rows;
    }
    [[nodiscard]] std::uint64_t next_token() const { return token_; }

private:
    Row next() {
        Record record;
        fill(record.id.bytes);
        fill(record.fingerprint.bytes);
        record.state = State::settled;
        record.token.value = token_++;
        record.outcome = Outcome::tombstone(200);
        record.settled_at = now_ - std::chrono::hours{48};
        if (past_ == Past::expired) record.policy.retention.identity = std::chrono::hours{24};
        return to_row(record);
    }
    void fill(std::array<unsigned char, 16>& bytes) {
        for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random_());
    }

    std::uint64_t left_;
    Past past_;
    TimePoint now_;
    std::uint64_t token_ = 1;
    std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace

Opened open_sqlite(const std::string& path) {
    sqlite::Options options;
    options.path = path;
    return with_committer(or_give_up(sqlite::open(std::move(options))));
}

Opened open_postgres(const std::string& uri, std::size_t sessions) {
    postgres::Options options;
    options.uri = uri;
    if (sessions > 0) options.sessions_max = sessions;
    or_give_up(postgres::migrate(options));
    return with_committer(or_give_up(postgres::open(std::move(options))));
}

double postgres_sql(const std::string& uri, const std::string& sql) {
    const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(uri.c_str()), &PQfinish);
    PQsetNoticeProcessor(
        connection.get(), [](void*, const char*) {}, nullptr);
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection.get(), sql.c_str()), &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        give_up(fmt::format("{}: {}", sql, PQerrorMessage(connection.get())));
    return PQntuples(result.get()) > 0 ? std::atof(PQgetvalue(result.get(), 0, 0)) : 0;
}

PostgresDatabase::PostgresDatabase(std::string uri, std::string name)
    : server_(std::move(uri)), name_(std::move(name)) {
    postgres_sql(server_, fmt::format("drop database if exists {} with (force)", name_));
    postgres_sql(server_, fmt::format("create database {}", name_));
    uri_ = server_.substr(0, server_.rfind('/') + 1) + name_;
    postgres::Options options;
    options.uri = uri_;
    or_give_up(postgres::migrate(options));
}

PostgresDatabase::~PostgresDatabase() {
    postgres_sql(server_, fmt::format("drop database if exists {} with (force)", name_));
}

SampleRows sample_rows(std::size_t body_bytes) {
    Claim claim = next_claim({});
    prepare(claim);
    const TimePoint now = wall_now();
    const Token token{123'456};
    Decision claimed = decide(std::nullopt, claim, {now, token, Epoch{1}});
    SampleRows rows;
    rows.claimed = to_row(*claimed.next);
    const Settle settle{
        {claim.operation.id(), token, claim.attempt}, Outcome{200, outcome_body(body_bytes), true}, true};
    rows.settled = to_row(*decide(std::move(claimed.next), settle, {now, Token{}, Epoch{1}}).next);
    return rows;
}

void fill_sqlite(const std::string& path, std::uint64_t count, Past past) {
    sqlite3* raw = nullptr;
    const int opened = sqlite3_open(path.c_str(), &raw);
    const sqlite::Connection connection(raw);
    if (opened != SQLITE_OK) give_up(fmt::format("open {}", path));
    or_give_up(sqlite::migrate(raw));
    // Nothing here has to survive a crash.
    or_give_up(sqlite::run(raw, "pragma journal_mode=off; pragma synchronous=off; pragma cache_size=-1000000"));
    auto insert = or_give_up(sqlite::Statement::prepare(
        raw, "insert into semel_operation (op, token, due, state, record) values (?1, ?2, ?3, ?4, ?5)"));
    PastRows rows(count, past);
    or_give_up(sqlite::run(raw, "begin"));
    for (auto block = rows.next_block(); !block.empty(); block = rows.next_block()) {
        for (const Row& row : block) {
            insert.bind_blob(1, view(row.id.bytes));
            insert.bind(2, static_cast<std::int64_t>(row.token.value));
            insert.bind_or_null(3, row.due, [&](int at, std::int64_t due) { insert.bind(at, due); });
            insert.bind(4, static_cast<std::int64_t>(row.state));
            insert.bind_blob(5, row.record);
            if (insert.run() != SQLITE_DONE) give_up(sqlite::failure_of(raw, "fill").message);
        }
    }
    or_give_up(sqlite::run(
        raw, fmt::format("update semel_meta set value = {} where name = 'token'; commit", rows.next_token()).c_str()));
}

void fill_postgres(const std::string& uri, std::uint64_t count, Past past) {
    using postgres::Params;
    auto wire = or_give_up(postgres::Wire::connect(uri, std::chrono::seconds{10}));
    PastRows rows(count, past);
    for (auto block = rows.next_block(); !block.empty(); block = rows.next_block()) {
        auto ids = Params::uuids();
        auto tokens = Params::int8s();
        auto dues = Params::int8s();
        auto records = Params::byteas();
        for (const Row& row : block) {
            ids.bytes(view(row.id.bytes));
            tokens.int8(static_cast<std::int64_t>(row.token.value));
            dues.int8(row.due);
            records.bytes(std::string_view(row.record));
        }
        Params params;
        params.array(std::move(ids)).array(std::move(tokens)).array(std::move(dues)).array(std::move(records));
        wire.send(
            "insert into semel.operation (op, token, due, state, record) select o, t, d, 3, r "
            "from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[]) as u (o, t, d, r)",
            params);
        if (const auto done = wire.round_trip(std::chrono::minutes{5});
            std::holds_alternative<postgres::WireError>(done))
            give_up(std::get<postgres::WireError>(done).message);
    }
    postgres_sql(uri, "vacuum analyze semel.operation");
    postgres_sql(
        uri, "select setval('semel.token', (select coalesce(max(token), 0) / 1024 + 2 from semel.operation) * 1024)");
}

double sqlite_used_bytes(const std::string& path) {
    sqlite3* raw = nullptr;
    const int opened = sqlite3_open(path.c_str(), &raw);
    const sqlite::Connection connection(raw);
    if (opened != SQLITE_OK) give_up(fmt::format("open {}", path));
    auto pages =
        or_give_up(sqlite::Statement::prepare(raw,
                                              "select (p.page_count - f.freelist_count) * s.page_size from "
                                              "pragma_page_count p, pragma_freelist_count f, pragma_page_size s"));
    if (pages.step() != SQLITE_ROW) give_up(sqlite::failure_of(raw, "count the pages").message);
    return static_cast<double>(pages.integer(0));
}

double postgres_used_bytes(const std::string& uri) {
    postgres_sql(uri, "vacuum semel.operation");
    return postgres_sql(uri, "select pg_total_relation_size('semel.operation')");
}

}  // namespace semel::bench
