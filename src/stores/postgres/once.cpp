// Operations inside a caller's own PostgreSQL transaction, on the caller's own connection.
//
// The decisions are made by the SQL functions that services in other languages call too (sql/postgres/002_functions.sql):
// the claim is a settled row without its outcome (unfilled), written first; settle fills it. Row and effect share the fate
// of the caller's transaction:
//   ROLLBACK or crash      neither exists; the next try runs
//   COMMIT after settle    both exist; the next try replays
//   COMMIT without settle  both exist; the next try is told "done, outcome not kept"
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "ledger/in_transaction.hpp"
#include "ledger/staged_event.hpp"
#include "semel/postgres.hpp"
#include "stores/postgres/wire.hpp"

namespace semel::postgres {
namespace {

// ---- the caller's connection -----------------------------------------------------------------------------------

Status check_transaction(PGconn* connection, std::string_view tried) {
    const auto invalid = [&](std::string_view why) {
        return Failure{Code::invalid, fmt::format("{}: {}", tried, why)};
    };
    if (connection == nullptr) return invalid("there is no connection");
    if (PQpipelineStatus(connection) != PQ_PIPELINE_OFF)
        return invalid("the connection is in pipeline mode; leave it first");
    switch (PQtransactionStatus(connection)) {
        case PQTRANS_INTRANS: return Done{};
        case PQTRANS_IDLE: return invalid("the connection has no transaction open; say BEGIN first");
        case PQTRANS_INERROR: return invalid("the transaction has failed; roll it back first");
        case PQTRANS_ACTIVE: return invalid("the connection is still busy with another command");
        case PQTRANS_UNKNOWN: break;
    }
    return Failure{Code::unavailable, fmt::format("{}: the connection is lost", tried)};
}

Failure failure_of(const PGresult* result, PGconn* connection, std::string_view tried) {
    const auto field = [&](int code) -> std::string {
        const char* text = PQresultErrorField(result, code);
        return text == nullptr ? "" : text;
    };
    const std::string state = field(PG_DIAG_SQLSTATE);
    if (state.empty()) {
        std::string message = PQerrorMessage(connection);
        std::ranges::replace(message, '\n', ' ');
        return {Code::unavailable, fmt::format("{}: {}", tried, message)};
    }
    const std::string message = field(PG_DIAG_MESSAGE_PRIMARY);
    if (state == "3F000" || state == "42883" || state == "42P01")
        return {Code::invalid,
                fmt::format("{}: {} ({}); has `semel migrate` been run on this database?", tried, message, state)};
    // A standby or a read-only transaction refuses every time.
    const Code code = state.starts_with("25") ? Code::invalid : code_of(state);
    return {code, fmt::format("{}: {} ({})", tried, message, state)};
}

/// One parameter in the format that its type asks for; a null type is for the server to infer, from text.
class Arguments {
public:
    Arguments& text(const std::optional<std::string>& value) { return add(0, value, 0); }
    Arguments& typed_text(std::string value) { return add(25, std::move(value), 1); }
    Arguments& bytea(const std::optional<std::string>& value) { return add(17, value, 1); }
    Arguments& int8(const std::optional<std::int64_t>& value) {
        if (!value) return add(20, std::nullopt, 1);
        ByteWriter bytes;
        bytes.be64(static_cast<std::uint64_t>(*value));
        return add(20, bytes.take(), 1);
    }
    Arguments& int4(std::int32_t value) {
        ByteWriter bytes;
        bytes.be32(static_cast<std::uint32_t>(value));
        return add(23, bytes.take(), 1);
    }

