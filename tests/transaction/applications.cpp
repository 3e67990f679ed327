#include "transaction/applications.hpp"

#include <sqlite3.h>

#include <stdexcept>

#include "base/bytes.hpp"
#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"
#include "support/postgres.hpp"
#include "support/temp_folder.hpp"

namespace semel::test {
namespace {

template <class T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.failure().message);
    return std::move(*result);
}

template <class Column>
std::vector<Column> as_columns(const std::vector<TestColumn>& columns) {
    std::vector<Column> converted;
    for (const TestColumn& column : columns) converted.push_back({column.name, column.value});
    return converted;
}

// ---- SQLite ----------------------------------------------------------------------------------------------------

class SqliteClient final : public Client {
public:
    explicit SqliteClient(const std::string& path) {
        if (sqlite3_open(path.c_str(), &db_) != SQLITE_OK) throw std::runtime_error("open " + path);
        sqlite3_busy_timeout(db_, 60'000);
    }
    ~SqliteClient() override { sqlite3_close(db_); }
    SqliteClient(const SqliteClient&) = delete;
    SqliteClient& operator=(const SqliteClient&) = delete;

    void begin() override { run("begin immediate"); }
    bool commit() override {
        run("commit");
        return true;
    }
    void rollback() override { run("rollback"); }
    void run(const std::string& sql) override { value(sql); }
    std::string value(const std::string& sql) override {
        std::string first;
        char* error = nullptr;
        const auto take = [](void* into, int count, char** values, char**) {
            auto& text = *static_cast<std::string*>(into);
            if (text.empty() && count > 0 && values[0] != nullptr) text = values[0];
            return 0;
        };
        if (sqlite3_exec(db_, sql.c_str(), take, &first, &error) != SQLITE_OK) {
            const std::string message = sql + ": " + (error != nullptr ? error : "");
            sqlite3_free(error);
            throw std::runtime_error(message);
        }
        return first;
    }

    Result<OnceAnswer> once(const Operation& operation, const Fingerprint& fingerprint, const Effect& effect,
                            const OnceOptions& options) override {
        return sqlite::once(db_, operation, fingerprint, effect, options);
    }
    Result<TransactionClaim> claim(const Operation& operation, const Fingerprint& fingerprint,
                                   const OnceOptions& options) override {
        return sqlite::claim(db_, operation, fingerprint, options);
    }
    Result<HolderAnswer> settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) override {
        return sqlite::settle(db_, operation, claimed, outcome);
    }
    Result<CreatedRow> create_once(const std::string& table, const std::vector<TestColumn>& unique,
                                   const std::vector<TestColumn>& rest,
                                   const std::vector<std::string>& returning) override {
        return sqlite::create_once(db_, table, as_columns<sqlite::Column>(unique), as_columns<sqlite::Column>(rest),
                                   returning);
    }
    Result<AppliedIf> apply_if(const std::string& table, const TestColumn& id, const std::string& column,
                               const std::string& expected, const std::string& next,
                               const std::vector<TestColumn>& also) override {
        return sqlite::apply_if(db_, table, {id.name, id.value}, column, expected, next,
                                as_columns<sqlite::Column>(also));
    }

private:
    sqlite3* db_ = nullptr;
};

class SqliteApplication final : public Application {
public:
    SqliteApplication() { client_.run("create table effect (what text)"); }
    std::unique_ptr<Client> connect() override { return std::make_unique<SqliteClient>(path_); }
    Store& store() override { return *store_; }
    std::string stored(const OperationId& id, const std::string& column) override {
        const bool number = column == "token" || column == "due" || column == "state";
        return client_.value("select " + (number ? column : "lower(hex(" + column + "))") +
                             " from semel_operation where op = x'" + to_hex(id.bytes) + "'");
    }
    void store_column(const OperationId& id, const std::string& column, const std::string& value) override {
        const bool number = column == "token" || column == "due" || column == "state";
        const bool text = column == "scope" || column == "key";
        const std::string literal = number ? value : text ? "cast(x'" + value + "' as text)" : "x'" + value + "'";
        client_.run("update semel_operation set " + column + " = " + literal + " where op = x'" + to_hex(id.bytes) +
                    "'");
    }

private:
    TempFolder folder_;
    std::string path_ = (folder_.path() / "application.db").string();
    std::unique_ptr<Store> store_ = must(sqlite::open({.path = path_, .reserve_bytes = 0}));
    SqliteClient client_{path_};
};

