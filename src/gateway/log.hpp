// Structured logs: one JSON object per line, one line per event of an operation. Keys are shown; credentials, bodies and
// stored responses have no way in.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "gateway/config.hpp"

namespace semel::gateway {

/// Builds the members of one line.
class LogLine {
public:
    LogLine(Log::Level level, std::string_view event);
    LogLine& text(std::string_view name, std::string_view value);
    LogLine& number(std::string_view name, std::int64_t value);
    [[nodiscard]] Log::Level level() const { return level_; }

private:
    friend class Logger;
    Log::Level level_;
    std::string line_;
};

/// Writes lines in the background, many at once. Thread safe. A line costs its caller a lock and a copy.
class Logger {
public:
    static constexpr std::size_t waiting_bytes_max = 8U << 20;  ///< more than this is dropped, and the drop is logged

    /// Appends to the file; standard error if it is empty.
    static Result<std::unique_ptr<Logger>> open(const Log& log);
    ~Logger();
    Logger(const Logger&) = delete;
    Logger& operator=(const Logger&) = delete;

    [[nodiscard]] bool wants(Log::Level level) const { return level <= level_; }
    void write(LogLine line);
    /// As write, and returns when it has been written.
    void write_now(LogLine line);

private:
    Logger(int descriptor, bool owned, Log::Level level);
    void run();
    void flush(std::unique_lock<std::mutex>& lock);

    int descriptor_;
    bool owned_;
    Log::Level level_;
    std::mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable flushed_;
    std::string waiting_;         // guarded by mutex_, as are the following
    std::uint64_t accepted_ = 0;  // lines
    std::uint64_t written_ = 0;
    std::uint64_t dropped_ = 0;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace semel::gateway