    Result<Rows> run(PGconn* connection, const std::string& sql, int result_format, std::string_view tried) const {
        std::vector<const char*> pointers;
        std::vector<int> lengths;
        for (const auto& value : values_) {
            pointers.push_back(value ? value->c_str() : nullptr);
            lengths.push_back(value ? static_cast<int>(value->size()) : 0);
        }
        PGresult* result = PQexecParams(connection, sql.c_str(), static_cast<int>(values_.size()), types_.data(),
                                        pointers.data(), lengths.data(), formats_.data(), result_format);
        Rows rows(result);
        const ExecStatusType status = PQresultStatus(result);
        if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) return failure_of(result, connection, tried);
        return rows;
    }

private:
    Arguments& add(Oid type, std::optional<std::string> value, int format) {
        types_.push_back(type);
        values_.push_back(std::move(value));
        formats_.push_back(format);
        return *this;
    }
    std::vector<Oid> types_;
    std::vector<std::optional<std::string>> values_;
    std::vector<int> formats_;
};

constexpr int as_text = 0;
constexpr int as_binary = 1;

Status run(PGconn* connection, const char* sql, std::string_view tried) {
    const Rows result(PQexec(connection, sql));
    if (result.status() == PGRES_COMMAND_OK) return Done{};
    return failure_of(result.raw(), connection, tried);
}

std::optional<std::int64_t> micros_of(const std::optional<Duration>& span) {
    if (!span) return std::nullopt;
    return span->count();
}

// ---- the answers of the SQL functions --------------------------------------------------------------------------

/// Of the columns of semel._claim.
Result<TransactionClaim> read_claim(const Rows& rows, const std::string& tried) {
    const auto integer = [&](int column) { return rows.is_null(0, column) ? 0 : rows.integer(0, column); };
    const std::string_view answer = rows.bytes(0, 0);
    if (answer == "claimed") {
        Claimed claimed;
        claimed.token.value = static_cast<std::uint64_t>(integer(1));
        return TransactionClaim{std::move(claimed)};
    }
    if (answer == "replay") {
        Outcome outcome{.status = static_cast<std::int32_t>(integer(2)), .body = {}, .kept = !rows.is_null(0, 3)};
        if (outcome.kept) outcome.body = rows.bytes(0, 3);
        return TransactionClaim{Replay{std::move(outcome), time_from_micros(integer(4))}};
    }
    if (answer == "busy") return TransactionClaim{Busy{Duration{integer(6)}}};
    if (answer == "mismatch") return TransactionClaim{Mismatch{}};
    if (answer == "unknown") return TransactionClaim{Unknown{time_from_micros(integer(5))}};
    if (answer == "expired") return TransactionClaim{Expired{}};
    return Failure{Code::invalid,
                   fmt::format("{}: the database answered `{}`: its schema is newer than this program", tried, answer)};
}

/// A contended transaction is an answer here: the caller has to run it again.
template <class Answer>
Result<Answer> or_retry(Failure failure) {
    if (failure.code == Code::contended) return Answer{RetryTransaction{}};
    return failure;
}

// ---- SQL made here ---------------------------------------------------------------------------------------------

std::string quoted(std::string_view identifier) {
    std::string text = "\"";
    for (char c : identifier) {
        if (c == '"') text += '"';
        text += c;
    }
    return text + '"';
}

/// `name` or `schema.name`.
std::string quoted_table(std::string_view table) {
    const auto dot = table.find('.');
    if (dot == std::string_view::npos) return quoted(table);
    return quoted(table.substr(0, dot)) + '.' + quoted(table.substr(dot + 1));
}

}  // namespace

Result<TransactionClaim> claim(PGconn* connection, const Operation& operation, const Fingerprint& fingerprint,
                               const OnceOptions& options) {
    const std::string tried = "claim " + operation.text();
    if (auto open = check_transaction(connection, tried); !open) return open.failure();
    if (auto fine = check(operation, options); !fine) return fine.failure();
    std::optional<std::int64_t> key_time;
    if (const auto time = key_time_of(operation, options)) key_time = micros(*time);
    Arguments arguments;
    arguments.typed_text(operation.scope.text()).typed_text(operation.key.text());
    arguments.bytea(static_cast<char>(fingerprint.version) + std::string(view(fingerprint.bytes)));
    arguments.int8(micros_of(options.retention.identity)).int8(micros_of(options.retention.response));
    arguments.typed_text(options.correlation).int8(key_time);
    const auto rows = arguments.run(connection,
                                    "select answer, token, status, outcome, settled_at, since, retry_after "
                                    "from semel._claim($1, $2, $3, $4, $5, $6, $7)",
                                    as_binary, tried);
    if (!rows) return or_retry<TransactionClaim>(rows.failure());
    return read_claim(*rows, tried);
}

