// The inbox on SQLite: a batch of messages in one transaction of a connection of its own.
//
// SQLite has one writer at a time, so BEGIN IMMEDIATE waits for the others and nothing inside of it can be contended.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/random.hpp"
#include "ledger/in_transaction.hpp"
#include "ledger/rules.hpp"
#include "semel/sqlite.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/schema.hpp"
#include "stores/sqlite/table.hpp"

namespace semel::sqlite {
namespace {

/// How long to wait for another writer before a batch begins again.
constexpr int busy_timeout_ms = 5000;

class SqliteInbox final : public Inbox {
public:
    explicit SqliteInbox(Options options) : options_(std::move(options)) {}

    Status open();
    Result<Begun> begin_and_ask(std::string_view sql, std::span<const SqlValue> parameters) override;
    Status commit() override;
    void roll_back() override;
    Status mark() override;
    Status return_to_mark() override;
    [[nodiscard]] bool alive() const override { return sqlite3_get_autocommit(db_.get()) == 0; }
    [[nodiscard]] bool broken() const override { return false; }               // a failed statement undoes itself
    [[nodiscard]] std::uint64_t changes() const override { return ++asked_; }  // undoing costs next to nothing here
    [[nodiscard]] bool contended() const override { return false; }
    [[nodiscard]] Transaction transaction() override { return {nullptr, db_.get()}; }
    Result<std::vector<TransactionClaim>> claim(std::span<const InboxClaim> claims) override;
    Status settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) override;
    void unclaim(std::span<const OperationId> claimed) override;
    Result<bool> holds(const OperationId& id, Token token) override;
    Result<std::vector<SqlRow>> ask(std::string_view sql, std::span<const SqlValue> parameters) override;
    void tell(std::string_view sql, std::span<const SqlValue> parameters) override;
    [[nodiscard]] std::string text() const override { return "sqlite:" + options_.path; }

private:
    Result<TransactionClaim> claim_one(const InboxClaim& wanted, const Attempt& attempt, Token fresh, bool& used);
    Result<Statement*> prepared(std::string_view sql);
    [[nodiscard]] Status still_open() const;

