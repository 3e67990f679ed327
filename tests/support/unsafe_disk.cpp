#include "support/unsafe_disk.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/random.hpp"

namespace semel::test {
namespace {

/// A write at `offset`, or a truncation to it.
struct Change {
    std::uint64_t offset = 0;
    std::string bytes{};
    bool truncates = false;
};

/// A file's content apart from its names.
struct Inode {
    std::string durable{};
    std::vector<Change> pending{};  // since the last sync, in order
};
using InodePtr = std::shared_ptr<Inode>;
using Folder = std::map<std::string, InodePtr>;

/// One entry made or removed (null) since the folder was synced.
struct Renaming {
    std::string name{};
    InodePtr to{};
};

void apply(std::string& content, std::uint64_t offset, std::string_view bytes) {
    if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size(), '\0');
    content.replace(offset, bytes.size(), bytes);
}

void apply(std::string& content, const Change& change) {
    if (change.truncates)
        content.resize(change.offset, '\0');
    else
        apply(content, change.offset, change.bytes);
}

std::string read_all(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

UnsafeDisk::File kind_of(int flags) {
    if ((flags & SQLITE_OPEN_WAL) != 0) return UnsafeDisk::File::wal;
    return (flags & SQLITE_OPEN_MAIN_DB) != 0 ? UnsafeDisk::File::database : UnsafeDisk::File::journal;
}

}  // namespace

class UnsafeDisk::Vfs {
public:
    Vfs(std::uint64_t seed, Lie lie);
    ~Vfs();
    Vfs(const Vfs&) = delete;
    Vfs& operator=(const Vfs&) = delete;

    /// SQLite's handle of a file; the real VFS's handle lies behind it in the same memory.
    struct Handle {
        sqlite3_file base{};
        Vfs* vfs = nullptr;
        InodePtr inode{};
        File kind = File::database;
        bool sync_folder = false;  // with the next sync of the file
        sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
    };

    int open(const char* name, sqlite3_file* file, int flags, int* flags_out);
    int remove(const char* name, bool sync_folder);
    int write(Handle& handle, std::string_view bytes, std::uint64_t offset);
    int truncate(Handle& handle, std::uint64_t size);
    int sync(Handle& handle);
    int close(Handle& handle);

    void cut(std::uint64_t calls, bool only_syncs);
    void cut_now();
    void restore();
    void kill();
    void restart();
    bool powered() const;
    void fail_once(Fault fault);
    bool failed() const;
    void behave();
    Figures figures() const;

    sqlite3_vfs* real;
    sqlite3_vfs base{};

private:
    bool spend_call(bool is_sync = false);
    std::optional<int> fault(const Handle& handle, Call call);
    void go_dark();
    void sync_folder();
    std::string surviving(const Inode& inode);
    Folder surviving_names();