Result<HolderAnswer> settle(PGconn* connection, const Operation& operation, const Claimed& claimed,
                            const Outcome& outcome) {
    const std::string tried = "settle " + operation.text();
    if (auto open = check_transaction(connection, tried); !open) return open.failure();
    if (auto fine = check(outcome); !fine) return fine.failure();
    std::optional<std::string> attempt;
    if (claimed.attempt != Attempt{}) attempt = view(claimed.attempt.bytes);
    Arguments arguments;
    arguments.typed_text(operation.scope.text()).typed_text(operation.key.text());
    arguments.int8(static_cast<std::int64_t>(claimed.token.value)).bytea(attempt).int4(outcome.status);
    arguments.bytea(outcome.kept ? std::optional(outcome.body) : std::nullopt);
    const auto rows =
        arguments.run(connection, "select answer, held_status, held_outcome from semel._settle($1, $2, $3, $4, $5, $6)",
                      as_binary, tried);
    if (!rows) return rows.failure();
    const std::string_view answer = rows->bytes(0, 0);
    if (answer == "ok") return HolderAnswer{Ok{State::settled, {}, std::nullopt}};
    if (answer == "fenced") return HolderAnswer{Fenced{}};
    Outcome held{.status = static_cast<std::int32_t>(rows->integer(0, 1)), .body = {}, .kept = !rows->is_null(0, 2)};
    if (held.kept) held.body = rows->bytes(0, 2);
    return HolderAnswer{Settled{std::move(held)}};
}

Result<OnceAnswer> once(PGconn* connection, const Operation& operation, const Fingerprint& fingerprint,
                        const Effect& effect, const OnceOptions& options) {
    const std::string tried = "once " + operation.text();
    if (auto open = check_transaction(connection, tried); !open) return open.failure();
    if (auto marked = run(connection, "savepoint semel_once", tried); !marked) return marked.failure();
    // Leaves nothing of claim and effect behind, and the caller's transaction as it was.
    const auto undo = [&] {
        return run(connection, "rollback to savepoint semel_once; release savepoint semel_once", tried);
    };

    auto claimed = claim(connection, operation, fingerprint, options);
    const auto* mine = claimed ? std::get_if<Claimed>(&*claimed) : nullptr;
    if (mine == nullptr) {
        if (auto undone = undo(); !undone) return undone.failure();
        if (!claimed) return claimed.failure();
        return std::visit(match{[](Claimed&) -> OnceAnswer { return RetryTransaction{}; },
                                [](auto& answer) -> OnceAnswer { return std::move(answer); }},
                          *claimed);
    }
    Outcome outcome;
    try {
        outcome = effect();
    } catch (...) {
        // If this fails too, the connection is lost and the server rolls everything back.
        (void)undo();
        throw;
    }
    switch (PQtransactionStatus(connection)) {
        case PQTRANS_INTRANS: break;
        case PQTRANS_INERROR:
            if (auto undone = undo(); !undone) return undone.failure();
            return Failure{
                Code::unavailable,
                fmt::format("{}: a statement of the effect failed and it did not throw; claim and effect were "
                            "rolled back",
                            tried)};
        case PQTRANS_IDLE:
            return Failure{Code::indeterminate,
                           fmt::format("{}: the effect ended the transaction itself: if it committed, the operation is "
                                       "done, without its outcome",
                                       tried)};
        case PQTRANS_ACTIVE:
        case PQTRANS_UNKNOWN:
            return Failure{Code::unavailable,
                           fmt::format("{}: the effect left the connection lost or busy: close it, so that the server "
                                       "rolls the transaction back",
                                       tried)};
    }
    auto settled = settle(connection, operation, *mine, outcome);
    if (!settled) {
        if (auto undone = undo(); !undone) return undone.failure();
        return or_retry<OnceAnswer>(settled.failure());
    }
    if (!std::holds_alternative<Ok>(*settled)) {
        // Without our savepoint this is another transaction than the one that claimed.
        if (auto undone = undo(); !undone)
            return Failure{
                Code::indeterminate,
                fmt::format("{}: the effect ended the transaction itself and began another: if it committed, "
                            "the operation is done, without its outcome",
                            tried)};
        return Failure{Code::invalid, fmt::format("{}: the effect removed or settled its own operation", tried)};
    }
    if (auto released = run(connection, "release savepoint semel_once", tried); !released) return released.failure();
    return OnceAnswer{Applied{std::move(outcome)}};
}