// ---- PostgreSQL ------------------------------------------------------------------------------------------------

class PostgresClient final : public Client {
public:
    PostgresClient(const std::string& uri, std::string isolation)
        : connection_(uri), isolation_(std::move(isolation)) {}

    void begin() override { run("begin isolation level " + isolation_); }
    bool commit() override {
        PGresult* result = PQexec(connection_.raw(), "commit");
        const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const std::string error = state == nullptr ? "" : state;
        const std::string tag = PQcmdStatus(result);
        PQclear(result);
        if (tag == "COMMIT") return true;
        if (error == "40001") return false;
        throw std::runtime_error("commit: " + tag + " " + error);
    }
    void rollback() override { run("rollback"); }
    void run(const std::string& sql) override { connection_.run(sql); }
    std::string value(const std::string& sql) override { return connection_.value(sql); }

    Result<OnceAnswer> once(const Operation& operation, const Fingerprint& fingerprint, const Effect& effect,
                            const OnceOptions& options) override {
        return postgres::once(connection_.raw(), operation, fingerprint, effect, options);
    }
    Result<TransactionClaim> claim(const Operation& operation, const Fingerprint& fingerprint,
                                   const OnceOptions& options) override {
        return postgres::claim(connection_.raw(), operation, fingerprint, options);
    }
    Result<HolderAnswer> settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) override {
        return postgres::settle(connection_.raw(), operation, claimed, outcome);
    }
    Result<CreatedRow> create_once(const std::string& table, const std::vector<TestColumn>& unique,
                                   const std::vector<TestColumn>& rest,
                                   const std::vector<std::string>& returning) override {
        return postgres::create_once(connection_.raw(), table, as_columns<postgres::Column>(unique),
                                     as_columns<postgres::Column>(rest), returning);
    }
    Result<AppliedIf> apply_if(const std::string& table, const TestColumn& id, const std::string& column,
                               const std::string& expected, const std::string& next,
                               const std::vector<TestColumn>& also) override {
        return postgres::apply_if(connection_.raw(), table, {id.name, id.value}, column, expected, next,
                                  as_columns<postgres::Column>(also));
    }

private:
    TestConnection connection_;
    std::string isolation_;
};

class PostgresApplication final : public Application {
public:
    PostgresApplication(std::string isolation, bool pooled) : isolation_(std::move(isolation)), pooled_(pooled) {
        connection_.run("create table effect (what text)");
    }
    std::unique_ptr<Client> connect() override {
        return std::make_unique<PostgresClient>(pooled_ ? database_.pooled_uri() : database_.uri(), isolation_);
    }
    Store& store() override { return *store_; }
    std::string stored(const OperationId& id, const std::string& column) override {
        return connection_.value("select " + read(column) + " from semel.operation where op = '" + to_hex(id.bytes) +
                                 "'");
    }
    void store_column(const OperationId& id, const std::string& column, const std::string& value) override {
        const bool number = column == "token" || column == "due" || column == "state";
        const bool text = column == "scope" || column == "key";
        const std::string bytes = "decode('" + value + "', 'hex')";
        connection_.run("update semel.operation set " + column + " = " +
                        (number ? value
                         : text ? "convert_from(" + bytes + ", 'UTF8')"
                                : bytes) +
                        " where op = '" + to_hex(id.bytes) + "'");
    }

private:
    static std::string read(const std::string& column) {
        if (column == "token" || column == "due" || column == "state") return column;
        if (column == "scope" || column == "key") return "encode(convert_to(" + column + ", 'UTF8'), 'hex')";
        return "encode(" + column + ", 'hex')";
    }
    std::string isolation_;
    bool pooled_;
    TestDatabase database_;
    TestConnection connection_{database_.uri()};
    std::unique_ptr<Store> store_ = must(postgres::open({.uri = database_.uri()}));
};

}  // namespace

const std::vector<Mode>& all_modes() {
    static const std::vector<Mode> modes = {
        {"sqlite", [] { return std::make_unique<SqliteApplication>(); }},
        {"postgres", [] { return std::make_unique<PostgresApplication>("read committed", false); }},
        {"repeatable_read", [] { return std::make_unique<PostgresApplication>("repeatable read", false); }},
        {"serializable", [] { return std::make_unique<PostgresApplication>("serializable", false); }},
        {"pgbouncer", [] { return std::make_unique<PostgresApplication>("read committed", true); }},
    };
    return modes;
}

}  // namespace semel::test
