#include "stores/postgres/rows.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace semel::postgres {

OperationId id_at(const Rows& rows, int at) {
    OperationId id;
    const std::string_view bytes = rows.bytes(at, 0);
    SEMEL_ASSERT(bytes.size() == id.bytes.size(), "a uuid has 16 bytes");
    std::ranges::copy(bytes, id.bytes.begin());
    return id;
}

Row read_row(const Rows& rows, int at) {
    Row row;
    row.id = id_at(rows, at);
    row.token.value = static_cast<std::uint64_t>(rows.integer(at, 1));
    if (!rows.is_null(at, 2)) row.due = rows.integer(at, 2);
    row.state = static_cast<State>(rows.integer(at, 3));
    row.scope = rows.optional_bytes(at, 4);
    row.key = rows.optional_bytes(at, 5);
    row.record = rows.bytes(at, 6);
    row.outcome = rows.optional_bytes(at, 7);
    return row;
}

Found found_in(const Rows& rows, int at) {
    // Nothing of a released record is left: one that has lost its state only is damaged.
    if (rows.integer(at, 3) == released_state && rows.bytes(at, 6).empty()) return std::optional<Record>{};
    auto record = from_row(read_row(rows, at));
    if (!record) return std::move(record).failure();
    return std::optional<Record>(std::move(*record));
}

Params row_params(std::vector<Row> rows) {
    std::ranges::sort(rows, {}, &Row::id);
    auto ids = Params::uuids();
    auto tokens = Params::int8s();
    auto dues = Params::int8s();
    auto states = Params::int2s();
    auto scopes = Params::texts();
    auto keys = Params::texts();
    auto records = Params::byteas();
    auto outcomes = Params::byteas();
    for (const Row& row : rows) {
        ids.bytes(view(row.id.bytes));
        tokens.int8(static_cast<std::int64_t>(row.token.value));
        dues.int8(row.due);
        states.int2(static_cast<std::int16_t>(row.state));
        scopes.bytes(row.scope);
        keys.bytes(row.key);
        records.bytes(std::string_view(row.record));
        outcomes.bytes(row.outcome);
    }
    Params params;
    params.array(std::move(ids)).array(std::move(tokens)).array(std::move(dues)).array(std::move(states));
    params.array(std::move(scopes)).array(std::move(keys)).array(std::move(records)).array(std::move(outcomes));
    return params;
}

const char* const insert_sql =
    "insert into semel.operation (op, token, due, state, scope, key, record, outcome) "
    "select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::smallint[], $5::text[], $6::text[], $7::bytea[], "
    "$8::bytea[]) on conflict (op) do nothing returning op";

const char* const update_sql =
    "update semel.operation as o set token = u.token, due = u.due, state = u.state, scope = u.scope, key = u.key, "
    "record = u.record, outcome = u.outcome "
    "from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::smallint[], $5::text[], $6::text[], $7::bytea[], "
    "$8::bytea[]) "
    "as u (op, token, due, state, scope, key, record, outcome) where o.op = u.op";

Params ids_param(std::vector<OperationId> ids) {
    std::ranges::sort(ids);
    auto array = Params::uuids();
    for (const OperationId& id : ids) array.bytes(view(id.bytes));
    Params params;
    params.array(std::move(array));
    return params;
}

}  // namespace semel::postgres
