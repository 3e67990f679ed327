#include "stores/sqlite/paced_writes.hpp"

namespace semel::sqlite {

PacedWrites& PacedWrites::of(sqlite3_file* file) {
    // SQLite sees the methods as const; this object, which begins with them, is not.
    const auto& self = static_cast<const PacedWrites&>(*file->pMethods);  // NOLINT(*-static-cast-downcast)
    return const_cast<PacedWrites&>(self);                                // NOLINT(*-const-cast)
}

void PacedWrites::attach(sqlite3_file* file) {
    real_ = file->pMethods;
    static_cast<sqlite3_io_methods&>(*this) = *real_;
    xWrite = [](sqlite3_file* self, const void* bytes, int count, sqlite3_int64 at) {
        return of(self).write(self, bytes, count, at);
    };
    xSync = [](sqlite3_file* self, int flags) { return of(self).sync(self, flags); };
    xClose = [](sqlite3_file* self) {
        self->pMethods = of(self).real_;
        return self->pMethods->xClose(self);
    };
    file->pMethods = this;
}

int PacedWrites::write(sqlite3_file* file, const void* bytes, int count, sqlite3_int64 at) {
    if (failed()) return failed_;
    const int result = real_->xWrite(file, bytes, count, at);
    if (result != SQLITE_OK || !paced_ || ++written_ < writes_max) return result;
    return sync(file, SQLITE_SYNC_NORMAL);
}

int PacedWrites::sync(sqlite3_file* file, int flags) {
    if (failed()) return failed_;
    written_ = 0;
    failed_ = real_->xSync(file, flags);
    return failed_;
}

}  // namespace semel::sqlite
