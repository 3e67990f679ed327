// Writes what a transaction appends to the write-ahead log at once.
//
// SQLite brings every page to the log with two calls, one for its frame's head and one for the page, and for a batch of
// many pages these calls are most of what a commit costs. Here the calls that follow each other are gathered, up to the one
// that completes the frame with the commit mark, and go to the disk as one write. That is early enough for everybody:
//
//   gathered, not written   readers look no further than the frame that the shared index names, and the index is moved on
//                           after the frame that commits; a crash loses a transaction that was not committed
//   the write fails         whoever brought the commit mark is told so, as if its own write had failed, and rolls back.
//                           Until the next transaction nothing more is written, and nothing read where it should have
//                           been: none is committed with a hole in it
//
// Only what is appended is gathered. What SQLite changes in its place goes to the file at once: the heads of frames that
// it sums anew at the end of a commit have nothing behind them that would bring them there.
#pragma once

#include <sqlite3.h>

#include <string>

namespace semel::sqlite {

/// Stands in for the methods of one open log, whose connection must be closed before this is destroyed.
class LogWrites : private sqlite3_io_methods {
public:
    LogWrites();
    LogWrites(const LogWrites&) = delete;
    LogWrites& operator=(const LogWrites&) = delete;

    /// From here on the log's writes come by here; it must be in WAL mode, with no transaction open.
    void attach(sqlite3_file* log);
    /// No transaction is open: what the last one has left, by rolling back or failing, is not wanted any more. Said before
    /// anybody else writes, whose frames it would be written over.
    void discard();
    /// Syncs what was written, not what is gathered: also while another thread writes.
    int sync(sqlite3_file* log) const { return real_->xSync(log, SQLITE_SYNC_NORMAL); }

private:
    static LogWrites& of(sqlite3_file* log);
    int write(sqlite3_file* log, const char* bytes, int count, sqlite3_int64 at);
    int flush(sqlite3_file* log);
    [[nodiscard]] sqlite3_int64 end() const { return start_ + static_cast<sqlite3_int64>(gathered_.size()); }

    const sqlite3_io_methods* real_ = nullptr;
    std::string gathered_;
    sqlite3_int64 start_ = 0;  // where in the log `gathered_` belongs
    bool committing_ = false;  // the head that came last has the commit mark
    int lost_ = SQLITE_OK;     // why what belongs at start_ could not be written
};

}  // namespace semel::sqlite
