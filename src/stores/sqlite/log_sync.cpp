#include "stores/sqlite/log_sync.hpp"

namespace semel::sqlite {

Status LogSync::attach(sqlite3* writer) {
    const int result = sqlite3_file_control(writer, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log_);
    if (result != SQLITE_OK || log_ == nullptr || log_->pMethods == nullptr)
        return failure_of(writer, "find the write-ahead log");
    writes_.attach(log_);
    return Done{};
}

void LogSync::discard() { writes_.discard(); }

std::uint64_t LogSync::written() {
    const std::lock_guard lock(mutex_);
    return ++written_;
}

std::uint64_t LogSync::last() const {
    const std::lock_guard lock(mutex_);
    return written_;
}

Status LogSync::through(std::uint64_t commit) {
    std::unique_lock lock(mutex_);
    while (synced_ < commit) {
        if (failed_) return disk_failed();
        if (syncing_)
            over_.wait(lock);
        else
            sync(lock);
    }
    return Done{};
}

Status LogSync::all() {
    if (log_ == nullptr) return Done{};
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return !syncing_; });  // that one may have begun before what was seen
    if (!failed_) sync(lock);
    if (failed_) return disk_failed();
    return Done{};
}

/// One sync, with nobody else's under way. Covers what was written before it begins.
void LogSync::sync(std::unique_lock<std::mutex>& lock) {
    syncing_ = true;
    const std::uint64_t covered = written_;
    lock.unlock();
    const int result = writes_.sync(log_);
    lock.lock();
    syncing_ = false;
    if (result == SQLITE_OK)
        synced_ = covered;
    else
        failed_ = true;
    over_.notify_all();
}

Failure LogSync::disk_failed() {
    return {Code::indeterminate,
            "sync the write-ahead log: the disk failed, and what it has is not known; restart the process to recover "
            "from the file"};
}

void LogSync::fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    over_.notify_all();
}

bool LogSync::failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
}

}  // namespace semel::sqlite