Result<CreatedRow> create_once(PGconn* connection, const std::string& table, std::span<const Column> unique,
                               std::span<const Column> rest, std::span<const std::string> returning) {
    const std::string tried = "create_once on " + table;
    if (auto open = check_transaction(connection, tried); !open) return open.failure();
    if (unique.empty())
        return Failure{Code::invalid, fmt::format("{}: name the columns that make the row unique", tried)};
    std::string names;
    std::string marks;
    std::string targets;
    std::string where;
    std::string wanted;
    Arguments all;
    std::size_t count = 0;
    for (const auto& columns : {unique, rest}) {
        for (const Column& column : columns) {
            const std::string separator = count == 0 ? "" : ", ";
            names += separator + quoted(column.name);
            marks += fmt::format("{}${}", separator, ++count);
            all.text(column.value);
        }
    }
    Arguments identity;
    int identity_count = 0;
    for (std::size_t i = 0; i < unique.size(); ++i) {
        targets += (i == 0 ? "" : ", ") + quoted(unique[i].name);
        // Not `is not distinct from`, which no index serves.
        where += (i == 0 ? "" : " and ") + quoted(unique[i].name);
        if (unique[i].value)
            where += fmt::format(" = ${}", ++identity_count);
        else
            where += " is null";
        if (unique[i].value) identity.text(unique[i].value);
    }
    for (const std::string& column : returning) wanted += (wanted.empty() ? "" : ", ") + quoted(column);
    if (wanted.empty()) wanted = "1";

    const auto read = [&](const Rows& rows, bool created) {
        CreatedRow row{created, {}};
        for (std::size_t i = 0; i < returning.size(); ++i)
            row.row.push_back(rows.optional_bytes(0, static_cast<int>(i)));
        return row;
    };
    const std::string insert = fmt::format("insert into {} ({}) values ({}) on conflict ({}) do nothing returning {}",
                                           quoted_table(table), names, marks, targets, wanted);
    const std::string select = fmt::format("select {} from {} where {}", wanted, quoted_table(table), where);
    // The row that the insert met may be deleted before it is read: then the insert has its way.
    constexpr int tries_max = 3;
    for (int tries = 0; tries < tries_max; ++tries) {
        const auto inserted = all.run(connection, insert, as_text, tried);
        if (!inserted) return inserted.failure();
        if (inserted->count() > 0) return read(*inserted, true);
        const auto existing = identity.run(connection, select, as_text, tried);
        if (!existing) return existing.failure();
        if (existing->count() > 0) return read(*existing, false);
    }
    return Failure{Code::contended,
                   fmt::format("{}: neither inserted nor found: is somebody deleting the row?", tried)};
}

Result<AppliedIf> apply_if(PGconn* connection, const std::string& table, const Column& id, const std::string& column,
                           const std::string& expected, const std::string& next, std::span<const Column> also) {
    const std::string tried = "apply_if on " + table;
    if (auto open = check_transaction(connection, tried); !open) return open.failure();
    const auto failed = [](const Failure& failure) -> Result<AppliedIf> {
        if (failure.code == Code::contended) return AppliedIf::retry_transaction;
        return failure;
    };
    Arguments change;
    change.text(id.value).text(expected).text(next);
    std::string set = quoted(column) + " = $3";
    int at = 3;
    for (const Column& other : also) {
        set += fmt::format(", {} = ${}", quoted(other.name), ++at);
        change.text(other.value);
    }
    const auto updated = change.run(connection,
                                    fmt::format("update {} set {} where {} = $1 and {} = $2", quoted_table(table), set,
                                                quoted(id.name), quoted(column)),
                                    as_text, tried);
    if (!updated) return failed(updated.failure());
    if (updated->affected() > 0) return AppliedIf::applied;

    Arguments look;
    look.text(id.value).text(next);
    const auto held = look.run(connection,
                               fmt::format("select {} is not distinct from $2 from {} where {} = $1", quoted(column),
                                           quoted_table(table), quoted(id.name)),
                               as_text, tried);
    if (!held) return failed(held.failure());
    if (held->count() == 0) return AppliedIf::missing;
    return held->bytes(0, 0) == "t" ? AppliedIf::already_applied : AppliedIf::conflict;
}

// ---- the outbox -------------------------------------------------------------------------------------------------

Result<std::int64_t> stage(PGconn* connection, const StagedEvent& staged) {
    const std::string tried = "stage " + staged.event.id;
    if (auto fine = check(staged); !fine) return fine.failure();
    if (auto open = check_transaction(connection, tried); !open) return open.failure();
    const Event& event = staged.event;
    Arguments all;
    for (const std::string& text :
         {staged.outbox, staged.topic, staged.ordering_key, event.id, event.source, event.type, event.subject,
          event.time, event.data_content_type, event.data_schema, extension_lines(event)})
        all.typed_text(text);
    all.bytea(event.data);
    const auto rows =
        all.run(connection, "select semel._stage($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)", as_binary, tried);
    if (!rows) return rows.failure();
    return rows->integer(0, 0);
}

}  // namespace semel::postgres
