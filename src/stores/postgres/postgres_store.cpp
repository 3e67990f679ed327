// The shared store: any number of instances on one PostgreSQL.
//
// A batch is one transaction of two round trips:
//   1  BEGIN; lock the rows that holders' commands name (SKIP LOCKED); read the server's clock and take tokens
//   2  one INSERT for all new operations, one UPDATE for all changed ones; COMMIT
// Between them a third only if a row was not found: it is absent, or somebody's own transaction has it locked. A batch in
// which everything is decided blind needs the second only, if the batch before it brought clock and tokens along (Ahead).
// Most commands are decided blind, without having locked or read their row:
//   a lone claim    is taken for one of a new operation, and takes part in the INSERT. If that finds the operation present,
//                   the claim is answered by what is there: at once from a settled row, which never changes, and otherwise
//                   in a second transaction that locks it
//   settle, renew   of an operation that this process claimed: decided on the record as it was written then. The UPDATE takes
//                   only rows that still are so, down to the checksum; whoever else had one meanwhile has changed it. The
//                   others are decided again in a second transaction that locks them
//
// With what was brought along the clock is a little behind (I5): the moment of the last answer, moved on by our own steady
// clock, which the server's has reached or passed by the way of that answer, 20 ms at most. A lease is that much shorter, where
// its holder keeps away from the last third (I4). Nobody else's lease is judged by it: what is decided blind meets no row. A
// statement that is held up on its way writes nothing when it arrives (I6: a claim that nobody waits for any more).
//
// What a crash or a lost connection leaves:
//   before COMMIT was sent       nothing (`unavailable`)
//   after, without its reply     all or nothing of the batch (`indeterminate`): executed again with the same ids, waiting
//                                for the locks of a first transaction that may still be ending
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "ledger/keeping.hpp"
#include "ledger/open_records.hpp"
#include "ledger/plan.hpp"
#include "ledger/row.hpp"
#include "semel/postgres.hpp"
#include "stores/postgres/rows.hpp"
#include "stores/postgres/schema.hpp"
#include "stores/postgres/wire.hpp"

namespace semel::postgres {
namespace {

static_assert(Session::groups_max <= token_block, "a batch takes one block of tokens");

/// How long a released operation keeps its row; longer than any statement can take.
constexpr Duration released_row_kept = std::chrono::hours{1};

/// How often one execute looks again at an operation that others insert and remove meanwhile.
constexpr int looks_max = 4;

/// From the first column.
std::vector<OperationId> sorted_ids(const Rows& rows) {
    std::vector<OperationId> ids;
    for (int at = 0; at < rows.count(); ++at) ids.push_back(id_at(rows, at));
    std::ranges::sort(ids);
    return ids;
}

// ---- session ---------------------------------------------------------------------------------------------------

enum class Look {
    blind,  ///< lone claims are written without being looked up, and so is what is remembered
    first,
};

/// What a batch needs of the server before it is decided, brought along by the batch before it on the same connection.
struct Ahead {
    Moment moment;
    std::chrono::steady_clock::time_point received;
};
/// It is used if it is younger than this, and was this soon on its way back: the server's clock is that much later at most.
constexpr Duration ahead_age_max = std::chrono::milliseconds{500};
constexpr Duration ahead_way_max = std::chrono::milliseconds{20};
/// By the server's clock, for what was decided ahead to be written: what is held up longer is decided anew.
constexpr Duration ahead_for_max = std::chrono::seconds{1};

/// The operations that this process has running, as they are in the table unless somebody else changed them.
struct Remembered {
    std::mutex mutex;
    OpenRecords<std::string> records;  ///< with their Row::record; guarded by mutex
    TimePoint latest{};                ///< the server's clock as last used by any session; guarded by mutex

    /// No session is behind another one, by the way that their answers took. A clock that was set back is.
    TimePoint not_behind(TimePoint now) {
        if (now > latest || latest - now > ahead_way_max) latest = now;
        return latest;
    }
};

/// Whether a command may be decided on a remembered record: those that leave the row there.
bool may_be_blind(const Command& command) {
    return std::holds_alternative<Settle>(command) || std::holds_alternative<Renew>(command);
}

class PostgresSession final : public Session {
public:
    PostgresSession(const Options& options, Remembered& remembered) : options_(options), remembered_(remembered) {}

