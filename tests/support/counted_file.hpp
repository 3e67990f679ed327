// Beneath what stands in for the methods of one of SQLite's files: counts what reaches the file, and fails some of it.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <limits>
#include <string>

#include "base/assert.hpp"
#include "stores/sqlite/database.hpp"

namespace semel::test {

/// A connection of its own to a file; ends the test's process if there is none.
inline sqlite::Connection opened(const std::string& file) {
    sqlite3* raw = nullptr;
    const int result = sqlite3_open(file.c_str(), &raw);
    SEMEL_ASSERT(result == SQLITE_OK, "a test's own file can be opened");
    return sqlite::Connection(raw);
}

/// One at a time: whoever stands above calls with a file whose methods are its own, so that this is found by its instance.
class CountedFile : private sqlite3_io_methods {
public:
    static constexpr int no_call = std::numeric_limits<int>::max();

    explicit CountedFile(sqlite3_file* file) : sqlite3_io_methods(*file->pMethods), real_(file->pMethods) {
        instance = this;
        xWrite = [](sqlite3_file* self, const void* bytes, int size, sqlite3_int64 at) {
            if (++instance->writes >= instance->refused_from) return SQLITE_FULL;
            instance->unsynced_max = std::max(instance->unsynced_max, ++instance->unsynced);
            return instance->real_->xWrite(self, bytes, size, at);
        };
        xSync = [](sqlite3_file* self, int flags) {
            if (++instance->syncs == instance->failing_sync) return SQLITE_IOERR_FSYNC;
            instance->unsynced = 0;
            return instance->real_->xSync(self, flags);
        };
        file->pMethods = this;
    }
    CountedFile(const CountedFile&) = delete;
    CountedFile& operator=(const CountedFile&) = delete;

    int writes = 0;
    int refused_from = no_call;  ///< the first write that finds the disk full; so do all after it
    int unsynced = 0;            ///< writes since the last sync
    int unsynced_max = 0;
    int syncs = 0;
    int failing_sync = no_call;

private:
    static inline CountedFile* instance = nullptr;
    const sqlite3_io_methods* real_;
};

}  // namespace semel::test