    mutable std::mutex mutex_;  // guards all that follows
    SeededRandom random_;
    const Lie lie_;
    Folder names_;
    Folder names_durable_;
    std::vector<Renaming> renamings_;
    std::set<std::string> databases_;
    std::optional<std::uint64_t> calls_left_;
    bool only_syncs_ = false;  // count as such
    bool powered_ = true;
    std::optional<Fault> fault_;
    int open_ = 0;
    Figures figures_;
};

namespace {

using Handle = UnsafeDisk::Vfs::Handle;

Handle& handle_of(sqlite3_file* file) { return *reinterpret_cast<Handle*>(file); }
UnsafeDisk::Vfs& vfs_of(sqlite3_vfs* vfs) { return *static_cast<UnsafeDisk::Vfs*>(vfs->pAppData); }

/// Hands a call to the real file, unless the power is off.
template <class Forward>
int forward(sqlite3_file* file, int failure, Forward call) {
    Handle& handle = handle_of(file);
    if (!handle.vfs->powered()) return failure;
    return call(handle.real());
}

const sqlite3_io_methods file_methods = {
    .iVersion = 2,  // shared memory, but no memory mapping: every read and write comes by here
    .xClose = [](sqlite3_file* f) { return handle_of(f).vfs->close(handle_of(f)); },
    .xRead =
        [](sqlite3_file* f, void* into, int count, sqlite3_int64 at) {
            return forward(f, SQLITE_IOERR_READ,
                           [&](sqlite3_file* r) { return r->pMethods->xRead(r, into, count, at); });
        },
    .xWrite =
        [](sqlite3_file* f, const void* from, int count, sqlite3_int64 at) {
            const std::string_view bytes(static_cast<const char*>(from), static_cast<std::size_t>(count));
            return handle_of(f).vfs->write(handle_of(f), bytes, static_cast<std::uint64_t>(at));
        },
    .xTruncate =
        [](sqlite3_file* f, sqlite3_int64 size) {
            return handle_of(f).vfs->truncate(handle_of(f), static_cast<std::uint64_t>(size));
        },
    .xSync = [](sqlite3_file* f, int) { return handle_of(f).vfs->sync(handle_of(f)); },
    .xFileSize =
        [](sqlite3_file* f, sqlite3_int64* size) {
            return forward(f, SQLITE_IOERR_FSTAT, [&](sqlite3_file* r) { return r->pMethods->xFileSize(r, size); });
        },
    // Locks and shared memory are of the living: they go on working, so that everything can be closed.
    .xLock =
        [](sqlite3_file* f, int level) {
            sqlite3_file* r = handle_of(f).real();
            return r->pMethods->xLock(r, level);
        },
    .xUnlock =
        [](sqlite3_file* f, int level) {
            sqlite3_file* r = handle_of(f).real();
            return r->pMethods->xUnlock(r, level);
        },
    .xCheckReservedLock =
        [](sqlite3_file* f, int* held) {
            sqlite3_file* r = handle_of(f).real();
            return r->pMethods->xCheckReservedLock(r, held);
        },
    .xFileControl =
        [](sqlite3_file* f, int what, void* argument) {
            sqlite3_file* r = handle_of(f).real();
            return r->pMethods->xFileControl(r, what, argument);
        },
    .xSectorSize = [](sqlite3_file*) { return 4096; },
    .xDeviceCharacteristics = [](sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; },
    .xShmMap =
        [](sqlite3_file* f, int region, int size, int extend, void volatile** at) {
            sqlite3_file* r = handle_of(f).real();
            return r->pMethods->xShmMap(r, region, size, extend, at);
        },
    .xShmLock =
        [](sqlite3_file* f, int offset, int count, int flags) {
            sqlite3_file* r = handle_of(f).real();
            return r->pMethods->xShmLock(r, offset, count, flags);
        },
    .xShmBarrier =
        [](sqlite3_file* f) {
            sqlite3_file* r = handle_of(f).real();
            r->pMethods->xShmBarrier(r);
        },
    .xShmUnmap =
        [](sqlite3_file* f, int remove) {
            sqlite3_file* r = handle_of(f).real();
            return r->pMethods->xShmUnmap(r, remove);
        },
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

}  // namespace

// ---- what SQLite calls -----------------------------------------------------------------------------------------

UnsafeDisk::Vfs::Vfs(std::uint64_t seed, Lie lie) : real(sqlite3_vfs_find(nullptr)), random_(seed), lie_(lie) {
    // What is not replaced (names, time, randomness) needs nothing of the real VFS but its function.
    base = *real;
    base.zName = "semel-unsafe-disk";
    base.pNext = nullptr;
    base.pAppData = this;
    base.szOsFile = static_cast<int>(sizeof(Handle)) + real->szOsFile;
    base.xOpen = [](sqlite3_vfs* v, const char* name, sqlite3_file* file, int flags, int* flags_out) {
        return vfs_of(v).open(name, file, flags, flags_out);
    };
    base.xDelete = [](sqlite3_vfs* v, const char* name, int sync) { return vfs_of(v).remove(name, sync != 0); };
    base.xAccess = [](sqlite3_vfs* v, const char* name, int flags, int* answer) {
        if (!vfs_of(v).powered()) return SQLITE_IOERR_ACCESS;
        return vfs_of(v).real->xAccess(vfs_of(v).real, name, flags, answer);
    };
    SEMEL_ASSERT(sqlite3_vfs_register(&base, 1) == SQLITE_OK, "a VFS can be registered");
}

UnsafeDisk::Vfs::~Vfs() {
    SEMEL_ASSERT(open_ == 0, "a disk outlives the connections to its files");
    sqlite3_vfs_unregister(&base);
    sqlite3_vfs_register(real, 1);
}

int UnsafeDisk::Vfs::open(const char* name, sqlite3_file* file, int flags, int* flags_out) {
    constexpr int followed = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
    if (name == nullptr || (flags & followed) == 0) return real->xOpen(real, name, file, flags, flags_out);
    const std::lock_guard lock(mutex_);
    file->pMethods = nullptr;
    if (!powered_) return SQLITE_CANTOPEN;
    const bool creates = !std::filesystem::exists(name);
    auto* handle = new (file) Handle;
    const int result = real->xOpen(real, name, handle->real(), flags, flags_out);
    if (result != SQLITE_OK) {
        handle->~Handle();
        file->pMethods = nullptr;
        return result;
    }
    InodePtr& inode = names_[name];
    if (!inode) {
        inode = std::make_shared<Inode>();
        if (creates) {
            renamings_.push_back({name, inode});
            spend_call();
        } else {
            inode->durable = read_all(name);
            names_durable_[name] = inode;
        }
    }
    handle->base.pMethods = &file_methods;
    handle->vfs = this;
    handle->inode = inode;
    handle->kind = kind_of(flags);
    handle->sync_folder = (flags & SQLITE_OPEN_CREATE) != 0 && handle->kind != File::database;
    if (handle->kind == File::database) databases_.insert(name);
    ++open_;
    return SQLITE_OK;
}

int UnsafeDisk::Vfs::close(Handle& handle) {
    const std::lock_guard lock(mutex_);
    sqlite3_file* file = handle.real();
    const int result = file->pMethods->xClose(file);
    handle.~Handle();
    --open_;
    return result;
}

int UnsafeDisk::Vfs::remove(const char* name, bool sync) {
    const std::lock_guard lock(mutex_);
    if (!powered_) return SQLITE_IOERR_DELETE;
    if (names_.erase(name) > 0) renamings_.push_back({name, nullptr});
    if (!spend_call()) return SQLITE_IOERR_DELETE;
    if (sync) sync_folder();
    return real->xDelete(real, name, 0);
}

int UnsafeDisk::Vfs::write(Handle& handle, std::string_view bytes, std::uint64_t offset) {
    const std::lock_guard lock(mutex_);
    if (!powered_) return SQLITE_IOERR_WRITE;
    const std::optional<int> broken = fault(handle, Call::write);
    if (broken) bytes = bytes.substr(0, random_.below(bytes.size()));
    if (!bytes.empty()) {
        handle.inode->pending.push_back({offset, std::string(bytes), false});
        if (!spend_call()) return SQLITE_IOERR_WRITE;
        sqlite3_file* file = handle.real();
        const int result = file->pMethods->xWrite(file, bytes.data(), static_cast<int>(bytes.size()),
                                                  static_cast<sqlite3_int64>(offset));
        if (result != SQLITE_OK) return result;
    }
    return broken.value_or(SQLITE_OK);
}

int UnsafeDisk::Vfs::truncate(Handle& handle, std::uint64_t size) {
    const std::lock_guard lock(mutex_);
    if (!powered_) return SQLITE_IOERR_TRUNCATE;
    handle.inode->pending.push_back({size, {}, true});
    if (!spend_call()) return SQLITE_IOERR_TRUNCATE;
    sqlite3_file* file = handle.real();
    return file->pMethods->xTruncate(file, static_cast<sqlite3_int64>(size));
}

int UnsafeDisk::Vfs::sync(Handle& handle) {
    const std::lock_guard lock(mutex_);
    if (!powered_) return SQLITE_IOERR_FSYNC;
    Inode& inode = *handle.inode;
    if (const auto broken = fault(handle, Call::sync)) {
        inode.durable = surviving(inode);
        inode.pending.clear();
        return *broken;
    }
    if (!spend_call(true)) return SQLITE_IOERR_FSYNC;
    if (lie_ == Lie::every_sync || (lie_ == Lie::wal_sync && handle.kind == File::wal)) return SQLITE_OK;
    for (const Change& change : inode.pending) apply(inode.durable, change);
    inode.pending.clear();
    if (std::exchange(handle.sync_folder, false)) sync_folder();
    return SQLITE_OK;
}

void UnsafeDisk::Vfs::sync_folder() {
    if (lie_ == Lie::every_sync || lie_ == Lie::folder_sync) return;
    names_durable_ = names_;
    renamings_.clear();
}

// ---- what goes wrong -------------------------------------------------------------------------------------------

/// False: the power went during this call.
bool UnsafeDisk::Vfs::spend_call(bool is_sync) {
    ++figures_.calls;
    if (!calls_left_ || (only_syncs_ && !is_sync)) return true;
    if (*calls_left_ > 0) {
        --*calls_left_;
        return true;
    }
    go_dark();
    return false;
}

void UnsafeDisk::Vfs::go_dark() {
    powered_ = false;
    calls_left_.reset();
    ++figures_.losses;
    const auto unsynced = [&](bool database) {
        return std::ranges::any_of(names_, [&](const auto& entry) {
            return databases_.contains(entry.first) == database && !entry.second->pending.empty();
        });
    };
    figures_.losses_in_checkpoint += unsynced(true) ? 1 : 0;
    figures_.losses_in_commit += unsynced(false) ? 1 : 0;
}

std::optional<int> UnsafeDisk::Vfs::fault(const Handle& handle, Call call) {
    if (!fault_ || fault_->file != handle.kind || fault_->call != call) return std::nullopt;
    if (fault_->after > 0) {
        --fault_->after;
        return std::nullopt;
    }
    const int code = fault_->code;
    fault_.reset();
    return code;
}

/// The content a disk may hold: what was synced, and some of what was not.
std::string UnsafeDisk::Vfs::surviving(const Inode& inode) {
    enum Style : std::uint64_t { nothing, everything, beginning, some_writes, some_sectors, styles };
    const std::uint64_t style = random_.below(styles);
    const std::uint64_t sector = random_.below(2) == 0 ? 512 : 4096;
    // The size of a file is kept apart from its bytes: it may have grown over what never came.
    const bool grown = random_.below(4) == 0;
    const char never_came = random_.below(2) == 0 ? '\0' : '\x5a';
    const std::size_t first = random_.below(inode.pending.size() + 1);

    std::string content = inode.durable;
    for (std::size_t i = 0; i < inode.pending.size(); ++i) {
        const Change& change = inode.pending[i];
        // By whole writes, or by the sectors of a write that the power may have cut.
        const bool cut = style == some_sectors || (style == beginning && i == first);
        const bool whole =
            style == everything || (style == beginning && i < first) || (style == some_writes && random_.below(2) == 0);
        bool complete = whole;
        const std::uint64_t end = change.offset + change.bytes.size();
        if (!change.truncates && grown && content.size() < end) content.resize(end, never_came);
        if (whole || (change.truncates && cut && random_.below(2) == 0)) {
            apply(content, change);
        } else if (cut) {
            complete = true;
            for (std::uint64_t at = change.offset; at < end;) {
                const std::uint64_t next = std::min(end, (at / sector + 1) * sector);
                if (random_.below(2) == 0)
                    apply(content, at, std::string_view(change.bytes).substr(at - change.offset, next - at));
                else
                    complete = false;
                at = next;
            }
        }
        ++(complete ? figures_.writes_kept : figures_.writes_lost);
    }
    return content;
}

/// Of every name the synced entry or one made since, each by itself.
Folder UnsafeDisk::Vfs::surviving_names() {
    enum Style : std::uint64_t { nothing, everything, some, styles };
    const std::uint64_t style = random_.below(styles);
    Folder chosen = names_durable_;
    for (const Renaming& renaming : renamings_) {
        if (style == everything || (style == some && random_.below(2) == 0)) chosen[renaming.name] = renaming.to;
    }
    std::erase_if(chosen, [](const auto& entry) { return entry.second == nullptr; });
    return chosen;
}

void UnsafeDisk::Vfs::cut(std::uint64_t calls, bool only_syncs) {
    const std::lock_guard lock(mutex_);
    only_syncs_ = only_syncs;
    calls_left_ = calls;
}

void UnsafeDisk::Vfs::cut_now() {
    const std::lock_guard lock(mutex_);
    if (powered_) go_dark();
}

void UnsafeDisk::Vfs::restore() {
    const std::lock_guard lock(mutex_);
    SEMEL_ASSERT(open_ == 0, "the power comes back when everything is closed");
    std::set<std::string> touched;
    for (const auto& [name, inode] : names_durable_) touched.insert(name);
    for (const Renaming& renaming : renamings_) touched.insert(renaming.name);
    for (const std::string& name : touched) std::filesystem::remove(name);
    for (const std::string& name : databases_) std::filesystem::remove(name + "-shm");

    Folder chosen = surviving_names();
    for (auto& [name, inode] : chosen) {
        auto fresh = std::make_shared<Inode>();
        fresh->durable = surviving(*inode);
        inode = std::move(fresh);
        std::ofstream out(name, std::ios::binary);
        out.write(inode->durable.data(), static_cast<std::streamsize>(inode->durable.size()));
        SEMEL_ASSERT(out.flush().good(), "the real disk takes the file");
    }
    names_ = chosen;
    names_durable_ = std::move(chosen);
    renamings_.clear();
    calls_left_.reset();
    fault_.reset();
    powered_ = true;
}

void UnsafeDisk::Vfs::kill() {
    const std::lock_guard lock(mutex_);
    powered_ = false;
}

void UnsafeDisk::Vfs::restart() {
    const std::lock_guard lock(mutex_);
    SEMEL_ASSERT(open_ == 0, "a dead process has no open files");
    powered_ = true;
}

bool UnsafeDisk::Vfs::powered() const {
    const std::lock_guard lock(mutex_);
    return powered_;
}

void UnsafeDisk::Vfs::fail_once(Fault fault) {
    const std::lock_guard lock(mutex_);
    fault_ = fault;
}

bool UnsafeDisk::Vfs::failed() const {
    const std::lock_guard lock(mutex_);
    return !fault_;
}

void UnsafeDisk::Vfs::behave() {
    const std::lock_guard lock(mutex_);
    calls_left_.reset();
    fault_.reset();
}

UnsafeDisk::Figures UnsafeDisk::Vfs::figures() const {
    const std::lock_guard lock(mutex_);
    return figures_;
}

// ---- the disk --------------------------------------------------------------------------------------------------

UnsafeDisk::UnsafeDisk(std::uint64_t seed, Lie lie) : vfs_(std::make_unique<Vfs>(seed, lie)) {}
UnsafeDisk::~UnsafeDisk() = default;

void UnsafeDisk::lose_power_after(std::uint64_t calls) { vfs_->cut(calls, false); }
void UnsafeDisk::lose_power_after_syncs(std::uint64_t syncs) { vfs_->cut(syncs, true); }
void UnsafeDisk::lose_power() { vfs_->cut_now(); }
bool UnsafeDisk::has_power() const { return vfs_->powered(); }
void UnsafeDisk::restore_power() { vfs_->restore(); }
void UnsafeDisk::kill_process() { vfs_->kill(); }
void UnsafeDisk::restart_process() { vfs_->restart(); }
void UnsafeDisk::fail_once(Fault fault) { vfs_->fail_once(fault); }
bool UnsafeDisk::failed() const { return vfs_->failed(); }
void UnsafeDisk::behave() { vfs_->behave(); }
UnsafeDisk::Figures UnsafeDisk::figures() const { return vfs_->figures(); }

}  // namespace semel::test