    Result<Executed> execute(std::span<const Group> groups) override;
    Status reconnect();

private:
    struct Batch {
        std::span<const Group> groups;
        std::vector<const Command*> commands;  // flat
        std::vector<OperationId> ids;          // of each flat command
        std::vector<std::size_t> group_of;     // of each flat command
        bool again = false;
        bool has_large_group = false;
    };
    /// What is decided without a look at the row.
    struct Blind {
        std::vector<bool> commands;                    // flat
        std::vector<std::optional<std::string>> were;  // Row::record of what is remembered, for each flat command
        std::vector<Found> found;
        [[nodiscard]] bool remembers() const {
            return std::ranges::any_of(were, [](const auto& was) { return was.has_value(); });
        }
    };
    /// The ids that the INSERT put in and those that were changed as remembered, sorted; each write's Row::record.
    struct Written {
        std::vector<OperationId> inserted;
        std::vector<OperationId> changed;
        std::vector<std::string> records;
    };
    struct Loaded {
        std::vector<Found> found;
        std::vector<bool> row_exists;
        Moment moment;
        bool begun =
            true;  ///< false: nothing was sent, and the moment is one that the server's clock has reached at least
    };

    Status set_up_session();
    static const char* settings_sql(bool for_transaction);
    [[nodiscard]] Params settings_params(Duration lock_timeout) const;
    Result<std::vector<OperationId>> present(const std::vector<OperationId>& ids);
    static Batch flatten(std::span<const Group> groups);
    Blind blind(const Batch& batch, Look look);
    Result<Loaded> load(const Batch& batch, Blind& blind);
    std::optional<Moment> take_ahead(const Batch& batch);
    void send_begin(const Batch& batch);
    [[nodiscard]] bool sets(const Batch& batch) const { return !wire_->direct() || batch.again; }
    Result<Written> write(const Batch& batch, const Plan& planned, const Blind& blind, const Loaded& loaded);
    Result<Executed> transact(std::span<const Group> groups, Look look, int depth = 0);
    void remember(std::vector<Write> writes, std::vector<std::string> records, const std::vector<bool>& stands);
    Result<Executed> answer_rest(std::span<const Group> groups, Executed executed, std::vector<std::size_t> rest,
                                 int depth);
    Failure failed(const WireError& error, std::string_view tried);
    Failure failed_at_commit(const WireError& error);

