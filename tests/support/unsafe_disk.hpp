// A disk that can lose its power: a SQLite VFS over the real one that knows what was synced and what was only written.
//
// While it lives it is SQLite's default VFS. Of every database, journal and WAL opened through it, and of the folder's
// entries, it keeps the durable state beside the changes made since the last sync. When the power goes every call
// fails; when it comes back the real files hold what a disk may hold: all that was synced, and of the rest nothing,
// everything, or any part of it, torn at sectors, with later writes kept and earlier ones lost.
//
// What it takes for granted, as SQLite does: bytes that nobody wrote do not change (powersafe overwrite), and shared
// memory does not survive. What it does not take for granted: that syncing a file keeps the file's name. SQLite syncs
// the folder with the first sync of a new journal or WAL, and with a delete that asks for it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace semel::test {

/// What the disk says it did and did not do.
enum class Lie { none, every_sync, wal_sync, folder_sync };

/// Thread safe. One at a time; must outlive every connection opened while it lives.
class UnsafeDisk {
public:
    enum class File { database, journal, wal };
    enum class Call { write, sync };

    /// The same seed and the same calls leave the same files.
    explicit UnsafeDisk(std::uint64_t seed, Lie lie = Lie::none);
    ~UnsafeDisk();
    UnsafeDisk(const UnsafeDisk&) = delete;
    UnsafeDisk& operator=(const UnsafeDisk&) = delete;

    /// The power goes during the call after the next `calls` that change something: a write under way may have been
    /// done in part, a sync under way promises nothing.
    void lose_power_after(std::uint64_t calls);
    /// The same, counting only syncs: the power goes when everything was written.
    void lose_power_after_syncs(std::uint64_t syncs);
    void lose_power();
    [[nodiscard]] bool has_power() const;
    /// Leaves the real files as the disk has them, and works again. Everything must be closed.
    void restore_power();

    /// The process is killed instead: every call fails until it is started again, and the files are as the kernel's
    /// cache has them, synced or not. Everything must be closed before the restart.
    void kill_process();
    void restart_process();

    /// The call after the next `after` of its kind fails once. A write that fails may have been done in part. After a
    /// failed sync what was not on the disk by then is only in the cache, as clean: no later sync brings it there.
    struct Fault {
        File file = File::wal;
        Call call = Call::sync;
        int code = 0;  ///< of SQLite
        std::uint64_t after = 0;
    };
    void fail_once(Fault fault);
    /// Whether the fault asked for has been met.
    [[nodiscard]] bool failed() const;
    /// Forgets the loss and the fault that were asked for and have not come.
    void behave();

    struct Figures {
        std::uint64_t calls = 0;                 ///< that change something
        std::uint64_t losses = 0;                ///< of power
        std::uint64_t losses_in_commit = 0;      ///< with unsynced writes in a WAL
        std::uint64_t losses_in_checkpoint = 0;  ///< with unsynced writes in a database
        std::uint64_t writes_lost = 0;           ///< wholly or in part
        std::uint64_t writes_kept = 0;           ///< though never synced
    };
    [[nodiscard]] Figures figures() const;

    class Vfs;

private:
    std::unique_ptr<Vfs> vfs_;
};

}  // namespace semel::test
