// Brings commits to the disk outside of the writers' turn.
//
// A commit is written to the write-ahead log while its writer has the turn, and synced after the turn has been passed on, so
// that the next batch is executed while the disk is busy with this one. Nobody is told anything of a commit before it, and
// with it every commit it may have read from, is synced (I10). One sync covers all that was written before it began:
//
//   written, not synced   a crash of the process loses nothing; a loss of power loses it and what was built on it,
//                         wholly (SQLite recovers the log up to the last whole commit), and nobody was told of either
//   synced                it lasts
//   the sync failed       what is on the disk is not known, and no later sync can tell: nothing is told any more (`failed`)
//
// SQLite itself (synchronous=normal) syncs the log before it moves anything of it into the file, and its head whenever it
// begins anew, so that what is in the file never depends on what was not synced.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "stores/sqlite/database.hpp"
#include "stores/sqlite/log_writes.hpp"

namespace semel::sqlite {

/// Thread safe.
class LogSync {
public:
    /// Takes the log of this connection, which must be in WAL mode; its first sync has been made. The connection is closed
    /// before this is destroyed.
    Status attach(sqlite3* writer);
    /// No transaction is open on that connection: whatever the last one has left is not written.
    void discard();

    /// A commit was written; said by who has the writers' turn. What is told of it waits for `through` its number.
    std::uint64_t written();
    /// The last commit written; asked by who has the writers' turn: what it has read is in it or before it.
    [[nodiscard]] std::uint64_t last() const;
    /// Returns when the commits up to this one are on the disk. `indeterminate`: they may be, and that will not be known.
    Status through(std::uint64_t commit);
    /// For who reads without the turn, and may have seen a commit that is not counted yet: everything seen so far is on the
    /// disk when it returns. At once where no log was attached.
    Status all();
    /// A write or a sync has failed: nothing more is to be built on what is there.
    void fail();
    [[nodiscard]] bool failed() const;

private:
    void sync(std::unique_lock<std::mutex>& lock);
    [[nodiscard]] static Failure disk_failed();

    sqlite3_file* log_ = nullptr;
    LogWrites writes_;  // of who has the writers' turn
    mutable std::mutex mutex_;
    std::condition_variable over_;
    std::uint64_t written_ = 0;  // guarded by mutex_, as are the following
    std::uint64_t synced_ = 0;
    bool syncing_ = false;
    bool failed_ = false;
};

}  // namespace semel::sqlite