    const Options& options_;
    Remembered& remembered_;
    std::optional<Wire> wire_;
    std::optional<Ahead> ahead_;
};

Status PostgresSession::reconnect() {
    wire_.reset();
    ahead_.reset();  // it may be another server now
    auto wire = Wire::connect(options_.uri, options_.connect_timeout);
    if (!wire) return wire.failure();
    wire_ = std::move(*wire);
    if (wire_->direct()) return set_up_session();
    return Done{};
}

/// A batch's settings, once for the connection instead of once per batch. The plans of kept statements outlast the size
/// of the table they were made for, so they may not be ones that are good for small tables only.
Status PostgresSession::set_up_session() {
    wire_->send(settings_sql(false), settings_params(options_.lock_timeout));
    wire_->send(
        "select set_config('enable_seqscan', 'off', false), set_config('enable_hashjoin', 'off', false), "
        "set_config('enable_mergejoin', 'off', false)");
    auto answered = wire_->round_trip(options_.timeout);
    if (auto* error = std::get_if<WireError>(&answered)) {
        wire_.reset();
        return failure_of(*error, "set up a connection", options_);
    }
    return Done{};
}

/// A client that dies must not leave its locks behind: the server looks for it, and waits no longer than we would.
const char* PostgresSession::settings_sql(bool for_transaction) {
    static constexpr auto* sql =
        "select set_config('lock_timeout', $1, {0}), set_config('statement_timeout', $2, {0}), "
        "set_config('idle_in_transaction_session_timeout', $2, {0}), "
        "case when current_setting('client_connection_check_interval', true) is not null "
        "then set_config('client_connection_check_interval', '500ms', {0}) end";
    static const std::string transaction = fmt::format(sql, "true");
    static const std::string session = fmt::format(sql, "false");
    return for_transaction ? transaction.c_str() : session.c_str();
}

Params PostgresSession::settings_params(Duration lock_timeout) const {
    Params params;
    params.text(fmt::format("{}ms", lock_timeout / std::chrono::milliseconds{1}));
    params.text(fmt::format("{}ms", options_.timeout / std::chrono::milliseconds{1}));
    return params;
}

/// Before COMMIT was sent: nothing happened, or the server says why it rolled back.
Failure PostgresSession::failed(const WireError& error, std::string_view tried) {
    if (error.lost() || !wire_->roll_back(options_.timeout)) wire_.reset();
    return failure_of(error, tried, options_);
}

Failure PostgresSession::failed_at_commit(const WireError& error) {
    // Shutting down or losing the connection: the COMMIT may have been done.
    const bool in_doubt = error.lost() || error.sqlstate.starts_with("57") || error.sqlstate.starts_with("08");
    Failure failure = failed(error, "commit a batch");
    if (in_doubt) failure.code = Code::indeterminate;
    return failure;
}

PostgresSession::Batch PostgresSession::flatten(std::span<const Group> groups) {
    Batch batch{groups, {}, {}, {}, false, false};
    for (std::size_t g = 0; g < groups.size(); ++g) {
        batch.again = batch.again || groups[g].again;
        batch.has_large_group = batch.has_large_group || groups[g].commands.size() > 1;
        for (std::size_t i = 0; i < groups[g].commands.size(); ++i) {
            batch.commands.push_back(&groups[g].commands[i]);
            batch.ids.push_back(groups[g].id(i));
            batch.group_of.push_back(g);
        }
    }
    return batch;
}

PostgresSession::Blind PostgresSession::blind(const Batch& batch, Look look) {
    const std::size_t count = batch.commands.size();
    Blind blind{std::vector<bool>(count, false), std::vector<std::optional<std::string>>(count),
                std::vector<Found>(count, std::optional<Record>{})};
    const std::lock_guard lock(remembered_.mutex);
    for (std::size_t i = 0; i < count; ++i) {
        const Command& command = *batch.commands[i];
        const bool lone = batch.groups[batch.group_of[i]].commands.size() == 1;
        // Taken out whatever comes: it is remembered again as it is written.
        auto open = remembered_.records.take(batch.ids[i]);
        if (look == Look::first || batch.again || !lone) continue;
        const bool is_open = open && may_be_blind(command);
        blind.commands[i] = is_open || std::holds_alternative<Claim>(command);
        if (!is_open) continue;
        blind.were[i] = std::move(open->place);
        blind.found[i] = std::optional<Record>(std::move(open->record));
    }
    return blind;
}

Result<PostgresSession::Loaded> PostgresSession::load(const Batch& batch, Blind& blind) {
    std::vector<OperationId> wanted;
    for (std::size_t i = 0; i < batch.commands.size(); ++i)
        if (!blind.commands[i]) wanted.push_back(batch.ids[i]);
    const auto ahead = take_ahead(batch);
    if (ahead && wanted.empty())
        return Loaded{.found = std::move(blind.found),
                      .row_exists = std::vector<bool>(batch.commands.size(), false),
                      .moment = *ahead,
                      .begun = false};

    send_begin(batch);
    if (!wanted.empty()) {
        static const std::string skipping = fmt::format(
            "select {} from semel.operation where op = any($1::uuid[]) order by op for update skip locked", columns);
        static const std::string waiting =
            fmt::format("select {} from semel.operation where op = any($1::uuid[]) order by op for update", columns);
        wire_->send_kept(batch.again ? waiting.c_str() : skipping.c_str(), ids_param(wanted));
    }
    // I5, I3: the clock and the tokens after the locks. What is decided blind was last written before that, and is written
    // only if it still is so then: nobody else has judged it by a later clock.
    wire_->send_kept(moment_sql.c_str());
    auto answered = wire_->round_trip(options_.timeout);
    if (auto* error = std::get_if<WireError>(&answered)) return failed(*error, "lock the operations of a batch");
    auto& rows = std::get<0>(answered);
    Loaded loaded;
    loaded.moment = moment_of(rows.back());
    if (!loaded.moment.durable) {
        if (!wire_->roll_back(options_.timeout)) wire_.reset();
        return Failure{Code::unavailable,
                       fmt::format("{}: synchronous_commit is off: nothing is claimed until it is on",
                                   without_password(options_.uri))};
    }

    {
        const std::lock_guard lock(remembered_.mutex);
        remembered_.not_behind(loaded.moment.now);
    }
    loaded.found = std::move(blind.found);
    loaded.row_exists.resize(batch.commands.size(), false);
    if (wanted.empty()) return loaded;

    const Rows& locked = rows[sets(batch) ? 2 : 1];
    std::vector<std::pair<OperationId, int>> locked_rows;
    for (int at = 0; at < locked.count(); ++at) locked_rows.emplace_back(id_at(locked, at), at);
    std::vector<OperationId> locked_by_others;
    if (locked_rows.size() < wanted.size() && !batch.again) {
        auto there = present(wanted);
        if (!there) return there.failure();
        locked_by_others = std::move(*there);
    }
    for (std::size_t i = 0; i < batch.commands.size(); ++i) {
        if (blind.commands[i]) continue;
        const OperationId& id = batch.ids[i];
        const auto row = std::ranges::lower_bound(locked_rows, id, {}, &std::pair<OperationId, int>::first);
        if (row != locked_rows.end() && row->first == id) {
            loaded.found[i] = found_in(locked, row->second);
            loaded.row_exists[i] = true;
        } else if (std::ranges::binary_search(locked_by_others, id)) {
            loaded.found[i] = Locked{};
        }
    }
    return loaded;
}

/// The moment as of now, if the batch before has brought one along that is good enough; it is used once.
std::optional<Moment> PostgresSession::take_ahead(const Batch& batch) {
    const auto ahead = std::exchange(ahead_, std::nullopt);
    if (!ahead || batch.again) return std::nullopt;
    const auto age = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - ahead->received);
    if (age > ahead_age_max) return std::nullopt;
    for (const Command* command : batch.commands) {
        // What is swept could come again with tokens that were taken before it went (I3), or just before it expires.
        const auto* claim = std::get_if<Claim>(command);
        if (claim != nullptr && claim->policy.retention.identity) return std::nullopt;
    }
    Moment moment = ahead->moment;
    const std::lock_guard lock(remembered_.mutex);
    moment.now = remembered_.not_behind(moment.now + age);
    return moment;
}

void PostgresSession::send_begin(const Batch& batch) {
    wire_->send_kept("begin isolation level read committed read write");
    if (sets(batch))
        wire_->send(settings_sql(true),
                    settings_params(batch.again ? options_.lock_timeout_again : options_.lock_timeout));
}

/// Which of the operations have a row, locked or not, sorted.
Result<std::vector<OperationId>> PostgresSession::present(const std::vector<OperationId>& ids) {
    wire_->send_kept("select op from semel.operation where op = any($1::uuid[])", ids_param(ids));
    auto answered = wire_->round_trip(options_.timeout);
    if (auto* error = std::get_if<WireError>(&answered)) return failed(*error, "look for the operations of a batch");
    return sorted_ids(std::get<0>(answered)[0]);
}

/// The second round trip, or the only one. A batch with a group of several commands is committed only if the INSERT put
/// everything in.
Result<PostgresSession::Written> PostgresSession::write(const Batch& batch, const Plan& planned, const Blind& blind,
                                                        const Loaded& loaded) {
    std::vector<Row> inserts;
    std::vector<Row> updates;
    std::vector<Change> changes;
    std::vector<OperationId> removes;
    Written written;
    for (const Write& write : planned.writes) {
        std::string& record = written.records.emplace_back();
        if (!write.next) {
            removes.push_back(write.id);
            continue;
        }
        Row row = to_row(*write.next);
        record = row.record;
        if (const auto& was = blind.were[write.command])
            changes.push_back({std::move(row), *was});
        else
            (loaded.row_exists[write.command] ? updates : inserts).push_back(std::move(row));
    }
    const std::size_t insert_count = inserts.size();
    const bool has_changes = !changes.empty();
    if (!loaded.begun) send_begin(batch);
    const std::size_t first = loaded.begun ? 0 : sets(batch) ? 2 : 1;  // of the answers below
    const auto send = [&](const std::string& sql, const std::string& until_sql, Params params) {
        if (!loaded.begun) params.int8(micros(later(loaded.moment.now, ahead_for_max)));
        wire_->send_kept((loaded.begun ? sql : until_sql).c_str(), params);
    };
    if (insert_count > 0) send(insert_sql, insert_until_sql, row_params(std::move(inserts)));
    if (has_changes) send(change_sql, change_until_sql, change_params(std::move(changes)));
    if (!updates.empty()) wire_->send_kept(update_sql, row_params(std::move(updates)));
    if (!removes.empty()) {
        Params params = ids_param(std::move(removes));
        params.int8(released_row_kept.count());
        wire_->send(
            "update semel.operation set state = 0, scope = null, key = null, record = '', outcome = null, "
            "due = (extract(epoch from clock_timestamp()) * 1000000)::bigint + $2 where op = any($1::uuid[])",
            params);
    }
    const bool commit_later = batch.has_large_group && insert_count > 0;
    if (!commit_later) {
        wire_->send_kept(moment_sql.c_str());  // for the next batch
        wire_->send("commit");
    }
    const auto sent = std::chrono::steady_clock::now();
    auto answered = wire_->round_trip(options_.timeout);
    if (auto* error = std::get_if<WireError>(&answered))
        return commit_later ? failed(*error, "write a batch") : failed_at_commit(*error);
    const auto& rows = std::get<0>(answered);

    if (insert_count > 0) written.inserted = sorted_ids(rows[first]);
    if (has_changes) written.changed = sorted_ids(rows[first + (insert_count > 0 ? 1 : 0)]);
    if (!commit_later) {
        const Ahead ahead{moment_of(rows[rows.size() - 2]), std::chrono::steady_clock::now()};
        if (ahead.moment.durable && ahead.received - sent <= ahead_way_max) ahead_ = ahead;
    } else {
        if (written.inserted.size() != insert_count) {
            if (!wire_->roll_back(options_.timeout)) wire_.reset();
            return Failure{Code::contended, "another transaction inserted an operation of this group first"};
        }
        wire_->send("commit");
        auto committed = wire_->round_trip(options_.timeout);
        if (auto* error = std::get_if<WireError>(&committed)) return failed_at_commit(*error);
    }
    return written;
}

Result<Executed> PostgresSession::transact(std::span<const Group> groups, Look look, int depth) {
    const Batch batch = flatten(groups);
    SEMEL_ASSERT(tokens_needed(groups) <= token_block, "a batch takes one block of tokens");
    Blind blind = this->blind(batch, look);
    auto loaded = load(batch, blind);
    if (!loaded) return loaded.failure();
    Plan planned =
        plan(groups, std::move(loaded->found), {loaded->moment.now, loaded->moment.first_token, Epoch{}, std::nullopt});
    Written written;
    if (planned.writes.empty()) {
        if (loaded->begun && !wire_->roll_back(options_.timeout)) wire_.reset();
    } else {
        auto done = write(batch, planned, blind, *loaded);
        // Perhaps somebody's own transaction has a row that was to be changed without a look: with one it is passed over.
        // Where it was the INSERT that waited, it does so once more, before the batch is split.
        const bool contended = !done && done.failure().code == Code::contended;
        if (contended && blind.remembers() && wire_) return transact(groups, Look::first, depth);
        if (!done) return done.failure();
        written = std::move(*done);
    }

    // What was decided blind, and wrongly: met by the INSERT, changed by others, or answered without a write.
    std::vector<bool> done(groups.size(), true);
    for (std::size_t i = 0; i < batch.commands.size(); ++i)
        if (blind.commands[i]) done[batch.group_of[i]] = false;
    for (const Write& write : planned.writes) {
        const bool changes = blind.were[write.command].has_value();
        const bool inserts = write.next && !changes && !loaded->row_exists[write.command];
        done[batch.group_of[write.command]] = changes   ? std::ranges::binary_search(written.changed, write.id)
                                              : inserts ? std::ranges::binary_search(written.inserted, write.id)
                                                        : true;
    }
    std::vector<std::size_t> rest;
    for (std::size_t g = 0; g < groups.size(); ++g)
        if (!done[g]) rest.push_back(g);
    std::vector<bool> stands;
    for (const Write& write : planned.writes) stands.push_back(done[batch.group_of[write.command]]);
    remember(std::move(planned.writes), std::move(written.records), stands);
    return answer_rest(groups, Executed{loaded->moment.now, std::move(planned.answers)}, std::move(rest), depth);
}

/// What was committed of the writes, for the holders' next commands. Not where the application settles in its own
/// transaction, and may have the row locked by then.
void PostgresSession::remember(std::vector<Write> writes, std::vector<std::string> records,
                               const std::vector<bool>& stands) {
    const std::lock_guard lock(remembered_.mutex);
    for (std::size_t i = 0; i < writes.size(); ++i)
        if (stands[i] && writes[i].next && writes[i].next->policy.on_unknown != OnUnknown::joined)
            remembered_.records.keep(std::move(records[i]), std::move(*writes[i].next));
}

/// Answers what met a row other than it took it for, without having looked it up. What fails here fails for these groups
/// alone: the others are committed.
Result<Executed> PostgresSession::answer_rest(std::span<const Group> groups, Executed executed,
                                              std::vector<std::size_t> rest, int depth) {
    if (rest.empty()) return executed;
    const auto fail_all = [&](const std::vector<std::size_t>& which, const Failure& failure) {
        for (std::size_t g : which) executed.answers[g] = failure;
    };
    if (depth == looks_max) {
        fail_all(rest, {Code::contended, "the operation came and went while it was looked at"});
        return executed;
    }
    if (!wire_) {
        if (auto connected = reconnect(); !connected) {
            fail_all(rest, connected.failure());
            return executed;
        }
    }
    // A settled row is a fact: no lock is needed to tell a claim of it.
    const auto is_claim = [&](std::size_t g) { return std::holds_alternative<Claim>(groups[g].commands.front()); };
    std::vector<OperationId> ids;
    for (std::size_t g : rest) ids.push_back(groups[g].id(0));
    static const std::string settled_sql =
        fmt::format("select {} from semel.operation where op = any($1::uuid[]) and state = 3", columns);
    wire_->send(settled_sql.c_str(), ids_param(ids));
    wire_->send(clock_sql);
    auto answered = wire_->round_trip(options_.timeout);
    if (auto* error = std::get_if<WireError>(&answered)) {
        if (error->lost()) wire_.reset();
        fail_all(rest, failure_of(*error, "read settled operations", options_));
        return executed;
    }
    const Rows& settled = std::get<0>(answered)[0];
    executed.now = time_from_micros(std::get<0>(answered)[1].integer(0, 0));
    std::vector<std::pair<OperationId, int>> place;
    for (int at = 0; at < settled.count(); ++at) place.emplace_back(id_at(settled, at), at);
    std::ranges::sort(place);
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < rest.size(); ++i) {
        const auto at = std::ranges::lower_bound(place, ids[i], {}, &std::pair<OperationId, int>::first);
        if (at == place.end() || at->first != ids[i] || !is_claim(rest[i])) {
            open.push_back(rest[i]);
            continue;
        }
        const std::span<const Group> lone = groups.subspan(rest[i], 1);
        std::vector<Found> found;
        found.push_back(found_in(settled, at->second));
        Plan planned = plan(lone, std::move(found), {executed.now, Token{}, Epoch{}, std::nullopt});
        SEMEL_ASSERT(planned.writes.empty(), "a claim never changes a settled record");
        executed.answers[rest[i]] = std::move(planned.answers[0]);
    }
    if (open.empty()) return executed;

