#include "child.hpp"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

extern char** environ;

namespace semel::test {

Child::Child(Child&& other) noexcept : arguments_(std::move(other.arguments_)), pid_(std::exchange(other.pid_, -1)) {}

Child::~Child() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
}

void Child::start(const std::vector<std::string>& more) {
    std::vector<std::string> all = arguments_;
    all.insert(all.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& argument : all) argv.push_back(argument.data());
    argv.push_back(nullptr);
    if (posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ) != 0)
        throw std::runtime_error("cannot start " + all[0]);
}

bool Child::stopped() {
    int status = 0;
    return pid_ > 0 && waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_ && WIFSTOPPED(status);
}

void Child::go_on() {
    if (pid_ > 0) kill(pid_, SIGCONT);
}

std::optional<int> Child::ended() {
    int status = 0;
    if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return status;
}

bool Child::wait_until_stopped() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (pid_ > 0 && std::chrono::steady_clock::now() < deadline) {
        if (stopped()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return false;
}

int Child::stop() {
    int status = -1;
    if (pid_ <= 0) return status;
    kill(pid_, SIGTERM);
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
}

bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }
bool exited_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

}  // namespace semel::test
