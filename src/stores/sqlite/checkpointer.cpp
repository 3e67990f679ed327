#include "stores/sqlite/checkpointer.hpp"

#include <utility>

namespace semel::sqlite {
namespace {

/// How many pages are left in the log after moving what could be moved without waiting for anybody. A failure moves
/// nothing and loses nothing: the pages stay in the log.
struct Moved {
    int in_log = 0;
    int left = 0;
};
Moved move_pages(sqlite3* connection) {
    int in_log = 0;
    int moved = 0;
    if (sqlite3_wal_checkpoint_v2(connection, "main", SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved) != SQLITE_OK)
        return {};
    return {in_log, in_log - moved};
}

}  // namespace

Checkpointer::Checkpointer(sqlite3* writer, Connection own, std::mutex& writers, LogSync& log)
    : writer_(writer), own_(std::move(own)), writers_(writers), log_(log) {
    sqlite3_file* file = nullptr;  // without it pages are moved all at once
    if (sqlite3_file_control(own_.get(), "main", SQLITE_FCNTL_FILE_POINTER, &file) == SQLITE_OK && file != nullptr &&
        file->pMethods != nullptr)
        paced_.attach(file);
    thread_ = std::thread([this] { run(); });
    const auto hook = [](void* self, sqlite3*, const char*, int pages) {
        static_cast<Checkpointer*>(self)->committed(pages);
        return SQLITE_OK;
    };
    sqlite3_wal_hook(writer_, hook, this);
}

Checkpointer::~Checkpointer() {
    {
        const std::lock_guard lock(writers_);
        sqlite3_wal_hook(writer_, nullptr, nullptr);
    }
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
}

void Checkpointer::committed(int pages) {
    if (pages < pages_worth_moving) return;
    {
        const std::lock_guard lock(mutex_);
        pages_ = pages;
    }
    wake_.notify_one();
}

void Checkpointer::run() {
    std::unique_lock lock(mutex_);
    int moved = 0;
    while (true) {
        // The log starts anew when all of it was moved; until then it grows by what is committed meanwhile.
        wake_.wait(lock, [&] { return stopping_ || pages_ < moved || pages_ >= moved + pages_worth_moving; });
        if (stopping_) return;
        moved = pages_;
        lock.unlock();
        move_on();
        if (paced_.failed()) return log_.fail();
        lock.lock();
    }
}

void Checkpointer::move_on() {
    paced_.pace(true);
    const Moved first = move_pages(own_.get());
    if (first.in_log < pages_max) return;
    // A second pass beside the writers leaves little for the one that keeps them waiting.
    move_pages(own_.get());
    paced_.pace(false);
    const std::lock_guard nobody_writes(writers_);
    move_pages(own_.get());
}

}  // namespace semel::sqlite