    std::vector<Group> again;
    for (std::size_t g : open) again.push_back(groups[g]);
    auto locked = transact(again, Look::first, depth + 1);
    if (!locked) {
        fail_all(open, locked.failure());
        return executed;
    }
    for (std::size_t i = 0; i < open.size(); ++i) executed.answers[open[i]] = std::move(locked->answers[i]);
    executed.now = locked->now;
    return executed;
}

Result<Executed> PostgresSession::execute(std::span<const Group> groups) {
    const bool was_connected = wire_ && wire_->usable();
    if (!was_connected) {
        if (auto connected = reconnect(); !connected) return connected.failure();
    }
    auto executed = transact(groups, Look::blind);
    // A connection that died while idle says so on first use; nothing happened, so a new one may try.
    if (!executed && executed.failure().code == Code::unavailable && was_connected && !wire_) {
        if (auto connected = reconnect(); !connected) return connected.failure();
        executed = transact(groups, Look::blind);
    }
    return executed;
}

// ---- store -----------------------------------------------------------------------------------------------------

class PostgresStore final : public Store {
public:
    explicit PostgresStore(Options options) : options_(std::move(options)) {}

    Status open() {
        const std::lock_guard lock(mutex_);
        auto wire = this->wire();
        if (!wire) return wire.failure();
        return check_server(**wire, options_);
    }

