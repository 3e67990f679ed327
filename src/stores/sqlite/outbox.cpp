// The outbox on SQLite: staging in a caller's transaction, and one relay's side on a connection of its own.
//
// SQLite has one writer at a time, so sequence is commit order for all keys at once, and one shard, which one relay works on;
// others stand by. The bell is the write-ahead log: whoever commits writes to it, and the kernel tells (inotify). That is a
// moment before the commit can be seen, so the bell only begins a short watch of `pragma data_version`.
#include <fmt/format.h>
#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/clock.hpp"
#include "ledger/staged_event.hpp"
#include "semel/sqlite.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/schema.hpp"

namespace semel::sqlite {
namespace {

using std::chrono::steady_clock;

constexpr int busy_timeout_ms = 5000;
/// After the bell: a commit is visible when its log is on the disk.
constexpr std::chrono::milliseconds watch_for{1000};
constexpr std::chrono::milliseconds watch_every_min{1};
constexpr std::chrono::milliseconds watch_every_max{20};

/// Rings when somebody has written to a database's log.
class Bell {
public:
    explicit Bell(const std::string& path) : descriptor_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
        const std::filesystem::path file(path);
        name_ = file.filename().string() + "-wal";
        const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
        if (descriptor_ >= 0 && ::inotify_add_watch(descriptor_, folder.c_str(), IN_MODIFY | IN_CREATE) < 0) close();
    }
    ~Bell() { close(); }
    Bell(const Bell&) = delete;
    Bell& operator=(const Bell&) = delete;

    [[nodiscard]] bool works() const { return descriptor_ >= 0; }

    bool wait(std::chrono::milliseconds time) {
        pollfd line{descriptor_, POLLIN, 0};
        return ::poll(&line, 1, static_cast<int>(std::max<std::int64_t>(0, time.count()))) > 0 && rang();
    }

private:
    void close() {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = -1;
    }
    /// Whether any of what has happened in the folder is about the log; all of it is read.
    bool rang() {
        alignas(inotify_event) std::array<char, 4096> buffer{};
        bool any = false;
        while (true) {
            const ssize_t size = ::read(descriptor_, buffer.data(), buffer.size());
            if (size <= 0) return any;
            for (ssize_t at = 0; at < size;) {
                const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + at);
                if ((event->mask & IN_Q_OVERFLOW) != 0 || (event->len > 0 && name_ == event->name)) any = true;
                at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
            }
        }
    }

    int descriptor_;
    std::string name_;
};

class SqliteOutbox final : public OutboxTable {
public:
    SqliteOutbox(Options options, std::string name, std::string relay)
        : options_(std::move(options)), name_(std::move(name)), relay_(std::move(relay)), bell_(options_.path) {}
    ~SqliteOutbox() override { statements_.clear(); }

