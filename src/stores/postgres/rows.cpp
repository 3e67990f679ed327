#include "stores/postgres/rows.hpp"

#include <fmt/format.h>

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

const std::string moment_sql =
    fmt::format("{}, nextval('semel.token'), current_setting('synchronous_commit') <> 'off'", clock_sql);

Moment moment_of(const Rows& rows) {
    return {.now = time_from_micros(rows.integer(0, 0)),
            .first_token = {static_cast<std::uint64_t>(rows.integer(0, 1))},
            .durable = rows.bytes(0, 2) == std::string_view("\1", 1)};
}

namespace {

/// What every writing of rows brings, as the first five parameters.
class Changing {
public:
    void add(const Row& row) {
        ids_.bytes(view(row.id.bytes));
        dues_.int8(row.due);
        states_.int2(static_cast<std::int16_t>(row.state));
        records_.bytes(std::string_view(row.record));
        outcomes_.bytes(row.outcome);
    }
    Params take() {
        Params params;
        params.array(std::move(ids_)).array(std::move(dues_)).array(std::move(states_));
        params.array(std::move(records_)).array(std::move(outcomes_));
        return params;
    }

private:
    Params::Array ids_ = Params::uuids();
    Params::Array dues_ = Params::int8s();
    Params::Array states_ = Params::int2s();
    Params::Array records_ = Params::byteas();
    Params::Array outcomes_ = Params::byteas();
};

}  // namespace

Params row_params(std::vector<Row> rows) {
    std::ranges::sort(rows, {}, &Row::id);
    Changing changing;
    auto tokens = Params::int8s();
    auto scopes = Params::texts();
    auto keys = Params::texts();
    for (const Row& row : rows) {
        changing.add(row);
        tokens.int8(static_cast<std::int64_t>(row.token.value));
        scopes.bytes(row.scope);
        keys.bytes(row.key);
    }
    Params params = changing.take();
    params.array(std::move(tokens)).array(std::move(scopes)).array(std::move(keys));
    return params;
}

Params change_params(std::vector<Change> changes) {
    std::ranges::sort(changes, {}, [](const Change& change) -> const OperationId& { return change.next.id; });
    Changing changing;
    auto were = Params::byteas();
    for (const Change& change : changes) {
        changing.add(change.next);
        were.bytes(std::string_view(change.was));
    }
    Params params = changing.take();
    params.array(std::move(were));
    return params;
}

namespace {

constexpr const char* insert_begin =
    "insert into semel.operation (op, due, state, record, outcome, token, scope, key) "
    "select * from unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::bytea[], $5::bytea[], $6::bigint[], $7::text[], "
    "$8::text[]) ";
constexpr const char* insert_end = "on conflict (op) do nothing returning op";
constexpr const char* change_begin =
    "update semel.operation as o set due = u.due, state = u.state, record = u.record, outcome = u.outcome "
    "from unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::bytea[], $5::bytea[], $6::bytea[]) "
    "as u (op, due, state, record, outcome, was) where o.op = u.op and o.record = u.was ";
constexpr const char* change_end = "returning o.op";

/// Both are looked at once for the statement.
std::string still(std::string_view parameter) {
    return fmt::format(
        "current_setting('synchronous_commit') <> 'off' and "
        "(extract(epoch from statement_timestamp()) * 1000000)::bigint <= {}::bigint ",
        parameter);
}

}  // namespace

const std::string insert_sql = fmt::format("{}{}", insert_begin, insert_end);
const std::string insert_until_sql = fmt::format("{}where {}{}", insert_begin, still("$9"), insert_end);
const std::string change_sql = fmt::format("{}{}", change_begin, change_end);
const std::string change_until_sql = fmt::format("{}and {}{}", change_begin, still("$7"), change_end);

const char* const update_sql =
    "update semel.operation as o set due = u.due, state = u.state, record = u.record, outcome = u.outcome, "
    "token = u.token, scope = u.scope, key = u.key "
    "from unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::bytea[], $5::bytea[], $6::bigint[], $7::text[], "
    "$8::text[]) "
    "as u (op, due, state, record, outcome, token, scope, key) where o.op = u.op";

Params ids_param(std::vector<OperationId> ids) {
    std::ranges::sort(ids);
    auto array = Params::uuids();
    for (const OperationId& id : ids) array.bytes(view(id.bytes));
    Params params;
    params.array(std::move(array));
    return params;
}

}  // namespace semel::postgres