    Result<std::unique_ptr<Session>> session() override {
        auto session = std::make_unique<PostgresSession>(options_, remembered_);
        if (auto connected = session->reconnect(); !connected) return connected.failure();
        return std::unique_ptr<Session>(std::move(session));
    }
    [[nodiscard]] std::size_t sessions_max() const override { return options_.sessions_max; }
    Result<std::optional<Record>> find(const OperationId& id) override;
    Result<Page> list(const Filter& filter, const std::string& cursor, std::size_t limit) override;
    Result<Swept> sweep(std::size_t limit, bool accept_clock) override;
    Result<TimePoint> now() override;
    [[nodiscard]] std::string text() const override { return without_password(options_.uri); }

private:
    /// The connection for reading and sweeping, made anew if it was lost.
    Result<Wire*> wire() {
        if (!wire_ || !wire_->usable()) {
            auto wire = Wire::connect(options_.uri, options_.connect_timeout);
            if (!wire) return wire.failure();
            wire_ = std::move(*wire);
        }
        return &*wire_;
    }
    Result<std::vector<Rows>> ask(const char* sql, const Params& params, std::string_view tried);

    Options options_;
    Remembered remembered_;
    std::mutex mutex_;
    std::optional<Wire> wire_;  // guarded by mutex_
};