    /// A database that is not there is none that anybody stages in: the path is wrong.
    Status open() {
        sqlite3* raw = nullptr;
        const int result =
            sqlite3_open_v2(options_.path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
        db_.reset(raw);
        if (result != SQLITE_OK) {
            Failure failure = failure_of(raw, "open");
            if ((result & 0xff) == SQLITE_CANTOPEN)
                failure = {Code::invalid, fmt::format("open sqlite:{}: {}; check the path (store), or make it: semel "
                                                      "migrate --store sqlite:{}",
                                                      options_.path, sqlite3_errmsg(raw), options_.path)};
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
        return Done{};
    }

    Result<Held> hold(Duration lease) override {
        const std::int64_t now = now_micros();
        auto done = in_transaction([&]() -> Status {
            return execute(
                "insert into semel_outbox_lease (outbox, relay, until) values (?1, ?2, ?3) "
                "on conflict (outbox) do update set relay = excluded.relay, until = excluded.until "
                "where relay = excluded.relay or until < ?4",
                [&](Statement& statement) {
                    statement.bind_text(1, name_);
                    statement.bind_text(2, relay_);
                    statement.bind(3, now + lease.count());
                    statement.bind(4, now);
                });
        });
        if (!done) return done.failure();
        auto mine = count("select count(*) from semel_outbox_lease where outbox = ?1 and relay = ?2", relay_);
        if (!mine) return mine.failure();
        Held held{.relays = 1, .share = 1};
        if (*mine > 0) held.shards.push_back(0);
        return held;
    }

    void leave() override {
        static_cast<void>(in_transaction([&] {
            return execute("delete from semel_outbox_lease where outbox = ?1 and relay = ?2",
                           [&](Statement& statement) {
                               statement.bind_text(1, name_);
                               statement.bind_text(2, relay_);
                           });
        }));
    }

    // Nobody else works on it meanwhile: the turn is over when it has begun.
    void begin_turn(const Turn& turn) override { turned_.emplace(whole(turn)); }
    std::optional<Result<std::vector<OutboxRow>>> turned(Duration) override {
        return std::exchange(turned_, std::nullopt);
    }

    Status ring(bool) override { return Done{}; }
    bool wait(Duration time) override {
        const auto deadline = steady_clock::now() + time;
        while (true) {
            if (somebody_committed()) return true;
            const auto now = steady_clock::now();
            if (now >= deadline) return false;
            auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
            const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now - rang_at_);
            if (since < watch_for) left = std::min(left, std::clamp(since, watch_every_min, watch_every_max));
            if (bell_.wait(left)) rang_at_ = steady_clock::now();
        }
    }
    [[nodiscard]] bool hears() const override { return bell_.works(); }

    Result<Health> health() override {
        Health health;
        health.now = time_from_micros(now_micros());
        auto oldest = count(
            "select coalesce((select staged_at from semel_outbox where outbox = ?1 order by sequence limit 1), -1)");
        if (!oldest) return oldest.failure();
        if (*oldest >= 0) health.oldest = time_from_micros(*oldest);
        auto stuck = count("select count(*) from semel_outbox_stuck where outbox = ?1");
        if (!stuck) return stuck.failure();
        health.stuck = static_cast<std::uint64_t>(*stuck);
        return health;
    }

    Result<std::vector<OutboxStuck>> stuck(std::size_t limit) override {
        auto found = prepared(
            "select s.sequence, s.ordering_key, s.tries, s.since, s.retry_at, s.error, coalesce(o.id, ''), "
            "coalesce(o.topic, '') from semel_outbox_stuck s left join semel_outbox o on o.sequence = s.sequence "
            "where s.outbox = ?1 order by s.since, s.sequence limit ?2");
        if (!found) return found.failure();
        Statement& statement = **found;
        statement.bind_text(1, name_);
        statement.bind(2, static_cast<std::int64_t>(limit));
        std::vector<OutboxStuck> all;
        int result = statement.step();
        for (; result == SQLITE_ROW; result = statement.step())
            all.push_back({.place = {0, statement.integer(0)},
                           .ordering_key = statement.bytes(1),
                           .error = statement.bytes(5),
                           .tries = static_cast<std::uint64_t>(statement.integer(2)),
                           .since = time_from_micros(statement.integer(3)),
                           .retry_at = time_from_micros(statement.integer(4)),
                           .id = statement.bytes(6),
                           .topic = statement.bytes(7)});
        statement.reset();
        if (result != SQLITE_DONE) return failure_of(db_.get(), "list what is stuck");
        return all;
    }

    Result<bool> retry(std::int64_t sequence) override {
        return change({"update semel_outbox_stuck set retry_at = 0 where outbox = ?1 and sequence = ?2"},
                      [&](Statement& statement) { statement.bind(2, sequence); });
    }
    Result<bool> drop(const OutboxDrop& drop) override {
        if (auto fine = check(drop); !fine) return fine.failure();
        return change(
            {"insert into semel_outbox_dropped (sequence, outbox, dropped_at, who, why, staged_at, tries, error, "
             "topic, ordering_key, id, source, type) select s.sequence, s.outbox, ?3, ?4, ?5, "
             "coalesce(o.staged_at, s.since), s.tries, s.error, coalesce(o.topic, ''), s.ordering_key, "
             "coalesce(o.id, ''), coalesce(o.source, ''), coalesce(o.type, '') from semel_outbox_stuck s "
             "left join semel_outbox o on o.sequence = s.sequence where s.outbox = ?1 and s.sequence = ?2",
             "delete from semel_outbox where outbox = ?1 and sequence = ?2 and exists "
             "(select 1 from semel_outbox_stuck s where s.sequence = ?2)",
             "delete from semel_outbox_stuck where outbox = ?1 and sequence = ?2"},
            [&](Statement& statement) {
                statement.bind(2, drop.sequence);
                statement.bind(3, now_micros());
                statement.bind_text(4, drop.who);
                statement.bind_text(5, drop.why);
            });
    }

    Result<std::vector<OutboxDropped>> dropped(std::size_t limit) override {
        auto found = prepared(
            "select sequence, dropped_at, who, why, staged_at, tries, error, topic, ordering_key, id, source, type "
            "from semel_outbox_dropped where outbox = ?1 order by dropped_at desc, sequence desc limit ?2");
        if (!found) return found.failure();
        Statement& row = **found;
        row.bind_text(1, name_);
        row.bind(2, static_cast<std::int64_t>(limit));
        std::vector<OutboxDropped> all;
        int result = row.step();
        for (; result == SQLITE_ROW; result = row.step())
            all.push_back({.decision = {.sequence = row.integer(0), .who = row.bytes(2), .why = row.bytes(3)},
                           .dropped_at = time_from_micros(row.integer(1)),
                           .staged_at = time_from_micros(row.integer(4)),
                           .tries = static_cast<std::uint64_t>(row.integer(5)),
                           .error = row.bytes(6),
                           .topic = row.bytes(7),
                           .ordering_key = row.bytes(8),
                           .id = row.bytes(9),
                           .source = row.bytes(10),
                           .type = row.bytes(11)});
        row.reset();
        if (result != SQLITE_DONE) return failure_of(db_.get(), "list what was dropped");
        return all;
    }

    [[nodiscard]] std::string text() const override { return "sqlite:" + options_.path; }

private:
    Result<std::vector<OutboxRow>> whole(const Turn& turn) {
        if (!turn.done.empty() || !turn.refused.empty()) {
            auto written = in_transaction([&] { return write(turn); });
            if (!written) return written.failure();
        }
        std::vector<OutboxRow> read;
        if (turn.read.empty()) return read;
        auto found = prepared(
            "select o.sequence, o.staged_at, o.topic, o.ordering_key, o.id, o.source, o.type, o.subject, o.time, "
            "o.data_content_type, o.data_schema, o.extensions, o.data from semel_outbox o where o.outbox = ?1 "
            "and not exists (select 1 from semel_outbox_stuck s where s.sequence = o.sequence and s.retry_at > ?3) "
            "and (o.ordering_key = '' or not exists (select 1 from semel_outbox_stuck s where s.outbox = ?1 "
            "and s.ordering_key = o.ordering_key and s.retry_at > ?3)) "
            "order by o.sequence limit ?2");
        if (!found) return found.failure();
        Statement& statement = **found;
        statement.bind_text(1, name_);
        statement.bind(2, static_cast<std::int64_t>(turn.read.front().limit));
        statement.bind(3, now_micros());
        std::size_t bytes = 0;
        int result = SQLITE_ROW;
        while ((read.empty() || bytes < turn.read.front().bytes) && (result = statement.step()) == SQLITE_ROW) {
            read.push_back(row_at(statement));
            bytes += read.back().staged.event.data.size();
        }
        statement.reset();
        if (result != SQLITE_DONE && result != SQLITE_ROW) return failure_of(db_.get(), "read the outbox");
        return read;
    }

    [[nodiscard]] std::int64_t now_micros() const {
        return micros(options_.clock ? options_.clock() : SystemClock().wall());
    }

    Result<Statement*> prepared(const char* sql) {
        auto known = statements_.find(sql);
        if (known == statements_.end()) {
            auto statement = Statement::prepare(db_.get(), sql);
            if (!statement) return statement.failure();
            known = statements_.emplace(sql, std::move(*statement)).first;
        }
        return &known->second;
    }

    /// Whether another connection's commit has become visible since the last look.
    bool somebody_committed() {
        const auto version = count("pragma data_version");
        return version && *version != std::exchange(data_version_, *version);
    }

    template <class Bind>
    Status execute(const char* sql, Bind bind) {
        auto found = prepared(sql);
        if (!found) return found.failure();
        bind(**found);
        const int result = (*found)->run();
        if (result != SQLITE_DONE) return failure_of(db_.get(), "write the outbox");
        return Done{};
    }

    template <class Work>
    Status in_transaction(Work work) {
        if (auto begun = run(db_.get(), "begin immediate"); !begun) return begun;
        Status done = work();
        if (done) done = run(db_.get(), "commit");
        if (!done && sqlite3_get_autocommit(db_.get()) == 0)
            sqlite3_exec(db_.get(), "rollback", nullptr, nullptr, nullptr);
        return done;
    }

    Status write(const Turn& turn) {
        for (const char* sql :
             {"delete from semel_outbox where sequence = ?1", "delete from semel_outbox_stuck where sequence = ?1"})
            for (const OutboxPlace& place : turn.done)
                if (auto done = execute(sql, [&](Statement& statement) { statement.bind(1, place.sequence); }); !done)
                    return done;
        for (const OutboxRefusal& each : turn.refused) {
            auto done = execute(
                "insert into semel_outbox_stuck (sequence, outbox, ordering_key, tries, since, retry_at, error) "
                "select ?1, ?2, ?3, 1, ?4, ?4 + ?5, ?6 where exists (select 1 from semel_outbox where sequence = ?1) "
                "on conflict (sequence) "
                "do update set tries = tries + 1, retry_at = excluded.retry_at, error = excluded.error",
                [&](Statement& statement) {
                    statement.bind(1, each.place.sequence);
                    statement.bind_text(2, name_);
                    statement.bind_text(3, each.ordering_key);
                    statement.bind(4, now_micros());
                    statement.bind(5, each.again_after.count());
                    statement.bind_text(6, each.error);
                });
            if (!done) return done;
        }
        return Done{};
    }

    Result<std::int64_t> count(const char* sql, const std::string& second = "") {
        auto found = prepared(sql);
        if (!found) return found.failure();
        (*found)->bind_text(1, name_);
        if (!second.empty()) (*found)->bind_text(2, second);
        const int result = (*found)->step();
        const std::int64_t value = result == SQLITE_ROW ? (*found)->integer(0) : 0;
        (*found)->reset();
        if (result != SQLITE_ROW) return failure_of(db_.get(), "look at the outbox");
        return value;
    }

    /// Whether the last of them has changed anything. `bind` gives them what is beyond the outbox's name.
    template <class Bind>
    Result<bool> change(std::initializer_list<const char*> statements, Bind bind) {
        int changed = 0;
        auto done = in_transaction([&]() -> Status {
            for (const char* sql : statements) {
                auto each = execute(sql, [&](Statement& statement) {
                    statement.bind_text(1, name_);
                    bind(statement);
                });
                if (!each) return each;
                changed = sqlite3_changes(db_.get());
            }
            return Done{};
        });
        if (!done) return done.failure();
        return changed > 0;
    }

    [[nodiscard]] OutboxRow row_at(const Statement& row) const {
        OutboxRow out;
        out.place = {0, row.integer(0)};
        out.staged_at = time_from_micros(row.integer(1));
        out.staged.topic = row.bytes(2);
        out.staged.ordering_key = row.bytes(3);
        out.staged.outbox = name_;
        out.staged.event = {.id = row.bytes(4),
                            .source = row.bytes(5),
                            .type = row.bytes(6),
                            .subject = row.bytes(7),
                            .time = row.bytes(8),
                            .data_content_type = row.bytes(9),
                            .data_schema = row.bytes(10),
                            .extensions = extensions_of(row.bytes(11)),
                            .data = row.bytes(12)};
        return out;
    }

    Options options_;
    std::string name_;
    std::string relay_;
    Bell bell_;
    steady_clock::time_point rang_at_{};
    std::int64_t data_version_ = 0;
    std::optional<Result<std::vector<OutboxRow>>> turned_;
    Connection db_;
    std::map<std::string_view, Statement> statements_;
};

}  // namespace

