// The inbox on PostgreSQL: a batch of messages in one transaction.
//
// Round trips of a batch whose messages are all new: BEGIN with clock and tokens; the INSERT of all claims; the handlers'
// own; COMMIT. Claims that meet a row cost one more for all of them: a settled row is read as it stands, whatever else it is
// goes through semel._claim, as for a claim made by itself.
//
// What a crash or a lost connection leaves:
//   before COMMIT was sent       nothing (`unavailable`): the broker delivers again
//   after, without its reply     all or nothing (`indeterminate`): processed again, the claims answer Replay if it was all
#include <fmt/format.h>
#include <libpq-events.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/random.hpp"
#include "ledger/in_transaction.hpp"
#include "ledger/rules.hpp"
#include "semel/postgres.hpp"
#include "stores/postgres/rows.hpp"
#include "stores/postgres/schema.hpp"

namespace semel::postgres {
namespace {

/// A deadlock is found after a second; what waits longer than this for another consumer's claim begins again.
constexpr Duration claim_lock_timeout = std::chrono::seconds{5};

// ---- values ----------------------------------------------------------------------------------------------------

Params params_of(std::span<const SqlValue> values) {
    Params params;
    for (const SqlValue& value : values)
        std::visit(match{[&](std::monostate) { params.null(); }, [&](std::int64_t number) { params.int8(number); },
                         [&](const std::string& text) { params.text(text); },
                         [&](const SqlBytes& bytes) { params.bytea(bytes.value); }},
                   value);
    return params;
}

SqlValue value_at(const Rows& rows, int row, int column) {
    if (rows.is_null(row, column)) return std::monostate{};
    switch (PQftype(rows.raw(), column)) {
        case 20:
        case 21:
        case 23: return rows.integer(row, column);
        case 17: return SqlBytes{std::string(rows.bytes(row, column))};
        default: return std::string(rows.bytes(row, column));
    }
}

std::vector<SqlRow> sql_rows(const Rows& rows) {
    std::vector<SqlRow> all;
    for (int at = 0; at < rows.count(); ++at) {
        SqlRow row;
        for (int column = 0; column < PQnfields(rows.raw()); ++column) row.push_back(value_at(rows, at, column));
        all.push_back(std::move(row));
    }
    return all;
}

// ---- the inbox -------------------------------------------------------------------------------------------------

class PostgresInbox final : public Inbox {
public:
    explicit PostgresInbox(Options options) : options_(std::move(options)) {}

    Status connect();
    Result<Begun> begin_and_ask(std::string_view sql, std::span<const SqlValue> parameters) override;
    Status commit() override;
    void roll_back() override;
    Status mark() override;
    Status return_to_mark() override;
    [[nodiscard]] bool alive() const override;
    [[nodiscard]] bool broken() const override;
    [[nodiscard]] bool contended() const override { return code_of(heard_->last_error) == Code::contended; }
    [[nodiscard]] std::uint64_t changes() const override;
    [[nodiscard]] Transaction transaction() override { return {wire_->raw(), nullptr}; }
    Result<std::vector<TransactionClaim>> claim(std::span<const InboxClaim> claims) override;
    Status settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) override;
    void unclaim(std::span<const OperationId> claimed) override;
    Result<bool> holds(const OperationId& id, Token token) override;
    Result<std::vector<SqlRow>> ask(std::string_view sql, std::span<const SqlValue> parameters) override;
    void tell(std::string_view sql, std::span<const SqlValue> parameters) override;
    [[nodiscard]] std::string text() const override { return without_password(options_.uri); }

private:
    /// A statement that goes with the next round trip.
    struct Told {
        const char* sql;  ///< stays where it is
        Params params;
        bool kept = true;
    };
    Told told(std::string_view sql, std::span<const SqlValue> parameters);
    [[nodiscard]] bool read_rest() const;
    void send(const Told& statement);
    void send_told();
    std::variant<std::vector<Rows>, Failure> round_trip(std::string_view tried);
    Status run(const char* sql, std::string_view tried);
    Result<std::vector<TransactionClaim>> answer_present(std::span<const InboxClaim> claims,
                                                         std::vector<TransactionClaim> answers,
                                                         const std::vector<std::size_t>& present);