Result<std::vector<Rows>> PostgresStore::ask(const char* sql, const Params& params, std::string_view tried) {
    WireError last;
    // Reading is safe to repeat: a connection that died while idle gets one more try.
    for (int tries = 0; tries < 2; ++tries) {
        auto wire = this->wire();
        if (!wire) return wire.failure();
        (*wire)->send(sql, params);
        (*wire)->send(clock_sql);
        auto answered = (*wire)->round_trip(options_.timeout);
        if (auto* rows = std::get_if<0>(&answered)) return std::move(*rows);
        last = std::get<WireError>(std::move(answered));
        if (!last.lost()) break;
    }
    return failure_of(last, tried, options_);
}

Result<TimePoint> PostgresStore::now() {
    const std::lock_guard lock(mutex_);
    auto rows = ask("select 1", {}, "read the clock");
    if (!rows) return rows.failure();
    return time_from_micros((*rows)[1].integer(0, 0));
}

Result<std::optional<Record>> PostgresStore::find(const OperationId& id) {
    const std::lock_guard lock(mutex_);
    Params params;
    params.uuid(view(id.bytes));
    static const std::string sql = fmt::format("select {} from semel.operation where op = $1", columns);
    auto rows = ask(sql.c_str(), params, "find an operation");
    if (!rows) return rows.failure();
    if ((*rows)[0].count() == 0) return std::optional<Record>{};
    Found found = found_in((*rows)[0], 0);
    if (auto* failure = std::get_if<Failure>(&found)) return std::move(*failure);
    return std::get<std::optional<Record>>(std::move(found));
}

