#include "stores/postgres/schema.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace semel::postgres {

int schema_version() { return migration_count; }

Failure failure_of(const WireError& error, std::string_view tried, const Options& options) {
    const std::string where = without_password(options.uri);
    if (error.lost())
        return {Code::unavailable, fmt::format("{} on {}: {} within {} ms (store.timeout)", tried, where, error.message,
                                               options.timeout / std::chrono::milliseconds{1})};
    return {code_of(error.sqlstate), fmt::format("{} on {}: {} ({})", tried, where, error.message, error.sqlstate)};
}

Result<int> schema_of(Wire& wire, Duration timeout) {
    wire.send("select to_regclass('semel.meta') is not null");
    auto exists = wire.round_trip(timeout);
    if (auto* error = std::get_if<WireError>(&exists))
        return Failure{Code::unavailable, "read the schema: " + error->message};
    if (std::get<0>(exists)[0].bytes(0, 0) != std::string_view("\1", 1)) return 0;
    wire.send("select value from semel.meta where name = 'schema'");
    auto version = wire.round_trip(timeout);
    if (auto* error = std::get_if<WireError>(&version))
        return Failure{code_of(error->sqlstate), "read semel.meta: " + error->message};
    const Rows& rows = std::get<0>(version)[0];
    return rows.count() == 0 ? 0 : static_cast<int>(rows.integer(0, 0));
}

Status check_server(Wire& wire, const Options& options) {
    const std::string where = without_password(options.uri);
    wire.send(
        "select current_setting('synchronous_commit') = 'off', current_setting('fsync') = 'off', pg_is_in_recovery()");
    auto settings = wire.round_trip(options.timeout);
    if (auto* error = std::get_if<WireError>(&settings)) return failure_of(*error, "check the server", options);
    const Rows& rows = std::get<0>(settings)[0];
    const auto is_true = [&](int column) { return rows.bytes(0, column) == std::string_view("\1", 1); };
    if (is_true(0))
        return Failure{
            Code::invalid,
            fmt::format("open {}: synchronous_commit is off for this role or database: a crash of the server "
                        "would lose acknowledged claims; set it to on",
                        where)};
    if (is_true(1))
        return Failure{
            Code::invalid,
            fmt::format("open {}: fsync is off on this server: a crash would lose acknowledged claims; set it to "
                        "on",
                        where)};
    if (is_true(2))
        return Failure{Code::invalid, fmt::format("open {}: this server is a standby; claims need the primary", where)};
    const auto version = schema_of(wire, options.timeout);
    if (!version) return version.failure();
    if (*version == schema_version()) return Done{};
    if (*version > schema_version())
        return Failure{Code::invalid,
                       fmt::format("open {}: its schema is version {}, this program knows up to {}: use a newer semel",
                                   where, *version, schema_version())};
    return Failure{Code::invalid,
                   fmt::format("open {}: {}: run `semel migrate --store {}`", where,
                               *version == 0 ? "it has no schema `semel`"
                                             : fmt::format("its schema is version {}, this program needs {}", *version,
                                                           schema_version()),
                               where)};
}

Result<int> migrate(const Options& options) {
    auto wire = Wire::connect(options.uri, options.connect_timeout);
    if (!wire) return wire.failure();
    // A migration is a script: run it the simple way, outside of pipeline mode.
    PGconn* connection = wire->raw();
    PQexitPipelineMode(connection);
    PQsetnonblocking(connection, 0);
    const auto run = [&](const std::string& sql) -> Status {
        PGresult* result = PQexec(connection, sql.c_str());
        const ExecStatusType status = PQresultStatus(result);
        const bool done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
        const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const WireError error{state == nullptr ? "" : state, PQresultErrorMessage(result)};
        PQclear(result);
        if (done) return Done{};
        return failure_of(error, "migrate", options);
    };
    const auto version_now = [&]() -> Result<int> {
        PGresult* result = PQexec(connection, "select case when to_regclass('semel.meta') is null then 0 else 1 end");
        const bool has_meta = PQntuples(result) == 1 && std::string_view(PQgetvalue(result, 0, 0)) == "1";
        PQclear(result);
        if (!has_meta) return 0;
        result = PQexec(connection, "select value from semel.meta where name = 'schema'");
        const int version =
            PQntuples(result) == 1 ? static_cast<int>(std::strtol(PQgetvalue(result, 0, 0), nullptr, 10)) : 0;
        PQclear(result);
        return version;
    };
    // One migration at a time: the lock ends with the transaction.
    if (auto begun = run("begin; select pg_advisory_xact_lock(7306356)"); !begun) return begun.failure();
    const auto version = version_now();
    if (!version) return version.failure();
    if (*version > schema_version())
        return Failure{
            Code::invalid,
            fmt::format("migrate {}: its schema is version {}, this program knows up to {}: use a newer semel",
                        without_password(options.uri), *version, schema_version())};
    for (int next = *version; next < schema_version(); ++next) {
        if (auto done = run(migrations[next]); !done) return done.failure();
    }
    if (auto marked = run(fmt::format("insert into semel.meta (name, value) values ('schema', {}) "
                                      "on conflict (name) do update set value = excluded.value",
                                      schema_version()));
        !marked)
        return marked.failure();
    if (auto committed = run("commit"); !committed) return committed.failure();
    return schema_version();
}

}  // namespace semel::postgres
