#include "stores/sqlite/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.hpp"

namespace semel::sqlite {

Row read_row(const Statement& statement) {
    Row row;
    const std::string id = statement.bytes(1);
    if (id.size() == row.id.bytes.size()) std::ranges::copy(id, row.id.bytes.begin());
    row.token.value = static_cast<std::uint64_t>(statement.integer(2));
    if (!statement.is_null(3)) row.due = statement.integer(3);
    row.state = static_cast<State>(statement.integer(4));
    row.scope = statement.optional_bytes(5);
    row.key = statement.optional_bytes(6);
    row.record = statement.bytes(7);
    row.outcome = statement.optional_bytes(8);
    return row;
}

Result<OperationTable> OperationTable::prepare(sqlite3* connection) {
    OperationTable table;
    table.connection_ = connection;
    const std::string select = fmt::format("select {} from semel_operation where op = ?1", row_columns);
    struct Prepared {
        Statement& into;
        std::string_view sql;
    };
    const Prepared all[] = {
        {table.select_, select},
        {table.insert_,
         "insert into semel_operation (op, token, due, state, scope, key, record, outcome) "
         "values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"},
        {table.update_,
         "update semel_operation set token = ?2, due = ?3, state = ?4, scope = ?5, key = ?6, record = ?7, "
         "outcome = ?8 where rowid = ?1"},
        {table.remove_, "delete from semel_operation where rowid = ?1"},
        {table.token_, "select value from semel_meta where name = 'token'"},
        {table.save_token_, "update semel_meta set value = ?1 where name = 'token'"},
        {table.version_, "pragma data_version"},
    };
    for (const auto& [into, sql] : all) {
        auto statement = Statement::prepare(connection, sql);
        if (!statement) return statement.failure();
        into = std::move(*statement);
    }
    return table;
}

Result<OperationTable::Stored> OperationTable::load(const OperationId& id) {
    select_.bind_blob(1, view(id.bytes));
    const int result = select_.step();
    Stored stored{std::optional<Record>{}, 0};
    if (result == SQLITE_ROW) {
        stored.rowid = select_.integer(0);
        auto record = from_row(read_row(select_));
        if (record)
            stored.found = std::optional<Record>(std::move(*record));
        else
            stored.found = std::move(record).failure();
    }
    select_.reset();
    if (result != SQLITE_ROW && result != SQLITE_DONE) return failure_of(connection_, "find an operation");
    return stored;
}

Status OperationTable::write(Statement& statement, const Record& record, std::optional<std::int64_t> rowid,
                             std::string_view tried) {
    const Row row = to_row(record);
    if (rowid)
        statement.bind(1, *rowid);
    else
        statement.bind_blob(1, view(row.id.bytes));
    statement.bind(2, static_cast<std::int64_t>(row.token.value));
    statement.bind_or_null(3, row.due, [&](int at, std::int64_t due) { statement.bind(at, due); });
    statement.bind(4, static_cast<std::int64_t>(row.state));
    const auto text = [&](int at, const std::string& value) { statement.bind_text(at, value); };
    statement.bind_or_null(5, row.scope, text);
    statement.bind_or_null(6, row.key, text);
    statement.bind_blob(7, row.record);
    statement.bind_or_null(8, row.outcome, [&](int at, const std::string& body) { statement.bind_blob(at, body); });
    const int result = statement.run();
    if (result != SQLITE_DONE) return failure_of(connection_, tried);
    return Done{};
}

Status OperationTable::insert(const Record& record) {
    return write(insert_, record, std::nullopt, "insert an operation");
}

Status OperationTable::update(std::int64_t rowid, const Record& record) {
    return write(update_, record, rowid, "update an operation");
}

Status OperationTable::remove(std::int64_t rowid) {
    remove_.bind(1, rowid);
    if (remove_.run() != SQLITE_DONE) return failure_of(connection_, "remove an operation");
    return Done{};
}

Result<Token> OperationTable::next_token() {
    const int result = token_.step();
    const Token token{static_cast<std::uint64_t>(token_.integer(0))};
    token_.reset();
    if (result != SQLITE_ROW) return failure_of(connection_, "read the token counter");
    return token;
}

Status OperationTable::save_next_token(Token token) {
    save_token_.bind(1, static_cast<std::int64_t>(token.value));
    if (save_token_.run() != SQLITE_DONE) return failure_of(connection_, "write the token counter");
    return Done{};
}

Result<std::int64_t> OperationTable::data_version() {
    const int result = version_.step();
    const std::int64_t version = version_.integer(0);
    version_.reset();
    if (result != SQLITE_ROW) return failure_of(connection_, "read the version of the data");
    return version;
}

}  // namespace semel::sqlite