    Options options_;
    Connection db_;
    std::optional<OperationTable> table_;
    std::map<std::string, Statement, std::less<>> statements_;
    TimePoint now_;
    bool marked_ = false;
    mutable std::uint64_t asked_ = 0;
    std::optional<Failure> told_failure_;    // of what nobody waited for: the commit tells it
    std::map<OperationId, Record> claimed_;  // in this transaction, without their outcomes
};

Status SqliteInbox::open() {
    sqlite3* raw = nullptr;
    const int result = sqlite3_open_v2(options_.path.c_str(), &raw,
                                       SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    db_.reset(raw);
    if (result != SQLITE_OK) {
        Failure failure = failure_of(raw, "open");
        if ((result & 0xff) == SQLITE_CANTOPEN) failure = {Code::invalid, failure.message + "; check the path (store)"};
        return failure;
    }
    sqlite3_extended_result_codes(raw, 1);
    sqlite3_busy_timeout(raw, busy_timeout_ms);
    if (auto set = run(raw, "pragma journal_mode=wal; pragma synchronous=full"); !set) return set;
    const auto version = schema_of(raw);
    if (!version) return version.failure();
    if (*version < schema_version) {
        if (auto migrated = migrate_schema(raw); !migrated) return migrated.failure();
    } else if (auto fine = check_schema(*version, options_.path.c_str()); !fine) {
        return fine;
    }
    auto table = OperationTable::prepare(raw);
    if (!table) return table.failure();
    table_ = std::move(*table);
    return Done{};
}

Result<Inbox::Begun> SqliteInbox::begin_and_ask(std::string_view sql, std::span<const SqlValue> parameters) {
    claimed_.clear();
    marked_ = false;
    told_failure_.reset();
    if (alive()) roll_back();
    if (auto begun = run(db_.get(), "begin immediate"); !begun) return begun.failure();
    now_ = options_.clock ? options_.clock() : SystemClock().wall();
    auto rows = ask(sql, parameters);
    if (!rows) {
        roll_back();
        return rows.failure();
    }
    return Begun{now_, std::move(*rows)};
}

Status SqliteInbox::commit() {
    claimed_.clear();
    if (told_failure_) {
        Failure failure = *std::exchange(told_failure_, std::nullopt);
        roll_back();
        return failure;
    }
    if (auto open = still_open(); !open) return open;
    auto done = run(db_.get(), "commit");
    if (done) return done;
    Failure failure = std::move(done).failure();
    // Still open: the commit was not done. Ended by itself: a failed sync leaves open what is on the disk.
    if (alive())
        roll_back();
    else
        failure.code = Code::indeterminate;
    return failure;
}

void SqliteInbox::roll_back() {
    claimed_.clear();
    if (alive()) sqlite3_exec(db_.get(), "rollback", nullptr, nullptr, nullptr);
}

/// After some errors (a full disk) SQLite ends the transaction by itself, and whatever came next would be committed alone.
Status SqliteInbox::still_open() const {
    if (alive()) return Done{};
    return Failure{Code::unavailable, fmt::format("{}: the transaction was ended by an error before", text())};
}

Status SqliteInbox::mark() {
    if (auto open = still_open(); !open) return open;
    auto done = run(db_.get(), marked_ ? "release semel_mark; savepoint semel_mark" : "savepoint semel_mark");
    marked_ = true;
    return done;
}

Status SqliteInbox::return_to_mark() {
    if (auto open = still_open(); !open) return open;
    return run(db_.get(), "rollback to semel_mark");
}

Result<TransactionClaim> SqliteInbox::claim_one(const InboxClaim& wanted, const Attempt& attempt, Token fresh,
                                                bool& used) {
    const OnceOptions options{wanted.retention, std::nullopt, wanted.correlation};
    if (auto fine = check(wanted.operation, options); !fine) return fine.failure();
    const OperationId id = wanted.operation.id();
    auto stored = table_->load(id);
    if (!stored) return stored.failure();
    if (auto* failure = std::get_if<Failure>(&stored->found)) return std::move(*failure);
    const Command command = Claim{.operation = wanted.operation,
                                  .fingerprint = wanted.fingerprint,
                                  .attempt = attempt,
                                  .policy = {.retention = wanted.retention},
                                  .key_time = key_time_of(wanted.operation, options),
                                  .correlation = wanted.correlation,
                                  .not_after = never,
                                  .in_transaction = true};
    Decision decision =
        decide(std::get<std::optional<Record>>(std::move(stored->found)), command, {now_, fresh, Epoch{}});
    if (decision.changed && decision.next) {
        Record next = *decision.next;
        if (std::holds_alternative<Claimed>(decision.answer)) {
            used = true;
            Decision settled =
                settle_in_transaction(next, id, Claimed{.token = fresh}, Outcome::tombstone(0), attempt, now_);
            claimed_.insert_or_assign(id, std::move(next));
            next = std::move(*settled.next);
        }
        const Status written = stored->rowid == 0 ? table_->insert(next) : table_->update(stored->rowid, next);
        if (!written) return written.failure();
    }
    return std::visit(
        match{[](Claimed& a) -> TransactionClaim { return std::move(a); },
              [](Replay& a) -> TransactionClaim { return std::move(a); }, [](Busy& a) -> TransactionClaim { return a; },
              [](Mismatch& a) -> TransactionClaim { return a; }, [](Unknown& a) -> TransactionClaim { return a; },
              [](Expired& a) -> TransactionClaim { return a; },
              [](auto&) -> TransactionClaim { return RetryTransaction{}; }},
        decision.answer);
}

Result<std::vector<TransactionClaim>> SqliteInbox::claim(std::span<const InboxClaim> claims) {
    if (auto open = still_open(); !open) return open.failure();
    Attempt attempt;
    SystemRandom().fill(attempt.bytes);
    auto token = table_->next_token();
    if (!token) return token.failure();
    std::vector<TransactionClaim> answers;
    for (const InboxClaim& wanted : claims) {
        bool used = false;
        auto answer = claim_one(wanted, attempt, *token, used);
        if (!answer) return answer.failure();
        if (used) ++token->value;
        answers.push_back(std::move(*answer));
    }
    if (auto saved = table_->save_next_token(*token); !saved) return saved.failure();
    if (auto marked = mark(); !marked) return marked.failure();
    return answers;
}

Status SqliteInbox::settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) {
    if (auto fine = check(outcome); !fine) return fine;
    if (auto open = still_open(); !open) return open;
    const OperationId id = operation.id();
    const auto mine = claimed_.find(id);
    if (mine == claimed_.end()) {
        auto done = sqlite::settle(db_.get(), operation, claimed, outcome);
        if (!done) return done.failure();
        if (std::holds_alternative<Ok>(*done)) return Done{};
        return Failure{Code::contended, fmt::format("settle {}: somebody else holds it", operation.text())};
    }
    const Decision decision =
        settle_in_transaction(mine->second, id, Claimed{.token = claimed.token}, outcome, mine->second.attempt, now_);
    auto stored = table_->load(id);
    if (!stored) return stored.failure();
    return table_->update(stored->rowid, *decision.next);
}

void SqliteInbox::unclaim(std::span<const OperationId> claimed) {
    if (auto open = still_open(); !open) {
        told_failure_ = open.failure();
        return;
    }
    for (const OperationId& id : claimed) {
        claimed_.erase(id);
        auto stored = table_->load(id);
        Status removed = Done{};
        if (!stored)
            removed = stored.failure();
        else if (stored->rowid != 0)
            removed = table_->remove(stored->rowid);
        if (!removed && !told_failure_) told_failure_ = removed.failure();
    }
}

Result<bool> SqliteInbox::holds(const OperationId& id, Token token) {
    auto stored = table_->load(id);
    if (!stored) return stored.failure();
    if (auto* failure = std::get_if<Failure>(&stored->found)) return std::move(*failure);
    const auto& record = std::get<std::optional<Record>>(stored->found);
    return record && record->token == token && record->state == State::running;
}

// ---- statements on the consumer's tables -----------------------------------------------------------------------

/// As SQLite writes it: no schema, no row locks where there is one writer, and another name for the elements of an array.
std::string in_sqlite(std::string_view sql) {
    std::string text(sql);
    const auto replace = [&](std::string_view from, std::string_view to) {
        for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
            text.replace(at, from.size(), to);
    };
    replace("semel.", "semel_");
    replace(" for update", "");
    replace(" for share", "");
    replace(" skip locked", "");
    replace("json_array_elements_text(", "json_each(");
    replace("::json", "");
    return text;
}

Result<Statement*> SqliteInbox::prepared(std::string_view sql) {
    auto known = statements_.find(sql);
    if (known == statements_.end()) {
        auto statement = Statement::prepare(db_.get(), in_sqlite(sql));
        if (!statement) return statement.failure();
        known = statements_.emplace(std::string(sql), std::move(*statement)).first;
    }
    return &known->second;
}

SqlValue value_at(sqlite3_stmt* statement, int column) {
    switch (sqlite3_column_type(statement, column)) {
        case SQLITE_NULL: return std::monostate{};
        case SQLITE_INTEGER: return static_cast<std::int64_t>(sqlite3_column_int64(statement, column));
        default: break;
    }
    const auto* data = static_cast<const char*>(sqlite3_column_blob(statement, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement, column));
    std::string bytes = size == 0 ? std::string{} : std::string(data, size);
    if (sqlite3_column_type(statement, column) == SQLITE_BLOB) return SqlBytes{std::move(bytes)};
    return bytes;
}

Result<std::vector<SqlRow>> SqliteInbox::ask(std::string_view sql, std::span<const SqlValue> parameters) {
    if (auto open = still_open(); !open) return open.failure();
    auto found = prepared(sql);
    if (!found) return found.failure();
    Statement& statement = **found;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        // SQLite numbers `$2` by where it first appears.
        const int at = sqlite3_bind_parameter_index(statement.raw(), fmt::format("${}", i + 1).c_str());
        if (at == 0) continue;
        std::visit(match{[&](std::monostate) { statement.bind_null(at); },
                         [&](std::int64_t number) { statement.bind(at, number); },
                         [&](const std::string& text) { statement.bind_text(at, text); },
                         [&](const SqlBytes& bytes) { statement.bind_blob(at, bytes.value); }},
                   parameters[i]);
    }
    std::vector<SqlRow> rows;
    int result = statement.step();
    for (; result == SQLITE_ROW; result = statement.step()) {
        SqlRow row;
        for (int column = 0; column < sqlite3_column_count(statement.raw()); ++column)
            row.push_back(value_at(statement.raw(), column));
        rows.push_back(std::move(row));
    }
    statement.reset();
    if (result != SQLITE_DONE) return failure_of(db_.get(), sql.substr(0, 60));
    return rows;
}

void SqliteInbox::tell(std::string_view sql, std::span<const SqlValue> parameters) {
    if (auto done = ask(sql, parameters); !done && !told_failure_) told_failure_ = done.failure();
}

}  // namespace

Result<std::unique_ptr<Inbox>> open_inbox(Options options) {
    auto inbox = std::make_unique<SqliteInbox>(std::move(options));
    if (auto opened = inbox->open(); !opened) return opened.failure();
    return std::unique_ptr<Inbox>(std::move(inbox));
}

}  // namespace semel::sqlite
