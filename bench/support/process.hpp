// The process and its folder: memory, temporary files, work in a process of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace semel::bench {

/// Removed with everything in it. Made in `parent`; empty: beside the program, which is on a disk where /tmp may not be.
class TemporaryFolder {
public:
    explicit TemporaryFolder(const std::filesystem::path& parent = {});
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }

private:
    std::filesystem::path path_;
};

/// Processor time of this process so far.
double cpu_seconds();
/// Processor time of the children of `pid` that have ended; zero if it cannot be read.
double children_cpu_seconds(int pid);

/// VmRSS of this process.
std::uint64_t resident_bytes();

/// Runs `work` in a child process, so that its memory is its own, and returns its numbers. Ends the program if that
/// fails. No other thread may run meanwhile.
std::vector<double> in_child(const std::function<std::vector<double>()>& work);

/// Ends the program with a message: a benchmark that cannot run has no result.
[[noreturn]] void give_up(std::string_view why);

}  // namespace semel::bench
