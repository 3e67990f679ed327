// The operation table of one connection: reading and writing rows inside whatever transaction is open.
#pragma once

#include <cstdint>
#include <optional>

#include "ledger/plan.hpp"
#include "ledger/row.hpp"
#include "stores/sqlite/database.hpp"

namespace semel::sqlite {

class OperationTable {
public:
    static Result<OperationTable> prepare(sqlite3* connection);

    struct Stored {
        Found found;
        std::int64_t rowid = 0;
    };
    /// What is stored under the id. A row that cannot be trusted is a Failure inside Found, not of the call.
    Result<Stored> load(const OperationId& id);
    Status insert(const Record& record);
    Status update(std::int64_t rowid, const Record& record);
    Status remove(std::int64_t rowid);

    /// The first token not given out yet (I3: read and written in the transaction of the grants).
    Result<Token> next_token();
    Status save_next_token(Token token);

    /// Changes with every commit of another connection, and with none of this one.
    Result<std::int64_t> data_version();

    [[nodiscard]] sqlite3* connection() const { return connection_; }

private:
    Status write(Statement& statement, const Record& record, std::optional<std::int64_t> rowid, std::string_view tried);

    sqlite3* connection_ = nullptr;
    Statement select_;
    Statement insert_;
    Statement update_;
    Statement remove_;
    Statement token_;
    Statement save_token_;
    Statement version_;
};

/// Reads the columns `rowid, op, token, due, state, scope, key, record, outcome`.
Row read_row(const Statement& statement);
inline constexpr std::string_view row_columns = "rowid, op, token, due, state, scope, key, record, outcome";

}  // namespace semel::sqlite
