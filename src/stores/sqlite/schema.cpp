#include "stores/sqlite/schema.hpp"

#include <fmt/format.h>

#include "stores/sqlite/database.hpp"

namespace semel::sqlite {
namespace {

// One entry per version, in order. Never edit one that was released: add the next.
constexpr const char* migrations[] = {
    // 1: operations in the order they came, found by their id; those that want attention by state and time.
    R"sql(
    create table semel_meta (name text primary key, value) without rowid;
    create table semel_operation (
        op      blob    not null,
        token   integer not null,
        due     integer,
        state   integer not null,
        scope   text,
        key     text,
        record  blob    not null,
        outcome blob
    );
    create unique index semel_operation_op on semel_operation (op);
    create index semel_operation_due on semel_operation (state, due) where due is not null;
    create view semel_operations as
        select lower(hex(op)) as operation,
               case state when 1 then 'running' when 2 then 'unknown' when 3 then 'settled' end as state,
               scope, key, token,
               case when due < 253402300800000000 then datetime(due / 1000000, 'unixepoch') end as due,
               length(outcome) as outcome_bytes
          from semel_operation;
    insert into semel_meta (name, value) values ('schema', 1), ('token', 1), ('epoch', 0);
    )sql",
    // 2: what consumers of messages keep beside the ledger; sql/postgres/003_messages.sql says what each is for.
    R"sql(
    create table semel_consumer (
        name            text    primary key,
        generation      integer not null default 0,
        generation_last integer not null default 0
    ) without rowid;
    create table semel_consumer_member (
        consumer text    not null,
        member   text    not null,
        progress integer not null,
        beat     integer not null,
        primary key (consumer, member)
    ) without rowid;
    create table semel_shelf (
        number       integer primary key autoincrement,
        consumer     text    not null,
        generation   integer not null,
        ordering_key text    not null,
        aggregate    text    not null,
        sequence     integer,
        held         integer not null,
        ready_at     integer not null,
        tries        integer not null,
        first_at     integer not null,
        error        text    not null,
        message      blob    not null
    );
    create index semel_shelf_ready on semel_shelf (consumer, held, ready_at);
    create index semel_shelf_order on semel_shelf (consumer, ordering_key, number);
    create table semel_dead_letter (
        number     integer primary key autoincrement,
        consumer   text    not null,
        identity   blob    not null,
        generation integer not null,
        scope      text,
        key        text,
        reason     text    not null,
        error      text    not null,
        tries      integer not null,
        at         integer not null,
        message    blob    not null,
        unique (consumer, identity)
    );
    create table semel_order_mark (
        consumer  text    not null,
        aggregate text    not null,
        last      integer not null,
        primary key (consumer, aggregate)
    ) without rowid;
    )sql",
    // 3: the outbox; sql/postgres/004_outbox.sql says what each is for. One writer at a time: sequence is commit order, and
    // one shard is enough.
    R"sql(
    create table semel_outbox (
        sequence          integer primary key autoincrement,
        outbox            text    not null default 'main',
        staged_at         integer not null default (cast((julianday('now') - 2440587.5) * 86400000000 as integer)),
        topic             text    not null,
        ordering_key      text    not null default '',
        id                text    not null,
        source            text    not null,
        type              text    not null,
        subject           text    not null default '',
        time              text    not null default '',
        data_content_type text    not null default 'application/json',
        data_schema       text    not null default '',
        extensions        text    not null default '',
        data              blob    not null
    );
    create index semel_outbox_order on semel_outbox (outbox, sequence);
    create table semel_outbox_lease (
        outbox text    primary key,
        relay  text    not null,
        until  integer not null
    ) without rowid;
    create table semel_outbox_stuck (
        sequence     integer primary key,
        outbox       text    not null,
        ordering_key text    not null,
        tries        integer not null,
        since        integer not null,
        retry_at     integer not null,
        error        text    not null
    );
    create index semel_outbox_stuck_order on semel_outbox_stuck (outbox, ordering_key);
    create table semel_outbox_dropped (
        sequence     integer primary key,
        outbox       text    not null,
        dropped_at   integer not null,
        who          text    not null,
        why          text    not null,
        staged_at    integer not null,
        tries        integer not null,
        error        text    not null,
        topic        text    not null,
        ordering_key text    not null,
        id           text    not null,
        source       text    not null,
        type         text    not null
    );
    )sql",
};
static_assert(std::size(migrations) == schema_version);

}  // namespace

Result<int> schema_of(sqlite3* connection) {
    auto exists =
        Statement::prepare(connection, "select 1 from sqlite_master where type = 'table' and name = 'semel_meta'");
    if (!exists) return exists.failure();
    const int found = exists->step();
    if (found == SQLITE_DONE) return 0;
    if (found != SQLITE_ROW) return failure_of(connection, "read the schema");
    auto version = Statement::prepare(connection, "select value from semel_meta where name = 'schema'");
    if (!version) return version.failure();
    if (version->step() != SQLITE_ROW) return failure_of(connection, "read the schema version");
    return static_cast<int>(version->integer(0));
}

Result<int> migrate_schema(sqlite3* connection) {
    if (auto begun = run(connection, "begin immediate"); !begun) return begun.failure();
    const auto roll_back = [&](const Failure& failure) {
        sqlite3_exec(connection, "rollback", nullptr, nullptr, nullptr);
        return failure;
    };
    const auto version = schema_of(connection);
    if (!version) return roll_back(version.failure());
    if (*version > schema_version)
        return roll_back(check_schema(*version, sqlite3_db_filename(connection, "main")).failure());
    for (int next = *version; next < schema_version; ++next) {
        if (auto done = run(connection, migrations[next]); !done) return roll_back(done.failure());
        const std::string mark = fmt::format("update semel_meta set value = {} where name = 'schema'", next + 1);
        if (auto done = run(connection, mark.c_str()); !done) return roll_back(done.failure());
    }
    if (auto committed = run(connection, "commit"); !committed) return roll_back(committed.failure());
    return schema_version;
}

Status check_schema(int version, const char* path) {
    if (version == schema_version) return Done{};
    if (version > schema_version)
        return Failure{Code::invalid,
                       fmt::format("open sqlite:{}: its schema is version {}, this program knows up to {}: use a "
                                   "newer semel",
                                   path, version, schema_version)};
    if (version == 0)
        return Failure{
            Code::invalid,
            fmt::format("open sqlite:{}: it has no Semel tables: run `semel migrate --store sqlite:{}`", path, path)};
    return Failure{Code::invalid,
                   fmt::format("open sqlite:{}: its schema is version {}, this program needs {}: run `semel "
                               "migrate --store sqlite:{}`",
                               path, version, schema_version, path)};
}

}  // namespace semel::sqlite
