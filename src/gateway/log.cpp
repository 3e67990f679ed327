#include "gateway/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/clock.hpp"
#include "base/duration.hpp"
#include "base/json.hpp"

namespace semel::gateway {
namespace {

constexpr std::chrono::milliseconds gather_for{20};

std::string_view name(Log::Level level) {
    switch (level) {
        case Log::Level::error: return "error";
        case Log::Level::warning: return "warning";
        case Log::Level::info: return "info";
    }
    return "info";
}

}  // namespace

LogLine::LogLine(Log::Level level, std::string_view event) : level_(level) {
    line_.reserve(384);
    line_ += R"({"time":")";
    line_ += to_text(SystemClock().wall());
    line_ += R"(","level":")";
    line_ += name(level);
    line_ += R"(","event":")";
    line_ += event;
    line_ += '"';
}

LogLine& LogLine::text(std::string_view name, std::string_view value) {
    line_ += ",\"";
    line_ += name;
    line_ += "\":";
    append_json_string(line_, value);
    return *this;
}

LogLine& LogLine::number(std::string_view name, std::int64_t value) {
    line_ += ",\"";
    line_ += name;
    line_ += "\":";
    const fmt::format_int digits(value);
    line_.append(digits.data(), digits.size());
    return *this;
}

Result<std::unique_ptr<Logger>> Logger::open(const Log& log) {
    if (log.file.empty()) return std::unique_ptr<Logger>(new Logger(STDERR_FILENO, false, log.level));
    const int descriptor = ::open(log.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (descriptor < 0)
        return Failure{Code::invalid, fmt::format("log.file {}: {}", log.file, std::strerror(errno))};  // NOLINT
    return std::unique_ptr<Logger>(new Logger(descriptor, true, log.level));
}

Logger::Logger(int descriptor, bool owned, Log::Level level)
    : descriptor_(descriptor), owned_(owned), level_(level), thread_([this] { run(); }) {}

Logger::~Logger() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wake_.notify_one();
    thread_.join();
    if (owned_) ::close(descriptor_);
}

void Logger::write(LogLine line) {
    if (!wants(line.level())) return;
    line.line_ += "}\n";
    bool wake = false;
    {
        const std::lock_guard lock(mutex_);
        if (waiting_.size() + line.line_.size() > waiting_bytes_max) {
            ++dropped_;
            return;
        }
        wake = waiting_.empty();
        waiting_ += line.line_;
        ++accepted_;
    }
    if (wake) wake_.notify_one();
}

void Logger::write_now(LogLine line) {
    write(std::move(line));
    std::unique_lock lock(mutex_);
    flushed_.wait(lock, [this, mine = accepted_] { return written_ >= mine; });
}

void Logger::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        // Whatever comes within a moment goes with it.
        if (!stopping_) wake_.wait_for(lock, gather_for, [this] { return stopping_; });
        flush(lock);
        if (stopping_ && waiting_.empty()) return;
    }
}

void Logger::flush(std::unique_lock<std::mutex>& lock) {
    std::string lines = std::exchange(waiting_, {});
    if (dropped_ > 0) {
        LogLine line(Log::Level::error, "log_lines_dropped");
        line.number("lines", static_cast<std::int64_t>(std::exchange(dropped_, 0)));
        lines += line.line_ + "}\n";
    }
    const std::uint64_t taken = accepted_;
    lock.unlock();
    for (std::string_view left = lines; !left.empty();) {
        const ssize_t wrote = ::write(descriptor_, left.data(), left.size());
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break;  // a full disk must not stop the gateway
        left.remove_prefix(static_cast<std::size_t>(wrote));
    }
    lock.lock();
    written_ = taken;
    flushed_.notify_all();
}

}  // namespace semel::gateway
