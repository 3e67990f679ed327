// Rows of semel.operation on their way between the server and the rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/plan.hpp"
#include "ledger/row.hpp"
#include "stores/postgres/wire.hpp"

namespace semel::postgres {

/// The increment of the sequence semel.token: one nextval is good for this many tokens.
inline constexpr std::int64_t token_block = 1024;
/// The state of a row whose operation is absent; see 001_ledger.sql.
inline constexpr std::int16_t released_state = 0;

inline constexpr std::string_view columns = "op, token, due, state, scope, key, record, outcome";
inline constexpr const char* clock_sql = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
/// What a transaction needs of the server before it decides: its clock, and a block of tokens.
struct Moment {
    TimePoint now;
    Token first_token;
    bool durable = true;  ///< false: synchronous_commit is off, and nothing may be told of a commit
};
extern const std::string moment_sql;
Moment moment_of(const Rows& rows);
extern const std::string insert_sql;  ///< takes row_params; returns the ids it has put in
extern const char* const update_sql;  ///< takes row_params
extern const std::string change_sql;  ///< takes change_params; returns the ids of the rows that were as expected
/// The same with one more parameter: the last moment, in microseconds, by the server's clock. Later they do nothing, nor do
/// they while synchronous_commit is off.
extern const std::string insert_until_sql;
extern const std::string change_until_sql;

/// From the first column.
OperationId id_at(const Rows& rows, int at);
/// From all `columns`.
Row read_row(const Rows& rows, int at);
Found found_in(const Rows& rows, int at);

/// Rows as the parameters of a set-based INSERT or UPDATE, sorted by id so that two batches cannot deadlock.
Params row_params(std::vector<Row> rows);
/// A row as it shall be, if its record still is what it was. Token, scope and key stay.
struct Change {
    Row next;
    std::string was;  ///< Row::record: its checksum is over all that may change
};
Params change_params(std::vector<Change> changes);
Params ids_param(std::vector<OperationId> ids);

}  // namespace semel::postgres
