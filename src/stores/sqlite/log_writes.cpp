#include "stores/sqlite/log_writes.hpp"

#include <algorithm>

namespace semel::sqlite {
namespace {

constexpr int frame_head_bytes = 24;
constexpr std::size_t gathered_max = 1U << 20;
constexpr std::size_t page_bytes_max = 64U << 10;
constexpr std::size_t write_max = 64U << 10;  // SQLite's own VFS takes less than 128 KiB in one call

/// In a frame's head the database's size after the commit follows the page's number; 0 in all others (SQLite's file format).
bool has_commit_mark(const char* head) {
    return std::any_of(head + 4, head + 8, [](char byte) { return byte != 0; });
}

}  // namespace

LogWrites& LogWrites::of(sqlite3_file* log) {
    // SQLite sees the methods as const; this object, which begins with them, is not.
    const auto& self = static_cast<const LogWrites&>(*log->pMethods);  // NOLINT(*-static-cast-downcast)
    return const_cast<LogWrites&>(self);                               // NOLINT(*-const-cast)
}

LogWrites::LogWrites() : sqlite3_io_methods{} {
    iVersion = 1;
    xClose = [](sqlite3_file* log) {
        log->pMethods = of(log).real_;  // what is gathered was not committed
        return log->pMethods->xClose(log);
    };
    xRead = [](sqlite3_file* log, void* into, int count, sqlite3_int64 at) {
        LogWrites& self = of(log);
        const int flushed = at + count > self.start_ ? self.flush(log) : SQLITE_OK;
        return flushed != SQLITE_OK ? flushed : self.real_->xRead(log, into, count, at);
    };
    xWrite = [](sqlite3_file* log, const void* bytes, int count, sqlite3_int64 at) {
        return of(log).write(log, static_cast<const char*>(bytes), count, at);
    };
    xTruncate = [](sqlite3_file* log, sqlite3_int64 size) {
        const int flushed = of(log).flush(log);
        return flushed != SQLITE_OK ? flushed : of(log).real_->xTruncate(log, size);
    };
    xSync = [](sqlite3_file* log, int flags) {
        const int flushed = of(log).flush(log);
        return flushed != SQLITE_OK ? flushed : of(log).real_->xSync(log, flags);
    };
    xFileSize = [](sqlite3_file* log, sqlite3_int64* size) {
        const int flushed = of(log).flush(log);
        return flushed != SQLITE_OK ? flushed : of(log).real_->xFileSize(log, size);
    };
    xLock = [](sqlite3_file* log, int lock) { return of(log).real_->xLock(log, lock); };
    xUnlock = [](sqlite3_file* log, int lock) { return of(log).real_->xUnlock(log, lock); };
    xCheckReservedLock = [](sqlite3_file* log, int* held) { return of(log).real_->xCheckReservedLock(log, held); };
    xFileControl = [](sqlite3_file* log, int what, void* with) { return of(log).real_->xFileControl(log, what, with); };
    xSectorSize = [](sqlite3_file* log) { return of(log).real_->xSectorSize(log); };
    xDeviceCharacteristics = [](sqlite3_file* log) { return of(log).real_->xDeviceCharacteristics(log); };
}

void LogWrites::attach(sqlite3_file* log) {
    gathered_.reserve(gathered_max + page_bytes_max);  // none is asked for inside of SQLite's calls
    real_ = log->pMethods;
    log->pMethods = this;
}

void LogWrites::discard() {
    gathered_.clear();
    committing_ = false;
    lost_ = SQLITE_OK;
}

int LogWrites::write(sqlite3_file* log, const char* bytes, int count, sqlite3_int64 at) {
    const bool appended = at == end();
    if (!appended || gathered_.size() >= gathered_max)
        if (const int flushed = flush(log); flushed != SQLITE_OK) return flushed;
    const bool completes = committing_ && count != frame_head_bytes;
    committing_ = count == frame_head_bytes && has_commit_mark(bytes);
    if (!appended) {
        start_ = at + count;
        return real_->xWrite(log, bytes, count, at);
    }
    gathered_.append(bytes, static_cast<std::size_t>(count));
    return completes ? flush(log) : SQLITE_OK;
}

/// Brings what is gathered into the file.
int LogWrites::flush(sqlite3_file* log) {
    if (lost_ != SQLITE_OK) return lost_;
    for (std::size_t done = 0; done < gathered_.size();) {
        const std::size_t count = std::min(gathered_.size() - done, write_max);
        const sqlite3_int64 at = start_ + static_cast<sqlite3_int64>(done);
        lost_ = real_->xWrite(log, gathered_.data() + done, static_cast<int>(count), at);
        if (lost_ != SQLITE_OK) return lost_;
        done += count;
    }
    start_ = end();
    gathered_.clear();
    return SQLITE_OK;
}

}  // namespace semel::sqlite
