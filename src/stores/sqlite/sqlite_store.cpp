// The embedded store: one file, one owning process, one writer.
//
// A batch is one transaction: load every row, plan, write, COMMIT into the WAL; then, while the next batch has the
// writer's turn, a sync of the WAL (log_sync.hpp); then its answers. What a crash leaves:
//   before the sync is over  all or nothing of the batch (SQLite's WAL); nobody was answered
//   after it                 all of it; the restart's expire_owner makes open operations unknown (I5)
// A batch whose sync fails may or may not last: it is `indeterminate`, and the store refuses to go on
// until it is opened anew, since a second fsync proves nothing about the first. Opening writes the WAL again before
// anything is built on it, since the kernel's cache may hold what that fsync did not bring to the disk.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/bytes.hpp"
#include "ledger/keeping.hpp"
#include "ledger/open_records.hpp"
#include "ledger/plan.hpp"
#include "semel/sqlite.hpp"
#include "stores/sqlite/checkpointer.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/log_sync.hpp"
#include "stores/sqlite/schema.hpp"
#include "stores/sqlite/table.hpp"

namespace semel::sqlite {
namespace {

// ---- clock -----------------------------------------------------------------------------------------------------

std::int64_t clock_micros(clockid_t clock) {
    timespec at{};
    clock_gettime(clock, &at);
    return std::int64_t{at.tv_sec} * 1'000'000 + at.tv_nsec / 1'000;
}

/// Wall time when the store was opened, moved on by the boot clock: it counts suspended time and never jumps.
std::function<TimePoint()> boot_clock() {
    const std::int64_t offset = clock_micros(CLOCK_REALTIME) - clock_micros(CLOCK_BOOTTIME);
    return [offset] { return time_from_micros(clock_micros(CLOCK_BOOTTIME) + offset); };
}

// ---- ownership -------------------------------------------------------------------------------------------------

/// The kernel's lock on `<path>-owner`: held until the process ends, however it ends.
class Ownership {
public:
    static Result<Ownership> take(const std::string& path) {
        const std::string lock = path + "-owner";
        Ownership ownership;
        ownership.descriptor_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (ownership.descriptor_ < 0)
            return Failure{Code::invalid, fmt::format("open {}: {}; check the folder and its permissions (store)", lock,
                                                      std::strerror(errno))};
        if (flock(ownership.descriptor_, LOCK_EX | LOCK_NB) != 0) {
            char pid[32] = {};
            const ssize_t got = pread(ownership.descriptor_, pid, sizeof pid - 1, 0);
            return Failure{
                Code::unavailable,
                fmt::format("open sqlite:{}: process {} owns it; an embedded store has one owner at a time: stop that "
                            "process, or use PostgreSQL to share a store",
                            path, got > 0 ? std::string_view(pid) : "?")};
        }
        const std::string pid = std::to_string(getpid());
        if (ftruncate(ownership.descriptor_, 0) != 0 || pwrite(ownership.descriptor_, pid.data(), pid.size(), 0) < 0)
            return Failure{Code::unavailable, fmt::format("write {}: {}", lock, std::strerror(errno))};
        return ownership;
    }