    Options options_;
    /// libpq tells of every result that it makes, also of a handler's own statements; but not of function calls, which is how
    /// it writes large objects.
    struct Heard {
        std::string last_error{};  ///< the SQLSTATE of the last statement that failed
        std::uint64_t results = 0;
        bool large_objects = false;  ///< were used on this connection: libpq has looked their functions up
    };
    static int hear(PGEventId event, void* info, void* heard);
    std::unique_ptr<Heard> heard_ = std::make_unique<Heard>();
    mutable std::uint64_t unsure_ = 0;  ///< how often `changes` could not tell
    std::optional<Wire> wire_;
    TimePoint now_;
    Token first_token_;
    std::uint64_t tokens_used_ = 0;
    bool marked_ = false;
    std::vector<Told> told_;
    std::set<std::string, std::less<>> statements_;  // that were told: few, and they stay where they are
    std::map<OperationId, Record> claimed_;          // in this transaction, without their outcomes
};

/// Called by libpq for what happens on the connection.
int PostgresInbox::hear(PGEventId event, void* info, void* heard) {
    if (event == PGEVT_RESULTCREATE) {
        auto& into = *static_cast<Heard*>(heard);
        ++into.results;
        const PGresult* result = static_cast<PGEventResultCreate*>(info)->result;
        if (PQresultStatus(result) == PGRES_TUPLES_OK && PQnfields(result) == 2 && PQfnumber(result, "proname") == 0 &&
            PQfnumber(result, "oid") == 1)
            into.large_objects = true;
        const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (state != nullptr) into.last_error = state;
    }
    return 1;
}

std::uint64_t PostgresInbox::changes() const {
    // What was sent and not read has no result yet; a pipeline may hide it.
    const bool quiet = wire_ && !heard_->large_objects && PQtransactionStatus(wire_->raw()) == PQTRANS_INTRANS &&
                       PQpipelineStatus(wire_->raw()) == PQ_PIPELINE_OFF;
    if (!quiet) ++unsure_;
    return heard_->results + unsure_;
}

Status PostgresInbox::connect() {
    wire_.reset();
    heard_->large_objects = false;
    auto wire = Wire::connect(options_.uri, options_.connect_timeout);
    if (!wire) return wire.failure();
    if (auto fine = check_server(*wire, options_); !fine) return fine;
    wire_ = std::move(*wire);
    if (PQregisterEventProc(wire_->raw(), hear, "semel", heard_.get()) != 0 && wire_->plain()) return Done{};
    return Failure{Code::unavailable, fmt::format("connect to {}: the connection was lost", text())};
}

/// Sends what was queued; the connection is in its ordinary mode again afterwards.
std::variant<std::vector<Rows>, Failure> PostgresInbox::round_trip(std::string_view tried) {
    auto answered = wire_->round_trip(options_.timeout);
    if (auto* error = std::get_if<WireError>(&answered)) {
        if (wire_->usable()) wire_->plain();
        return failure_of(*error, tried, options_);
    }
    if (!wire_->plain()) return Failure{Code::unavailable, fmt::format("{} on {}: connection lost", tried, text())};
    return std::get<0>(std::move(answered));
}

PostgresInbox::Told PostgresInbox::told(std::string_view sql, std::span<const SqlValue> parameters) {
    // A kept one has the types of its first parameters, and a null has none.
    const bool typed = std::ranges::none_of(
        parameters, [](const SqlValue& value) { return std::holds_alternative<std::monostate>(value); });
    auto known = statements_.find(sql);
    if (known == statements_.end()) known = statements_.emplace(sql).first;
    return {known->c_str(), params_of(parameters), typed};
}

void PostgresInbox::send(const Told& statement) {
    if (statement.kept)
        wire_->send_kept(statement.sql, statement.params);
    else
        wire_->send(statement.sql, statement.params);
}

/// What was told and not sent yet goes before whatever is sent next.
void PostgresInbox::send_told() {
    wire_->pipelined();
    for (const Told& statement : told_) send(statement);
    told_.clear();
}

Result<Inbox::Begun> PostgresInbox::begin_and_ask(std::string_view sql, std::span<const SqlValue> parameters) {
    heard_->last_error.clear();
    claimed_.clear();
    told_.clear();
    marked_ = false;
    tokens_used_ = 0;
    if (!wire_ || !wire_->usable() || PQtransactionStatus(wire_->raw()) != PQTRANS_IDLE) {
        if (auto connected = connect(); !connected) return connected.failure();
    }
    const Told first = told(sql, parameters);
    for (const bool again : {false, true}) {
        wire_->pipelined();
        wire_->send("begin isolation level read committed read write");
        Params limit;
        limit.text(fmt::format("{}ms", claim_lock_timeout / std::chrono::milliseconds{1}));
        wire_->send_kept("select set_config('lock_timeout', $1, true)", limit);
        send(first);
        // I5, I3: the clock and the tokens after the locks.
        wire_->send_kept(moment_sql.c_str());
        auto answered = round_trip("begin a batch");
        if (auto* failure = std::get_if<Failure>(&answered)) {
            // A connection that died while idle says so on first use; nothing happened.
            if (again || wire_->usable()) {
                roll_back();
                return std::move(*failure);
            }
            if (auto connected = connect(); !connected) return connected.failure();
            continue;
        }
        const auto& rows = std::get<0>(answered);
        const Moment moment = moment_of(rows.back());
        if (!moment.durable) {
            roll_back();
            return Failure{Code::unavailable,
                           fmt::format("{}: synchronous_commit is off: nothing is claimed until it is on", text())};
        }
        now_ = moment.now;
        first_token_ = moment.first_token;
        return Begun{now_, sql_rows(rows[rows.size() - 2])};
    }
    return Failure{Code::unavailable, fmt::format("begin a batch on {}: connection lost", text())};
}

Status PostgresInbox::run(const char* sql, std::string_view tried) {
    const Rows result(PQexec(wire_->raw(), sql));
    if (result.status() == PGRES_COMMAND_OK) return Done{};
    const char* state = PQresultErrorField(result.raw(), PG_DIAG_SQLSTATE);
    std::string message = PQerrorMessage(wire_->raw());
    std::ranges::replace(message, '\n', ' ');
    return failure_of(WireError{state == nullptr ? "" : state, message}, tried, options_);
}

Status PostgresInbox::commit() {
    if (!wire_) return Failure{Code::unavailable, "commit: there is no connection"};
    if (PQtransactionStatus(wire_->raw()) == PQTRANS_INERROR) {
        roll_back();
        return Failure{Code::unavailable, "commit: the transaction had failed; it was rolled back"};
    }
    send_told();
    wire_->send("commit");
    auto answered = round_trip("commit a batch");
    claimed_.clear();
    auto* failure = std::get_if<Failure>(&answered);
    if (failure == nullptr) {
        // A COMMIT of a transaction that has failed is answered as what it is.
        if (std::get<0>(answered).back().command() == "COMMIT") return Done{};
        return Failure{Code::unavailable, "commit: the transaction had failed; it was rolled back"};
    }
    // The server said no, or nobody knows: shutting down and losing the connection may come after the COMMIT.
    const bool said_no =
        wire_->usable() && PQstatus(wire_->raw()) == CONNECTION_OK && !heard_->last_error.starts_with("57");
    roll_back();
    if (!said_no) {
        wire_.reset();
        failure->code = Code::indeterminate;
    }
    return std::move(*failure);
}

void PostgresInbox::roll_back() {
    claimed_.clear();
    told_.clear();
    if (!wire_ || !wire_->usable()) return;
    if (PQtransactionStatus(wire_->raw()) == PQTRANS_IDLE) return;
    if (!run("rollback", "roll back")) wire_.reset();
}

Status PostgresInbox::mark() {
    // What was told before the mark is not undone by a return to it.
    if (!told_.empty()) {
        send_told();
        auto answered = round_trip("write what was told");
        if (auto* failure = std::get_if<Failure>(&answered)) return std::move(*failure);
    }
    auto done = run(marked_ ? "release savepoint semel_mark; savepoint semel_mark" : "savepoint semel_mark",
                    "mark a place in the transaction");
    marked_ = true;
    return done;
}

Status PostgresInbox::return_to_mark() {
    told_.clear();
    return run("rollback to savepoint semel_mark", "return to the mark");
}

/// Of a statement that a handler has sent and not waited for; a COPY is ended. False: the connection is of no more use.
bool PostgresInbox::read_rest() const {
    PGconn* const connection = wire_->raw();
    while (PGresult* raw = PQgetResult(connection)) {
        const auto status = Rows(raw).status();
        if (status == PGRES_COPY_IN && PQputCopyEnd(connection, "left open by its handler") != 1) return false;
        char* row = nullptr;
        while (status == PGRES_COPY_OUT && PQgetCopyData(connection, &row, 0) > 0) PQfreemem(row);
        if (status == PGRES_COPY_BOTH) return false;
    }
    return true;
}

bool PostgresInbox::alive() const {
    if (!wire_ || !wire_->usable() || PQstatus(wire_->raw()) != CONNECTION_OK) return false;
    if (PQtransactionStatus(wire_->raw()) == PQTRANS_ACTIVE && PQpipelineStatus(wire_->raw()) == PQ_PIPELINE_OFF &&
        !read_rest())
        return false;
    const auto status = PQtransactionStatus(wire_->raw());
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

bool PostgresInbox::broken() const { return PQtransactionStatus(wire_->raw()) == PQTRANS_INERROR; }

Result<std::vector<TransactionClaim>> PostgresInbox::claim(std::span<const InboxClaim> claims) {
    if (claims.empty()) return std::vector<TransactionClaim>{};
    if (tokens_used_ + claims.size() > token_block)
        return Failure{Code::invalid, fmt::format("claim: at most {} messages in one transaction", token_block)};
    SystemRandom random;
    Attempt attempt;
    random.fill(attempt.bytes);
    std::vector<TransactionClaim> answers(claims.size(), RetryTransaction{});
    std::vector<OperationId> ids;
    std::vector<Row> rows;
    ids.reserve(claims.size());
    for (std::size_t i = 0; i < claims.size(); ++i) {
        const InboxClaim& wanted = claims[i];
        OnceOptions options{wanted.retention, std::nullopt, wanted.correlation};
        if (auto fine = check(wanted.operation, options); !fine) return fine.failure();
        ids.push_back(wanted.operation.id());
        const Token token{first_token_.value + tokens_used_++};
        const Command command = Claim{.operation = wanted.operation,
                                      .fingerprint = wanted.fingerprint,
                                      .attempt = attempt,
                                      .policy = {.retention = wanted.retention},
                                      .key_time = key_time_of(wanted.operation, options),
                                      .correlation = wanted.correlation,
                                      .not_after = never,
                                      .in_transaction = true};
        Decision decision = decide(std::nullopt, command, {now_, token, Epoch{}});
        answers[i] = std::visit(match{[](Claimed& mine) -> TransactionClaim { return std::move(mine); },
                                      [](Expired& expired) -> TransactionClaim { return expired; },
                                      [](auto&) -> TransactionClaim { return RetryTransaction{}; }},
                                decision.answer);
        if (!decision.next) continue;
        const Decision settled =
            settle_in_transaction(decision.next, ids[i], Claimed{.token = token}, Outcome::tombstone(0), attempt, now_);
        SEMEL_ASSERT(settled.next, "what was claimed here can be settled here");
        rows.push_back(to_row(*settled.next));
        claimed_.insert_or_assign(ids[i], std::move(*decision.next));
    }
    send_told();
    wire_->send_kept(insert_sql.c_str(), row_params(std::move(rows)));
    if (marked_) wire_->send("release savepoint semel_mark");
    wire_->send("savepoint semel_mark");
    auto answered = round_trip("claim the messages of a batch");
    if (auto* failure = std::get_if<Failure>(&answered)) return std::move(*failure);
    const bool was_marked = std::exchange(marked_, true);
    const auto& answers_of = std::get<0>(answered);
    const Rows& put_in = answers_of[answers_of.size() - (was_marked ? 3 : 2)];
    std::vector<OperationId> inserted;
    for (int at = 0; at < put_in.count(); ++at) inserted.push_back(id_at(put_in, at));
    std::ranges::sort(inserted);
    std::vector<std::size_t> present;
    for (std::size_t i = 0; i < claims.size(); ++i) {
        if (!std::ranges::binary_search(inserted, ids[i])) {
            claimed_.erase(ids[i]);
            present.push_back(i);
        }
    }
    if (present.empty()) return answers;
    return answer_present(claims, std::move(answers), present);
}

/// The claims that met a row.
Result<std::vector<TransactionClaim>> PostgresInbox::answer_present(std::span<const InboxClaim> claims,
                                                                    std::vector<TransactionClaim> answers,
                                                                    const std::vector<std::size_t>& present) {
    std::vector<OperationId> ids;
    for (const std::size_t i : present) ids.push_back(claims[i].operation.id());
    // In a statement of its own: the INSERT's snapshot need not see what it met.
    static const std::string settled_sql =
        fmt::format("select {} from semel.operation where op = any($1::uuid[]) and state = 3", columns);
    send_told();
    wire_->send_kept(settled_sql.c_str(), ids_param(ids));
    auto answered = round_trip("read what the messages of a batch came to");
    if (auto* failure = std::get_if<Failure>(&answered)) return std::move(*failure);
    const Rows& settled = std::get<0>(answered).back();
    std::map<OperationId, int> place;
    for (int at = 0; at < settled.count(); ++at) place.emplace(id_at(settled, at), at);
    bool claimed_after_mark = false;
    for (std::size_t n = 0; n < present.size(); ++n) {
        const InboxClaim& wanted = claims[present[n]];
        OnceOptions options{wanted.retention, std::nullopt, wanted.correlation};
        const auto at = place.find(ids[n]);
        if (at == place.end()) {
            auto answer = postgres::claim(wire_->raw(), wanted.operation, wanted.fingerprint, options);
            if (!answer) return answer.failure();
            if (std::holds_alternative<RetryTransaction>(*answer))
                return Failure{Code::contended,
                               fmt::format("claim {}: another transaction has it", wanted.operation.text())};
            answers[present[n]] = std::move(*answer);
            claimed_after_mark = true;
            continue;
        }
        Found found = found_in(settled, at->second);
        if (auto* failure = std::get_if<Failure>(&found)) return std::move(*failure);
        Decision decision = decide(std::get<std::optional<Record>>(std::move(found)),
                                   Claim{.operation = wanted.operation,
                                         .fingerprint = wanted.fingerprint,
                                         .policy = {.retention = wanted.retention},
                                         .in_transaction = true},
                                   {now_, Token{}, Epoch{}});
        answers[present[n]] = std::visit(match{[](Replay& replay) -> TransactionClaim { return std::move(replay); },
                                               [](Mismatch& mismatch) -> TransactionClaim { return mismatch; },
                                               [](auto&) -> TransactionClaim { return RetryTransaction{}; }},
                                         decision.answer);
    }
    if (claimed_after_mark) {
        if (auto marked = mark(); !marked) return marked.failure();
    }
    return answers;
}

Status PostgresInbox::settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) {
    if (auto fine = check(outcome); !fine) return fine;
    const OperationId id = operation.id();
    const auto mine = claimed_.find(id);
    if (mine == claimed_.end()) {  // claimed by semel._claim, or held under a lease
        auto done = postgres::settle(wire_->raw(), operation, claimed, outcome);
        if (!done) return done.failure();
        if (std::holds_alternative<Ok>(*done)) return Done{};
        return Failure{Code::contended, fmt::format("settle {}: somebody else holds it", operation.text())};
    }
    const Decision decision =
        settle_in_transaction(mine->second, id, Claimed{.token = claimed.token}, outcome, mine->second.attempt, now_);
    SEMEL_ASSERT(decision.next, "what was claimed here can be settled here");
    std::vector<Row> rows;
    rows.push_back(to_row(*decision.next));
    // Planned each time: handlers share the connection, so no setting keeps a plan from going through the whole table.
    told_.push_back({update_sql, row_params(std::move(rows)), false});
    return Done{};
}

void PostgresInbox::unclaim(std::span<const OperationId> claimed) {
    std::vector<OperationId> made_here;
    std::vector<OperationId> found;  // the row of a released operation, which has to stay: 001_ledger.sql
    for (const OperationId& id : claimed) (claimed_.erase(id) > 0 ? made_here : found).push_back(id);
    if (!made_here.empty())
        told_.push_back(
            {"delete from semel.operation where op = any($1::uuid[])", ids_param(std::move(made_here)), false});
    if (!found.empty())
        told_.push_back(
            {"update semel.operation set state = 0, scope = null, key = null, record = '', outcome = null, "
             "due = (extract(epoch from clock_timestamp()) * 1000000)::bigint + 3600000000 where op = any($1::uuid[])",
             ids_param(std::move(found)), false});
}

Result<bool> PostgresInbox::holds(const OperationId& id, Token token) {
    Params params;
    params.uuid(view(id.bytes)).int8(static_cast<std::int64_t>(token.value));
    send_told();
    wire_->send_kept("select 1 from semel.operation where op = $1 and token = $2 and state = 1 for share", params);
    auto answered = round_trip("look whether the operation is still held");
    if (auto* failure = std::get_if<Failure>(&answered)) return std::move(*failure);
    return std::get<0>(answered).back().count() == 1;
}

Result<std::vector<SqlRow>> PostgresInbox::ask(std::string_view sql, std::span<const SqlValue> parameters) {
    if (!wire_ || !wire_->usable()) return Failure{Code::unavailable, "there is no connection"};
    const std::string statement(sql);
    send_told();
    // Planned each time: how much is on the shelf changes what the best plan is.
    wire_->send(statement.c_str(), params_of(parameters));
    auto answered = round_trip(statement.substr(0, 60));
    if (auto* failure = std::get_if<Failure>(&answered)) return std::move(*failure);
    return sql_rows(std::get<0>(answered).back());
}

void PostgresInbox::tell(std::string_view sql, std::span<const SqlValue> parameters) {
    told_.push_back(told(sql, parameters));
}

}  // namespace

Result<std::unique_ptr<Inbox>> open_inbox(Options options) {
    auto inbox = std::make_unique<PostgresInbox>(std::move(options));
    if (auto connected = inbox->connect(); !connected) return connected.failure();
    return std::unique_ptr<Inbox>(std::move(inbox));
}

}  // namespace semel::postgres
