// Operations inside a caller's own SQLite transaction.
//
// The claim is a settled row without its outcome (unfilled), written first; settle fills it. Whatever the caller's
// transaction does next, row and effect share its fate:
//   ROLLBACK or crash      neither exists; the next try runs
//   COMMIT after settle    both exist; the next try replays
//   COMMIT without settle  both exist; the next try is told "done, outcome not kept"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "ledger/in_transaction.hpp"
#include "semel/sqlite.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/table.hpp"

namespace semel::sqlite {
namespace {

Status check_transaction(sqlite3* db, std::string_view tried) {
    if (db != nullptr && sqlite3_get_autocommit(db) == 0) return Done{};
    return Failure{Code::invalid,
                   fmt::format("{}: the connection has no transaction open; say BEGIN IMMEDIATE first", tried)};
}

using ConnectionId = std::array<unsigned char, 12>;

/// A random id that the connection keeps as long as it is open: the value of an SQL function of its own.
Result<std::string> connection_id(sqlite3* db) {
    constexpr const char* ask = "select semel_connection()";
    if (auto known = Statement::prepare(db, ask); known && known->step() == SQLITE_ROW) return known->bytes(0);
    auto made = std::make_unique<ConnectionId>();
    SystemRandom random;
    random.fill(*made);
    const auto tell = [](sqlite3_context* context, int, sqlite3_value**) {
        sqlite3_result_blob(context, sqlite3_user_data(context), sizeof(ConnectionId), SQLITE_STATIC);
    };
    const auto destroy = [](void* id) { delete static_cast<ConnectionId*>(id); };
    if (sqlite3_create_function_v2(db, "semel_connection", 0, SQLITE_UTF8 | SQLITE_DIRECTONLY, made.release(), tell,
                                   nullptr, nullptr, destroy) != SQLITE_OK)
        return failure_of(db, "give the connection an id");
    auto statement = Statement::prepare(db, ask);
    if (!statement) return statement.failure();
    if (statement->step() != SQLITE_ROW) return failure_of(db, ask);
    return statement->bytes(0);
}

/// The open transaction, once it has the write lock: the connection, and the version of the data, which changes with every
/// commit and with nothing else while the lock is held.
Result<TransactionId> transaction_of(sqlite3* db) {
    const auto connection = connection_id(db);
    if (!connection) return connection.failure();
    unsigned int version = 0;
    if (sqlite3_file_control(db, "main", SQLITE_FCNTL_DATA_VERSION, &version) != SQLITE_OK)
        return failure_of(db, "read the version of the data");
    TransactionId id;
    std::ranges::copy(*connection, id.bytes.begin());
    for (std::size_t i = id.bytes.size(); i-- > sizeof(ConnectionId); version >>= 8)
        id.bytes[i] = static_cast<unsigned char>(version);
    return id;
}

/// A contended transaction is an answer here: the caller has to run it again.
template <class Answer>
Result<Answer> or_retry(Failure failure) {
    if (failure.code == Code::contended) return Answer{RetryTransaction{}};
    return failure;
}

Result<AppliedIf> apply_failed(Failure failure) {
    if (failure.code == Code::contended) return AppliedIf::retry_transaction;
    return failure;
}

/// `claim` whose answer is one a caller can be given: in a transaction of its own nothing is Late or a holder's answer.
TransactionClaim to_transaction_claim(Answer answer) {
    return std::visit(
        match{[](Claimed& a) -> TransactionClaim { return std::move(a); },
              [](Replay& a) -> TransactionClaim { return std::move(a); }, [](Busy& a) -> TransactionClaim { return a; },
              [](Mismatch& a) -> TransactionClaim { return a; }, [](Unknown& a) -> TransactionClaim { return a; },
              [](Expired& a) -> TransactionClaim { return a; },
              [](auto&) -> TransactionClaim { return RetryTransaction{}; }},
        answer);
}

std::string quoted(std::string_view identifier) {
    std::string text = "\"";
    for (char c : identifier) {
        if (c == '"') text += '"';
        text += c;
    }
    return text + '"';
}

}  // namespace

Result<TransactionClaim> claim(sqlite3* db, const Operation& operation, const Fingerprint& fingerprint,
                               const OnceOptions& options) {
    if (auto open = check_transaction(db, "claim"); !open) return open.failure();
    if (auto fine = check(operation, options); !fine) return fine.failure();
    auto table = OperationTable::prepare(db);
    if (!table) return or_retry<TransactionClaim>(std::move(table).failure());
    // The counter is written first: it takes the write lock before anything is read that a decision rests on.
    const auto token = table->next_token();
    if (!token) return or_retry<TransactionClaim>(token.failure());
    if (auto saved = table->save_next_token({token->value + 1}); !saved)
        return or_retry<TransactionClaim>(saved.failure());
    const auto here = transaction_of(db);
    if (!here) return here.failure();
    auto stored = table->load(operation.id());
    if (!stored) return or_retry<TransactionClaim>(stored.failure());
    if (auto* failure = std::get_if<Failure>(&stored->found)) return std::move(*failure);
    const TimePoint now = SystemClock().wall();
    auto& record = std::get<std::optional<Record>>(stored->found);
    if (!record) {
        if (auto fine = check(operation, options, now); !fine) return fine.failure();
    }

    const Command command = Claim{.operation = operation,
                                  .fingerprint = fingerprint,
                                  .attempt = *here,
                                  .policy = {.retention = options.retention},
                                  .key_time = key_time_of(operation, options),
                                  .correlation = options.correlation,
                                  .not_after = never,
                                  .in_transaction = true};
    Decision decision = decide(std::move(record), command, {now, *token, Epoch{}});
    if (decision.changed) {
        const Status written =
            stored->rowid == 0 ? table->insert(*decision.next) : table->update(stored->rowid, *decision.next);
        if (!written) return or_retry<TransactionClaim>(written.failure());
    }
    if (auto* claimed = std::get_if<Claimed>(&decision.answer)) claimed->attempt = {};
    return to_transaction_claim(std::move(decision.answer));
}

Result<HolderAnswer> settle(sqlite3* db, const Operation& operation, const Claimed& claimed, const Outcome& outcome) {
    if (auto open = check_transaction(db, "settle"); !open) return open.failure();
    if (auto fine = check(outcome); !fine) return fine.failure();
    auto table = OperationTable::prepare(db);
    if (!table) return table.failure();
    // Takes the write lock, as claim does: what is decided on stays as it is.
    const auto token = table->next_token();
    if (!token) return token.failure();
    if (auto saved = table->save_next_token(*token); !saved) return saved.failure();
    const auto here = transaction_of(db);
    if (!here) return here.failure();
    auto stored = table->load(operation.id());
    if (!stored) return stored.failure();
    if (auto* failure = std::get_if<Failure>(&stored->found)) return std::move(*failure);
    Decision decision = settle_in_transaction(std::get<std::optional<Record>>(std::move(stored->found)), operation.id(),
                                              claimed, outcome, *here, SystemClock().wall());
    if (decision.changed) {
        if (auto written = table->update(stored->rowid, *decision.next); !written) return written.failure();
    }
    if (auto* settled = std::get_if<Settled>(&decision.answer)) return HolderAnswer{std::move(*settled)};
    if (auto* done = std::get_if<Ok>(&decision.answer)) return HolderAnswer{*done};
    return HolderAnswer{Fenced{}};
}

Result<OnceAnswer> once(sqlite3* db, const Operation& operation, const Fingerprint& fingerprint, const Effect& effect,
                        const OnceOptions& options) {
    if (auto open = check_transaction(db, "once"); !open) return open.failure();
    if (auto marked = run(db, "savepoint semel_once"); !marked) return marked.failure();
    // Leaves nothing of claim and effect behind, and the caller's transaction as it was.
    const auto undo = [&] {
        sqlite3_exec(db, "rollback to semel_once; release semel_once", nullptr, nullptr, nullptr);
    };
    auto claimed = claim(db, operation, fingerprint, options);
    if (!claimed) {
        undo();
        return claimed.failure();
    }
    const auto* mine = std::get_if<Claimed>(&*claimed);
    if (mine == nullptr) {
        undo();
        return std::visit(match{[](Claimed&) -> OnceAnswer { return RetryTransaction{}; },
                                [](auto& answer) -> OnceAnswer { return std::move(answer); }},
                          *claimed);
    }
    Outcome outcome;
    try {
        outcome = effect();
    } catch (...) {
        undo();
        throw;
    }
    auto settled = settle(db, operation, *mine, outcome);
    if (!settled || !std::holds_alternative<Ok>(*settled)) {
        undo();
        if (!settled) return or_retry<OnceAnswer>(settled.failure());
        return Failure{Code::invalid,
                       fmt::format("once {}: the effect removed or settled its own operation", operation.text())};
    }
    if (auto released = run(db, "release semel_once"); !released) return released.failure();
    return OnceAnswer{Applied{std::move(outcome)}};
}

Result<CreatedRow> create_once(sqlite3* db, const std::string& table, std::span<const Column> unique,
                               std::span<const Column> rest, std::span<const std::string> returning) {
    if (auto open = check_transaction(db, "create_once"); !open) return open.failure();
    if (unique.empty()) return Failure{Code::invalid, "create_once: name the columns that make the row unique"};
    std::string names;
    std::string marks;
    std::string targets;
    std::string where;
    std::string wanted;
    std::vector<const Column*> all;
    for (const auto& columns : {unique, rest}) {
        for (const Column& column : columns) {
            const std::string separator = all.empty() ? "" : ", ";
            all.push_back(&column);
            names += separator + quoted(column.name);
            marks += separator + "?" + std::to_string(all.size());
        }
    }
    for (std::size_t i = 0; i < unique.size(); ++i) {
        targets += (i == 0 ? "" : ", ") + quoted(unique[i].name);
        where += (i == 0 ? "" : " and ") + quoted(unique[i].name) + " is ?" + std::to_string(i + 1);
    }
    for (const std::string& column : returning) wanted += (wanted.empty() ? "" : ", ") + quoted(column);
    if (wanted.empty()) wanted = "1";

    const auto ask = [&](const std::string& sql, std::size_t values) -> Result<std::optional<CreatedRow>> {
        auto statement = Statement::prepare(db, sql);
        if (!statement) return statement.failure();
        for (std::size_t i = 0; i < values; ++i)
            statement->bind_or_null(static_cast<int>(i) + 1, all[i]->value,
                                    [&](int at, const std::string& value) { statement->bind_text(at, value); });
        const int result = statement->step();
        if (result == SQLITE_DONE) return std::optional<CreatedRow>{};
        if (result != SQLITE_ROW) return failure_of(db, fmt::format("create_once on {}", table));
        CreatedRow row;
        for (std::size_t i = 0; i < returning.size(); ++i)
            row.row.push_back(statement->optional_bytes(static_cast<int>(i)));
        // Run the insert to its end, so that it is not undone with the statement.
        while (statement->step() == SQLITE_ROW) {
        }
        return std::optional<CreatedRow>(std::move(row));
    };
    auto inserted = ask(fmt::format("insert into {} ({}) values ({}) on conflict ({}) do nothing returning {}",
                                    quoted(table), names, marks, targets, wanted),
                        all.size());
    if (!inserted) return inserted.failure();
    if (*inserted) {
        (*inserted)->created = true;
        return std::move(**inserted);
    }
    auto existing = ask(fmt::format("select {} from {} where {}", wanted, quoted(table), where), unique.size());
    if (!existing) return existing.failure();
    if (!*existing)
        return Failure{
            Code::invalid,
            fmt::format("create_once on {}: neither inserted nor found; is there a unique constraint on exactly "
                        "({})?",
                        table, targets)};
    return std::move(**existing);
}

Result<AppliedIf> apply_if(sqlite3* db, const std::string& table, const Column& id, const std::string& column,
                           const std::string& expected, const std::string& next, std::span<const Column> also) {
    if (auto open = check_transaction(db, "apply_if"); !open) return open.failure();
    std::string set = quoted(column) + " = ?3";
    int at = 3;
    for (const Column& other : also) set += fmt::format(", {} = ?{}", quoted(other.name), ++at);
    auto update = Statement::prepare(db, fmt::format("update {} set {} where {} = ?1 and cast({} as text) = ?2",
                                                     quoted(table), set, quoted(id.name), quoted(column)));
    if (!update) return update.failure();
    update->bind_or_null(1, id.value, [&](int place, const std::string& value) { update->bind_text(place, value); });
    update->bind_text(2, expected);
    update->bind_text(3, next);
    at = 3;
    for (const Column& other : also)
        update->bind_or_null(++at, other.value,
                             [&](int place, const std::string& value) { update->bind_text(place, value); });
    if (update->step() != SQLITE_DONE) return apply_failed(failure_of(db, fmt::format("apply_if on {}", table)));
    if (sqlite3_changes(db) > 0) return AppliedIf::applied;

    auto now = Statement::prepare(db, fmt::format("select cast({} as text) from {} where {} = ?1", quoted(column),
                                                  quoted(table), quoted(id.name)));
    if (!now) return now.failure();
    now->bind_or_null(1, id.value, [&](int place, const std::string& value) { now->bind_text(place, value); });
    const int result = now->step();
    if (result == SQLITE_DONE) return AppliedIf::missing;
    if (result != SQLITE_ROW) return failure_of(db, fmt::format("apply_if on {}", table));
    return now->optional_bytes(0) == next ? AppliedIf::already_applied : AppliedIf::conflict;
}

}  // namespace semel::sqlite