    Ownership() = default;
    Ownership(Ownership&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Ownership& operator=(Ownership&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~Ownership() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }

private:
    int descriptor_ = -1;
};

// ---- opening ---------------------------------------------------------------------------------------------------

Result<Connection> connect(const Options& options, int flags) {
    sqlite3* raw = nullptr;
    const int result = sqlite3_open_v2(options.path.c_str(), &raw, flags | SQLITE_OPEN_NOMUTEX, nullptr);
    Connection connection(raw);
    if (result != SQLITE_OK) {
        Failure failure = failure_of(raw, "open");
        if ((result & 0xff) == SQLITE_CANTOPEN) failure = {Code::invalid, failure.message + "; check the path (store)"};
        return failure;
    }
    sqlite3_extended_result_codes(raw, 1);
    sqlite3_busy_timeout(raw, static_cast<int>(options.busy_timeout / std::chrono::milliseconds{1}));
    return connection;
}

Status set_pragma(sqlite3* connection, std::string_view pragma, std::string_view wanted) {
    auto statement = Statement::prepare(connection, fmt::format("pragma {}", pragma));
    if (!statement) return statement.failure();
    if (statement->step() != SQLITE_ROW) return failure_of(connection, pragma);
    if (statement->bytes(0) == wanted) return Done{};
    return Failure{Code::invalid,
                   fmt::format("pragma {} on sqlite:{} gave `{}` instead of `{}`: the file system may not support it "
                               "(store)",
                               pragma, sqlite3_db_filename(connection, "main"), statement->bytes(0), wanted)};
}

/// Writes the WAL over itself and syncs it. What an owner before us could not sync is still in the kernel's cache, marked
/// as clean: SQLite recovers it from there, and no later fsync would bring it to the disk. A loss of power would then
/// take it, and with it every commit behind it, acknowledged or not (I10).
Status rewrite_wal(sqlite3* connection) {
    // Nobody else writes to the WAL meanwhile: a caller's own connection may have it open.
    if (auto begun = run(connection, "begin immediate"); !begun) return begun;
    sqlite3_file* wal = nullptr;
    int result = sqlite3_file_control(connection, "main", SQLITE_FCNTL_JOURNAL_POINTER, &wal);
    if (result == SQLITE_OK && wal != nullptr && wal->pMethods != nullptr) {
        sqlite3_int64 size = 0;
        result = wal->pMethods->xFileSize(wal, &size);
        constexpr sqlite3_int64 block_bytes_max = 64 << 10;  // SQLite's VFS takes less than 128 KiB in one call
        std::string block;
        for (sqlite3_int64 at = 0; result == SQLITE_OK && at < size; at += static_cast<sqlite3_int64>(block.size())) {
            block.resize(static_cast<std::size_t>(std::min(size - at, block_bytes_max)));
            const int bytes = static_cast<int>(block.size());
            result = wal->pMethods->xRead(wal, block.data(), bytes, at);
            if (result == SQLITE_OK) result = wal->pMethods->xWrite(wal, block.data(), bytes, at);
        }
        if (result == SQLITE_OK && size > 0) result = wal->pMethods->xSync(wal, SQLITE_SYNC_NORMAL);
    }
    sqlite3_exec(connection, "rollback", nullptr, nullptr, nullptr);
    if (result == SQLITE_OK) return Done{};
    return Failure{Code::unavailable,
                   fmt::format("write the WAL of sqlite:{} again: {} ({})", sqlite3_db_filename(connection, "main"),
                               sqlite3_errstr(result), result)};
}

class SqliteStore;

class SqliteSession final : public Session {
public:
    explicit SqliteSession(SqliteStore& store) : store_(store) {}
    Result<Executed> execute(std::span<const Group> groups) override;

private:
    SqliteStore& store_;
};

class SqliteStore final : public Store {
public:
    explicit SqliteStore(Options options) : options_(std::move(options)) {
        if (!options_.clock) options_.clock = boot_clock();
    }

    Status open_owned();
    Status open_reading();

    Result<std::unique_ptr<Session>> session() override {
        if (!writer_) return only_reading("claim");
        return std::unique_ptr<Session>(std::make_unique<SqliteSession>(*this));
    }
    /// One for renewals, and two that take turns: one is executed while the other is synced.
    [[nodiscard]] std::size_t sessions_max() const override { return 3; }
    Result<std::optional<Record>> find(const OperationId& id) override;
    Result<Page> list(const Filter& filter, const std::string& cursor, std::size_t limit) override;
    Result<Swept> sweep(std::size_t limit, bool accept_clock) override;
    Result<TimePoint> now() override { return options_.clock(); }
    [[nodiscard]] std::string text() const override { return "sqlite:" + options_.path; }

    Result<Executed> execute(std::span<const Group> groups);

private:
    [[nodiscard]] Failure only_reading(std::string_view tried) const {
        return {Code::invalid, fmt::format("{} on {}: it was opened for reading only", tried, text())};
    }
    Status expire_earlier_owners();
    template <class Work>
    auto transaction(Work work) -> decltype(work());
    template <class Work, class Committed>
    auto synced_transaction(Work work, Committed committed) -> decltype(work());
    Result<OperationTable::Stored> load(const OperationId& id);
    std::optional<Failure> no_room();
    Result<std::optional<std::int64_t>> meta(const char* key);
    Status set_meta(const char* key, std::int64_t value);
    Result<TimePoint> least_progress();