Result<std::unique_ptr<OutboxTable>> open_outbox(Options options, std::string name, std::string relay) {
    auto table = std::make_unique<SqliteOutbox>(std::move(options), std::move(name), std::move(relay));
    if (auto opened = table->open(); !opened) return opened.failure();
    return std::unique_ptr<OutboxTable>(std::move(table));
}

Result<std::int64_t> stage(sqlite3* db, const StagedEvent& staged) {
    if (auto fine = check(staged); !fine) return fine.failure();
    if (db == nullptr || sqlite3_get_autocommit(db) != 0)
        return Failure{Code::invalid,
                       fmt::format("stage {}: the connection has no transaction open; say BEGIN IMMEDIATE first",
                                   staged.event.id)};
    auto statement = Statement::prepare(
        db,
        "insert into semel_outbox (outbox, staged_at, topic, ordering_key, id, source, type, subject, time, "
        "data_content_type, data_schema, extensions, data) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, "
        "?13)");
    if (!statement) {
        Failure failure = statement.failure();
        if (failure.message.find("no such table") != std::string::npos)
            failure = {Code::invalid, failure.message + "; has `semel migrate` been run on this database?"};
        return failure;
    }
    const Event& event = staged.event;
    const std::string lines = extension_lines(event);
    int at = 0;
    statement->bind_text(++at, staged.outbox);
    statement->bind(++at, micros(SystemClock().wall()));
    for (const std::string* text : {&staged.topic, &staged.ordering_key, &event.id, &event.source, &event.type,
                                    &event.subject, &event.time, &event.data_content_type, &event.data_schema, &lines})
        statement->bind_text(++at, *text);
    statement->bind_blob(++at, event.data);
    if (statement->run() != SQLITE_DONE) return failure_of(db, "stage " + event.id);
    return static_cast<std::int64_t>(sqlite3_last_insert_rowid(db));
}

}  // namespace semel::sqlite
