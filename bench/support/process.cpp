#include "support/process.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace semel::bench {

void give_up(std::string_view why) {
    std::fflush(stdout);
    fmt::print(stderr, "bench: {}\n", why);
    std::_Exit(1);
}

TemporaryFolder::TemporaryFolder(const std::filesystem::path& parent) {
    const auto where = parent.empty() ? std::filesystem::read_symlink("/proc/self/exe").parent_path() : parent;
    std::string name = (where / "bench-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
        give_up(fmt::format("{}: no folder can be made there (--folder)", where.string()));
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double children_cpu_seconds(int pid) {
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto name_end = text.rfind(')');
    if (name_end == std::string::npos) return 0;
    std::istringstream fields(text.substr(name_end + 1));
    std::string skipped;
    for (int field = 3; field < 16; ++field) fields >> skipped;  // proc(5): 16 is cutime, 17 is cstime
    double user = 0;
    double system = 0;
    fields >> user >> system;
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::uint64_t resident_bytes() {
    std::ifstream status("/proc/self/status");
    std::string word;
    while (status >> word) {
        if (word != "VmRSS:") continue;
        std::uint64_t kibibytes = 0;
        status >> kibibytes;
        return kibibytes * 1024;
    }
    return 0;
}

std::vector<double> in_child(const std::function<std::vector<double>()>& work) {
    int ends[2];
    if (pipe(ends) != 0) give_up("no pipe");
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) give_up("no child process");
    if (child == 0) {
        close(ends[0]);
        const std::vector<double> numbers = work();
        const auto size = static_cast<ssize_t>(numbers.size() * sizeof(double));
        const bool written = write(ends[1], numbers.data(), static_cast<std::size_t>(size)) == size;
        std::fflush(stdout);
        std::_Exit(written ? 0 : 1);
    }
    close(ends[1]);
    std::vector<double> numbers;
    double number = 0;
    while (read(ends[0], &number, sizeof number) == sizeof number) numbers.push_back(number);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) give_up("a child process failed");
    return numbers;
}

}  // namespace semel::bench