Result<Page> PostgresStore::list(const Filter& filter, const std::string& cursor, std::size_t limit) {
    const std::lock_guard lock(mutex_);
    auto after = from_hex(cursor);
    if (!after || (!after->empty() && after->size() != 16))
        return Failure{Code::invalid, fmt::format("list: `{}` is not a cursor of this store", cursor)};
    after->resize(16, '\0');
    constexpr std::int64_t page_rows = 1000;
    static const std::string all =
        fmt::format("select {} from semel.operation where op > $1 and state <> 0 order by op limit $2", columns);
    static const std::string by_state =
        fmt::format("select {} from semel.operation where op > $1 and state = $3 order by op limit $2", columns);
    Page page;
    while (true) {
        Params params;
        params.uuid(*after).int8(page_rows);
        if (filter.state) params.int8(static_cast<std::int64_t>(*filter.state));
        auto answered = ask(filter.state ? by_state.c_str() : all.c_str(), params, "list operations");
        if (!answered) return answered.failure();
        const Rows& rows = (*answered)[0];
        const TimePoint now = time_from_micros((*answered)[1].integer(0, 0));
        for (int at = 0; at < rows.count(); ++at) {
            auto record = from_row(read_row(rows, at));
            if (!record) {
                ++page.corrupt;
                continue;
            }
            if (!matches(filter, *record, now)) continue;
            if (page.records.size() == limit) {
                page.next = to_hex(page.records.back().id.bytes);
                return page;
            }
            page.records.push_back(std::move(*record));
        }
        if (rows.count() < page_rows) return page;
        after = std::string(rows.bytes(rows.count() - 1, 0));
    }
}