    Options options_;
    Ownership ownership_;
    std::mutex reader_mutex_;
    Connection reader_;  // guarded by reader_mutex_
    OperationTable reader_table_;
    LogSync log_;  // has a lock of its own; outlives the writer, whose log it writes
    std::mutex writer_mutex_;
    Connection writer_;  // guarded by writer_mutex_, as are the following
    OperationTable table_;
    Statement begin_;
    Statement commit_;
    Statement due_;
    Epoch owner_;
    OpenRecords<std::int64_t> open_records_;  // by rowid
    std::int64_t version_ = 0;                // the file's, as of which they are remembered
    std::optional<Checkpointer> checkpointer_;
};

Result<Executed> SqliteSession::execute(std::span<const Group> groups) { return store_.execute(groups); }

Status SqliteStore::open_owned() {
    auto ownership = Ownership::take(options_.path);
    if (!ownership) return ownership.failure();
    ownership_ = std::move(*ownership);
    auto writer = connect(options_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
    if (!writer) return writer.failure();
    writer_ = std::move(*writer);
    sqlite3* db = writer_.get();
    if (auto set = set_pragma(db, "journal_mode=wal", "wal"); !set) return set;
    if (auto set = run(db, "pragma synchronous=full; pragma cache_size=-16384; pragma foreign_keys=off"); !set)
        return set;
    if (auto rewritten = rewrite_wal(db); !rewritten) return rewritten;
    if (options_.file_bytes_max > 0) {
        const std::string limit =
            fmt::format("pragma max_page_count={}", std::max<std::uint64_t>(options_.file_bytes_max / 4096, 16));
        if (auto set = run(db, limit.c_str()); !set) return set;
    }
    if (auto migrated = migrate_schema(db); !migrated) return migrated.failure();
    auto table = OperationTable::prepare(db);
    if (!table) return table.failure();
    table_ = std::move(*table);
    const std::string due = fmt::format(
        "select {} from semel_operation where state = ?1 and due <= ?2 and due is not null limit ?3", row_columns);
    struct Prepared {
        Statement& into;
        std::string_view sql;
    };
    const Prepared all[] = {{begin_, "begin immediate"}, {commit_, "commit"}, {due_, due}};
    for (const auto& [into, sql] : all) {
        auto statement = Statement::prepare(db, sql);
        if (!statement) return statement.failure();
        into = std::move(*statement);
    }
    if (auto expired = expire_earlier_owners(); !expired) return expired;
    // From here on a commit is synced after the writer's turn, by log_.
    if (auto attached = log_.attach(db); !attached) return attached;
    if (auto set = run(db, "pragma synchronous=normal"); !set) return set;
    auto checkpoints = connect(options_, SQLITE_OPEN_READWRITE);
    if (!checkpoints) return checkpoints.failure();
    if (auto set = run(checkpoints->get(), "pragma synchronous=full"); !set) return set;
    checkpointer_.emplace(writer_.get(), std::move(*checkpoints), writer_mutex_, log_);
    return open_reading();
}

Status SqliteStore::open_reading() {
    auto reader = connect(options_, SQLITE_OPEN_READONLY);
    if (!reader) return reader.failure();
    reader_ = std::move(*reader);
    const auto version = schema_of(reader_.get());
    if (!version) return version.failure();
    if (auto fits = check_schema(*version, options_.path.c_str()); !fits) return fits;
    auto table = OperationTable::prepare(reader_.get());
    if (!table) return table.failure();
    reader_table_ = std::move(*table);
    return Done{};
}

/// Runs `work` between BEGIN IMMEDIATE and COMMIT; rolls back if it fails. The writer's turn is the caller's.
template <class Work>
auto SqliteStore::transaction(Work work) -> decltype(work()) {
    sqlite3* db = writer_.get();
    if (log_.failed())
        return Failure{Code::unavailable,
                       fmt::format("{}: an earlier write could not be synced to the disk; restart the process to "
                                   "recover from the file",
                                   text())};
    if (begin_.run() != SQLITE_DONE) return failure_of(db, "begin");
    auto result = work();
    if (result && commit_.run() != SQLITE_DONE) {
        Failure failure = failure_of(db, "commit");
        if ((sqlite3_extended_errcode(db) & 0xff) == SQLITE_IOERR) {
            log_.fail();
            failure.code = Code::indeterminate;
        }
        result = std::move(failure);
    }
    if (!result) {
        if (sqlite3_get_autocommit(db) == 0) sqlite3_exec(db, "rollback", nullptr, nullptr, nullptr);
        log_.discard();
    }
    return result;
}

/// The same in a turn of its own, in which `committed` is called, too. What it wrote, and what it read of others, is on the
/// disk when it returns.
template <class Work, class Committed>
auto SqliteStore::synced_transaction(Work work, Committed committed) -> decltype(work()) {
    std::unique_lock turn(writer_mutex_);
    const sqlite3_int64 changes = sqlite3_total_changes64(writer_.get());
    auto result = transaction(std::move(work));
    if (!result) return result;
    const bool wrote = sqlite3_total_changes64(writer_.get()) != changes;
    const std::uint64_t commit = wrote ? log_.written() : log_.last();
    committed();
    turn.unlock();
    if (auto synced = log_.through(commit); !synced) return synced.failure();
    return result;
}

Status SqliteStore::expire_earlier_owners() {
    const std::lock_guard lock(writer_mutex_);
    return transaction([&]() -> Status {
        const auto epoch = meta("epoch");
        if (!epoch) return epoch.failure();
        const Epoch dead{static_cast<std::uint64_t>(epoch->value_or(0))};
        owner_.value = dead.value + 1;
        if (auto saved = set_meta("epoch", static_cast<std::int64_t>(owner_.value)); !saved) return saved;
        const TimePoint now = options_.clock();
        std::vector<std::pair<std::int64_t, Record>> found;
        due_.bind(1, static_cast<std::int64_t>(State::running));
        due_.bind(2, micros(never));
        due_.bind(3, -1);
        int result = due_.step();
        for (; result == SQLITE_ROW; result = due_.step()) {
            // What cannot be trusted stays as it is: every claim of it fails as corrupt.
            if (auto record = from_row(read_row(due_))) found.emplace_back(due_.integer(0), std::move(*record));
        }
        due_.reset();
        if (result != SQLITE_DONE) return failure_of(writer_.get(), "find the leases of the owner before");
        for (auto& [rowid, record] : found) {
            const Decision decision = expire_owner(std::move(record), dead, now);
            if (auto written = table_.update(rowid, *decision.next); !written) return written;
        }
        return Done{};
    });
}

// ---- batches ---------------------------------------------------------------------------------------------------

/// I9: new claims are refused while there is still room to settle the open ones.
std::optional<Failure> SqliteStore::no_room() {
    struct statvfs disk {};
    const std::string folder = std::filesystem::path(options_.path).parent_path().string();
    if (statvfs(folder.empty() ? "." : folder.c_str(), &disk) == 0) {
        const std::uint64_t left = std::uint64_t{disk.f_bavail} * disk.f_frsize;
        if (left < options_.reserve_bytes)
            return Failure{
                Code::exhausted,
                fmt::format("claim on {}: {} bytes free on the disk, {} are kept for settling open operations "
                            "(reserve_bytes); make room",
                            text(), left, options_.reserve_bytes)};
    }
    if (options_.file_bytes_max > 0) {
        auto pages = Statement::prepare(writer_.get(),
                                        "select p.page_count - f.freelist_count from pragma_page_count p, "
                                        "pragma_freelist_count f");
        if (pages && pages->step() == SQLITE_ROW) {
            const auto used = static_cast<std::uint64_t>(pages->integer(0)) * 4096;
            if (used > options_.file_bytes_max - options_.file_bytes_max / 8)
                return Failure{Code::exhausted,
                               fmt::format("claim on {}: {} of {} bytes used, the rest is kept for settling open "
                                           "operations (file_bytes_max)",
                                           text(), used, options_.file_bytes_max)};
        }
    }
    return std::nullopt;
}

/// What is stored under the id: as remembered, or read.
Result<OperationTable::Stored> SqliteStore::load(const OperationId& id) {
    auto open = open_records_.take(id);
    if (!open) return table_.load(id);
    return OperationTable::Stored{std::optional<Record>(std::move(open->record)), open->place};
}

Result<Executed> SqliteStore::execute(std::span<const Group> groups) {
    std::vector<std::int64_t> rowids;
    std::vector<Write> writes;
    const auto executed = [&]() -> Result<Executed> {
        const auto version = table_.data_version();
        if (!version) return version.failure();
        if (*version != std::exchange(version_, *version)) open_records_.forget();  // another connection has written
        std::vector<Found> found;
        for (const Group& group : groups) {
            for (std::size_t i = 0; i < group.commands.size(); ++i) {
                auto stored = load(group.id(i));
                if (!stored) return std::move(stored).failure();
                found.push_back(std::move(stored->found));
                rowids.push_back(stored->rowid);
            }
        }
        PlanInput input{options_.clock(), {}, owner_, std::nullopt};
        const bool grants = tokens_needed(groups) > 0;
        if (grants) {
            const auto token = table_.next_token();
            if (!token) return token.failure();
            input.first_token = *token;
            input.refuse_claims = no_room();
        }
        Plan planned = plan(groups, std::move(found), input);
        if (planned.tokens_used > 0) {
            if (auto saved = table_.save_next_token({input.first_token.value + planned.tokens_used}); !saved)
                return saved.failure();
        }
        writes = std::move(planned.writes);
        for (const Write& write : writes) {
            std::int64_t& rowid = rowids[write.command];
            const Status written = !write.next     ? table_.remove(rowid)
                                   : write.existed ? table_.update(rowid, *write.next)
                                                   : table_.insert(*write.next);
            if (!written) return written.failure();
            if (!write.existed) rowid = sqlite3_last_insert_rowid(writer_.get());
        }
        return Executed{input.now, std::move(planned.answers)};
    };
    std::chrono::steady_clock::time_point written;
    auto result = synced_transaction(executed, [&] {
        for (Write& write : writes)
            if (write.next) open_records_.keep(rowids[write.command], std::move(*write.next));
        written = std::chrono::steady_clock::now();
    });
    if (result) result->waited = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - written);
    return result;
}

// ---- reading and keeping ---------------------------------------------------------------------------------------

Result<std::optional<Record>> SqliteStore::find(const OperationId& id) {
    const std::lock_guard lock(reader_mutex_);
    auto stored = reader_table_.load(id);
    if (!stored) return stored.failure();
    if (auto* failure = std::get_if<Failure>(&stored->found)) return std::move(*failure);
    if (auto lasts = log_.all(); !lasts) return lasts.failure();  // I10
    return std::get<std::optional<Record>>(std::move(stored->found));
}

Result<Page> SqliteStore::list(const Filter& filter, const std::string& cursor, std::size_t limit) {
    const std::lock_guard lock(reader_mutex_);
    const std::string sql = fmt::format("select {} from semel_operation where op > ?1 {} order by op", row_columns,
                                        filter.state ? "and state = ?2" : "");
    auto statement = Statement::prepare(reader_.get(), sql);
    if (!statement) return statement.failure();
    const auto after = from_hex(cursor);
    if (!after) return Failure{Code::invalid, fmt::format("list: `{}` is not a cursor of this store", cursor)};
    statement->bind_blob(1, *after);
    if (filter.state) statement->bind(2, static_cast<std::int64_t>(*filter.state));
    Page page;
    const TimePoint now = options_.clock();
    int result = statement->step();
    for (; result == SQLITE_ROW; result = statement->step()) {
        auto record = from_row(read_row(*statement));
        if (!record) {
            ++page.corrupt;
            continue;
        }
        if (!matches(filter, *record, now)) continue;
        if (page.records.size() == limit) {
            page.next = to_hex(page.records.back().id.bytes);
            result = SQLITE_DONE;
            break;
        }
        page.records.push_back(std::move(*record));
    }
    if (result != SQLITE_DONE) return failure_of(reader_.get(), "list operations");
    if (auto lasts = log_.all(); !lasts) return lasts.failure();  // I10
    return page;
}

Result<std::optional<std::int64_t>> SqliteStore::meta(const char* key) {
    auto statement = Statement::prepare(writer_.get(), "select value from semel_meta where name = ?1");
    if (!statement) return statement.failure();
    statement->bind_text(1, key);
    const int result = statement->step();
    if (result == SQLITE_DONE) return std::optional<std::int64_t>{};
    if (result != SQLITE_ROW) return failure_of(writer_.get(), "read semel_meta");
    return std::optional<std::int64_t>(statement->integer(0));
}

Status SqliteStore::set_meta(const char* key, std::int64_t value) {
    auto statement = Statement::prepare(writer_.get(),
                                        "insert into semel_meta (name, value) values (?1, ?2) "
                                        "on conflict (name) do update set value = excluded.value");
    if (!statement) return statement.failure();
    statement->bind_text(1, key);
    statement->bind(2, value);
    if (statement->step() != SQLITE_DONE) return failure_of(writer_.get(), "write semel_meta");
    return Done{};
}

/// Whatever was settled earlier can no longer be delivered again to a consumer.
Result<TimePoint> SqliteStore::least_progress() {
    auto statement = Statement::prepare(writer_.get(), "select min(progress) from semel_consumer_member");
    if (!statement) return statement.failure();
    if (statement->step() != SQLITE_ROW) return failure_of(writer_.get(), "read the consumers' progress");
    return statement->is_null(0) ? never : time_from_micros(statement->integer(0));
}

Result<Swept> SqliteStore::sweep(std::size_t limit, bool accept_clock) {
    if (!writer_) return only_reading("sweep");
    const auto drop_what_is_due = [&]() -> Result<Swept> {
        const TimePoint now = options_.clock();
        const auto last = meta("swept_at");
        if (!last) return last.failure();
        std::optional<TimePoint> last_sweep;
        if (*last) last_sweep = time_from_micros(**last);
        if (auto trusted = check_sweep_clock(last_sweep, now, accept_clock); !trusted) return trusted.failure();
        if (auto saved = set_meta("swept_at", micros(now)); !saved) return saved.failure();

        const auto progress = least_progress();
        if (!progress) return progress.failure();
        Swept swept;
        std::vector<std::pair<std::int64_t, Record>> found;
        due_.bind(1, static_cast<std::int64_t>(State::settled));
        due_.bind(2, micros(now));
        due_.bind(3, static_cast<std::int64_t>(limit) + 1);
        int result = due_.step();
        for (; result == SQLITE_ROW; result = due_.step()) {
            if (found.size() == limit) {
                swept.more = true;
                result = SQLITE_DONE;
                break;
            }
            // What cannot be trusted is kept for a person to look at.
            if (auto record = from_row(read_row(due_))) found.emplace_back(due_.integer(0), std::move(*record));
        }
        due_.reset();
        if (result != SQLITE_DONE) return failure_of(writer_.get(), "find what to sweep");
        for (auto& [rowid, record] : found) {
            const Decision decision = semel::sweep(std::move(record), now, *progress);
            if (!decision.changed) continue;
            ++(decision.next ? swept.bodies_dropped : swept.removed);
            // A row that shrinks keeps its place among the large ones, and the page its size. A tombstone is put at the end
            // instead, among its like, and the pages that the answers filled become free.
            if (auto removed = table_.remove(rowid); !removed) return removed.failure();
            if (!decision.next) continue;
            if (auto written = table_.insert(*decision.next); !written) return written.failure();
        }
        return swept;
    };
    return synced_transaction(drop_what_is_due, [] {});
}

}  // namespace

Result<std::unique_ptr<Store>> open(Options options) {
    if (options.path.empty() || options.path == ":memory:")
        return Failure{
            Code::invalid,
            fmt::format("open sqlite:{}: a store needs a file name, such as sqlite:semel.db (store)", options.path)};
    const Access access = options.access;
    auto store = std::make_unique<SqliteStore>(std::move(options));
    const Status opened = access == Access::own ? store->open_owned() : store->open_reading();
    if (!opened) return opened.failure();
    return std::unique_ptr<Store>(std::move(store));
}

Result<int> migrate(sqlite3* connection) { return migrate_schema(connection); }

}  // namespace semel::sqlite
