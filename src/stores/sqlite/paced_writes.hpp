// Brings the pages that are moved into the database file to the disk a few at a time.
//
// Left alone, they gather in the kernel's cache until the move ends with one sync, and go to the disk all at once: hundreds
// of writes, behind which the sync of the next commit waits. Here every few of them are synced by themselves, so that a
// commit waits behind a few at most. Whoever moves pages may sync them early: they were synced in the log before (SQLite
// does so first).
//
//   a sync fails   pages that counted as moved may not be on the disk, and no later sync will tell: SQLite syncs only the move
//                  that reaches the end of the log. So nothing more is written or synced from then on (`failed`), the log is
//                  not begun anew, and whoever opens the file next moves all of it again
#pragma once

#include <sqlite3.h>

namespace semel::sqlite {

/// Stands in for the methods of one open database file, whose connection must be closed before this is destroyed. Used by
/// the thread that uses the connection.
class PacedWrites : private sqlite3_io_methods {
public:
    static constexpr int writes_max = 16;  ///< on their way to the disk at once

    PacedWrites() : sqlite3_io_methods{} {}
    PacedWrites(const PacedWrites&) = delete;
    PacedWrites& operator=(const PacedWrites&) = delete;

    /// From here on the file's writes come by here.
    void attach(sqlite3_file* file);
    /// Without it writes are left to the sync at the end: for few, while others wait.
    void pace(bool on) { paced_ = on; }
    [[nodiscard]] bool failed() const { return failed_ != SQLITE_OK; }

private:
    static PacedWrites& of(sqlite3_file* file);
    int write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at);
    int sync(sqlite3_file* file, int flags);

    const sqlite3_io_methods* real_ = nullptr;
    bool paced_ = false;
    int written_ = 0;  // since the last sync of ours
    int failed_ = SQLITE_OK;
};

}  // namespace semel::sqlite
