// Moves what was committed from the write-ahead log into the database file, beside the commits instead of inside them.
//
// A commit is durable once it is in the log; moving it on is housekeeping. SQLite's own way is to do it in every commit
// that finds a thousand pages in the log, and that caller, with everyone in its batch, waits for all of it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "stores/sqlite/database.hpp"
#include "stores/sqlite/log_sync.hpp"
#include "stores/sqlite/paced_writes.hpp"

namespace semel::sqlite {

class Checkpointer {
public:
    static constexpr int pages_worth_moving = 1000;
    /// A log that has grown to this is brought to its end while nobody writes, so that the next writer starts it anew:
    /// commits that follow each other closely would let it grow for ever, and a sync is slower while a file grows.
    static constexpr int pages_max = 4'000;

    /// `writers` is held by whoever writes on `writer`, which must outlive this. `log` is told when what was moved cannot be
    /// brought to the disk: then nothing more is moved.
    Checkpointer(sqlite3* writer, Connection own, std::mutex& writers, LogSync& log);
    /// Ends after what is under way.
    ~Checkpointer();
    Checkpointer(const Checkpointer&) = delete;
    Checkpointer& operator=(const Checkpointer&) = delete;

private:
    void committed(int pages);
    void run();
    void move_on();

    sqlite3* writer_;
    PacedWrites paced_;  // of the thread, as is the following
    Connection own_;
    std::mutex& writers_;
    LogSync& log_;
    std::mutex mutex_;
    std::condition_variable wake_;
    int pages_ = 0;  // in the log; guarded by mutex_, as is the following
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace semel::sqlite
