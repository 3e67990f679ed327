// Counting by a query: read-only sessions of SQLite and PostgreSQL, one connection kept while it works.
#include <fmt/format.h>
#include <libpq-fe.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <memory>

#include "base/quote.hpp"
#include "verify/counter.hpp"

namespace semel::verify {
namespace {

struct Close {
    void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
    void operator()(PGconn* connection) const { PQfinish(connection); }
    void operator()(PGresult* result) const { PQclear(result); }
};

int whole_milliseconds(Duration duration) {
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(duration).count());
}

Failure failed(Code code, std::string_view query, std::string_view why) {
    return {code, fmt::format("--count-sql {}: {}", in_quotes(query), why)};
}

class SqliteCounter final : public Counter {
public:
    SqliteCounter(std::string path, std::string query, Duration timeout)
        : path_(std::move(path)), query_(std::move(query)), timeout_(timeout) {}

    Result<std::int64_t> count(const Intent& intent) override {
        if (auto opened = open(); !opened) return opened.failure();
        const std::string query = fill_in(query_, intent);
        sqlite3_stmt* raw = nullptr;
        const int prepared = sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &raw, nullptr);
        const std::unique_ptr<sqlite3_stmt, Close> statement(raw);
        if (prepared != SQLITE_OK) return failed(Code::invalid, query_, sqlite3_errmsg(database_.get()));
        if (!statement) return failed(Code::invalid, query_, "there is no statement in it");
        const int stepped = sqlite3_step(raw);
        if (stepped == SQLITE_DONE) return failed(Code::invalid, query_, "it gave no row");
        if (stepped != SQLITE_ROW)
            return failed(stepped == SQLITE_READONLY ? Code::invalid : Code::unavailable, query_,
                          sqlite3_errmsg(database_.get()));
        if (sqlite3_column_type(raw, 0) != SQLITE_INTEGER)
            return failed(Code::invalid, query_, "its first column is no whole number");
        return sqlite3_column_int64(raw, 0);
    }
    [[nodiscard]] bool per_intent() const override { return has_placeholder(query_); }

private:
    Status open() {
        if (database_) return Done{};
        sqlite3* raw = nullptr;
        const int opened = sqlite3_open_v2(path_.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
        database_.reset(raw);
        if (opened == SQLITE_OK) {
            sqlite3_busy_timeout(raw, whole_milliseconds(timeout_));
            return Done{};
        }
        const std::string why = raw == nullptr ? "out of memory" : sqlite3_errmsg(raw);
        database_.reset();
        return failed(Code::unavailable, query_, why);
    }

    std::string path_;
    std::string query_;
    Duration timeout_;
    std::unique_ptr<sqlite3, Close> database_;
};

class PostgresCounter final : public Counter {
public:
    PostgresCounter(std::string url, std::string query, Duration timeout)
        : url_(std::move(url)), query_(std::move(query)), timeout_(timeout) {}

    Result<std::int64_t> count(const Intent& intent) override {
        if (auto opened = open(); !opened) return opened.failure();
        // Parameters allow one statement only, so nothing can end the read-only transaction from within.
        const std::string query = fill_in(query_, intent);
        const auto run = [&](const char* sql) {
            return std::unique_ptr<PGresult, Close>(
                PQexecParams(connection_.get(), sql, 0, nullptr, nullptr, nullptr, nullptr, 0));
        };
        run("begin read only");
        run(fmt::format("set local statement_timeout = {}", whole_milliseconds(timeout_)).c_str());
        const auto result = run(query.c_str());
        std::string why = PQresultErrorMessage(result.get());
        const bool lost = PQstatus(connection_.get()) != CONNECTION_OK;
        run("rollback");
        if (lost) connection_.reset();
        if (PQresultStatus(result.get()) != PGRES_TUPLES_OK)
            return failed(lost ? Code::unavailable : Code::invalid, query_, why.empty() ? "it gave no rows" : why);
        if (PQntuples(result.get()) != 1 || PQnfields(result.get()) < 1)
            return failed(Code::invalid, query_, fmt::format("it gave {} rows, not one", PQntuples(result.get())));
        if (const auto number = whole_number(PQgetvalue(result.get(), 0, 0))) return *number;
        return failed(Code::invalid, query_, "its first column is no whole number");
    }
    [[nodiscard]] bool per_intent() const override { return has_placeholder(query_); }

private:
    Status open() {
        if (connection_) return Done{};
        const std::string seconds = std::to_string(std::max(2, whole_milliseconds(timeout_) / 1000));
        const char* const names[] = {"dbname", "connect_timeout", "application_name", nullptr};
        const char* const values[] = {url_.c_str(), seconds.c_str(), "semel verify", nullptr};
        connection_.reset(PQconnectdbParams(names, values, 1));
        if (PQstatus(connection_.get()) == CONNECTION_OK) return Done{};
        const std::string why = PQerrorMessage(connection_.get());
        connection_.reset();
        return failed(Code::unavailable, query_, why);
    }

    std::string url_;
    std::string query_;
    Duration timeout_;
    std::unique_ptr<PGconn, Close> connection_;
};

}  // namespace

Result<std::unique_ptr<Counter>> count_by_sql(std::string store, std::string query, Duration timeout) {
    if (store.starts_with("postgres://") || store.starts_with("postgresql://"))
        return std::unique_ptr<Counter>(new PostgresCounter(std::move(store), std::move(query), timeout));
    constexpr std::string_view right = "write sqlite:PATH or postgres://USER@HOST/DATABASE, then the query";
    if (!store.starts_with("sqlite:"))
        return Failure{Code::invalid,
                       fmt::format("--count-sql {}: {}",
                                   store.find('@') == std::string::npos ? in_quotes(store) : "\"…@…\"", right)};
    const std::string path = store.substr(std::string_view("sqlite:").size());
    struct stat about {};
    if (path.empty() || stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode))
        return Failure{Code::invalid,
                       fmt::format("--count-sql {}: there is no such file; {}", in_quotes(store), right)};
    return std::unique_ptr<Counter>(new SqliteCounter(path, std::move(query), timeout));
}

}  // namespace semel::verify
