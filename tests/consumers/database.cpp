#include "database.hpp"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <stdexcept>

#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"
#include "support/postgres.hpp"

namespace semel::test {
namespace {

template <class T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.failure().message);
    return std::move(*result);
}

class SqliteDatabase final : public Database {
public:
    SqliteDatabase() {
        std::string folder = (std::filesystem::temp_directory_path() / "semel-consumer-XXXXXX").string();
        if (mkdtemp(folder.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
        folder_ = folder;
        path_ = (folder_ / "wallet.db").string();
        (void)inbox();  // makes the tables
        sqlite3_open(path_.c_str(), &db_);
        sqlite3_busy_timeout(db_, 10'000);
    }
    ~SqliteDatabase() override {
        sqlite3_close(db_);
        std::filesystem::remove_all(folder_);
    }
    std::unique_ptr<Inbox> inbox() override { return open_inbox_at(url()); }
    std::unique_ptr<Store> store() override { return open_store_at(url()); }
    void run(const std::string& sql) override { execute({nullptr, db_}, plain(sql)); }
    std::string value(const std::string& sql) override {
        sqlite3_stmt* statement = nullptr;
        const std::string text = plain(sql);
        if (sqlite3_prepare_v2(db_, text.c_str(), -1, &statement, nullptr) != SQLITE_OK)
            throw std::runtime_error(text + ": " + sqlite3_errmsg(db_));
        std::string found;
        if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != nullptr)
            found = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
        sqlite3_finalize(statement);
        return found;
    }
    [[nodiscard]] std::string url() const override { return "sqlite:" + path_; }

private:
    static std::string plain(std::string sql) {
        for (auto at = sql.find("semel."); at != std::string::npos; at = sql.find("semel."))
            sql.replace(at, 6, "semel_");
        return sql;
    }
    std::filesystem::path folder_;
    std::string path_;
    sqlite3* db_ = nullptr;
};

class PostgresDatabase final : public Database {
public:
    PostgresDatabase() : connection_(database_.uri()) {}
    std::unique_ptr<Inbox> inbox() override { return open_inbox_at(url()); }
    std::unique_ptr<Store> store() override { return open_store_at(url()); }
    void run(const std::string& sql) override { execute({connection_.raw(), nullptr}, sql); }
    std::string value(const std::string& sql) override { return connection_.value(sql); }
    [[nodiscard]] std::string url() const override { return database_.uri(); }

private:
    TestDatabase database_;
    TestConnection connection_;
};

}  // namespace

std::unique_ptr<Database> make_database(std::string_view name) {
    if (name == "sqlite") return std::make_unique<SqliteDatabase>();
    return std::make_unique<PostgresDatabase>();
}

void execute(const Transaction& transaction, const std::string& sql) {
    if (transaction.sqlite != nullptr) {
        char* message = nullptr;
        if (sqlite3_exec(transaction.sqlite, sql.c_str(), nullptr, nullptr, &message) == SQLITE_OK) return;
        const std::string error = sql + ": " + (message == nullptr ? "?" : message);
        sqlite3_free(message);
        throw std::runtime_error(error);
    }
    PGresult* result = PQexec(transaction.postgres, sql.c_str());
    const auto status = PQresultStatus(result);
    PQclear(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        throw std::runtime_error(sql + ": " + PQerrorMessage(transaction.postgres));
}

std::unique_ptr<Inbox> open_inbox_at(const std::string& url) {
    if (url.starts_with("sqlite:")) return must(sqlite::open_inbox({.path = url.substr(7)}));
    return must(postgres::open_inbox({.uri = url}));
}

std::unique_ptr<Store> open_store_at(const std::string& url) {
    if (url.starts_with("sqlite:")) return must(sqlite::open({.path = url.substr(7)}));
    return must(postgres::open({.uri = url}));
}

}  // namespace semel::test