Result<Swept> PostgresStore::sweep(std::size_t limit, bool accept_clock) {
    const std::lock_guard lock(mutex_);
    auto connected = this->wire();
    if (!connected) return connected.failure();
    Wire& wire = **connected;
    const auto failed = [&](const WireError& error, std::string_view tried) {
        if (!error.lost()) wire.roll_back(options_.timeout);
        return failure_of(error, tried, options_);
    };
    wire.send("begin isolation level read committed read write");
    wire.send("insert into semel.meta (name, value) values ('swept_at', 0) on conflict (name) do nothing");
    // One sweeper at a time; another one has nothing to do.
    wire.send("select value from semel.meta where name = 'swept_at' for update skip locked");
    Params params;
    params.int8(static_cast<std::int64_t>(limit) + 1);
    static const std::string due_sql = fmt::format(
        "select {} from semel.operation where state = 3 and due is not null and "
        "due <= (extract(epoch from clock_timestamp()) * 1000000)::bigint order by due limit $1 for update skip locked",
        columns);
    wire.send(due_sql.c_str(), params);
    wire.send(clock_sql);
    wire.send("select min(progress) from semel.consumer_member");
    auto answered = wire.round_trip(options_.timeout);
    if (auto* error = std::get_if<WireError>(&answered)) return failed(*error, "find what to sweep");
    const auto& rows = std::get<0>(answered);
    const TimePoint now = time_from_micros(rows[4].integer(0, 0));
    if (rows[2].count() == 0) {
        wire.roll_back(options_.timeout);
        return Swept{};
    }
    const TimePoint progress = rows[5].is_null(0, 0) ? never : time_from_micros(rows[5].integer(0, 0));
    std::optional<TimePoint> last;
    if (rows[2].integer(0, 0) != 0) last = time_from_micros(rows[2].integer(0, 0));
    if (auto trusted = check_sweep_clock(last, now, accept_clock); !trusted) {
        wire.roll_back(options_.timeout);
        return trusted.failure();
    }

    Swept swept;
    std::vector<Row> updates;
    std::vector<OperationId> removes;
    for (int at = 0; at < rows[3].count(); ++at) {
        if (static_cast<std::size_t>(at) == limit) {
            swept.more = true;
            break;
        }
        // What cannot be trusted is kept for a person to look at.
        auto record = from_row(read_row(rows[3], at));
        if (!record) continue;
        Decision decision = semel::sweep(std::move(*record), now, progress);
        if (!decision.changed) continue;
        if (decision.next)
            updates.push_back(to_row(*decision.next));
        else
            removes.push_back(read_row(rows[3], at).id);
    }
    swept.bodies_dropped = updates.size();
    swept.removed = removes.size();
    if (!updates.empty()) wire.send(update_sql, row_params(std::move(updates)));
    if (!removes.empty())
        wire.send("delete from semel.operation where op = any($1::uuid[])", ids_param(std::move(removes)));
    Params released;
    released.int8(static_cast<std::int64_t>(limit)).int8(micros(now));
    wire.send(
        "delete from semel.operation where op = any(array(select op from semel.operation where state = 0 and due is "
        "not null "
        "and due <= $2 order by due limit $1 for update skip locked))",
        released);
    Params mark;
    mark.int8(micros(now));
    wire.send("update semel.meta set value = $1 where name = 'swept_at'", mark);
    wire.send("commit");
    auto committed = wire.round_trip(options_.timeout);
    if (auto* error = std::get_if<WireError>(&committed)) return failed(*error, "sweep");
    return swept;
}

}  // namespace

Result<std::unique_ptr<Store>> open(Options options) {
    auto store = std::make_unique<PostgresStore>(std::move(options));
    if (auto opened = store->open(); !opened) return opened.failure();
    return std::unique_ptr<Store>(std::move(store));
}

}  // namespace semel::postgres
