#include "verify/counter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <system_error>
#include <utility>

#include "base/quote.hpp"
#include "ledger/json_document.hpp"

namespace semel::verify {
namespace {

std::string reason(int error) { return std::error_code(error, std::generic_category()).message(); }

// ---- a command -----------------------------------------------------------------------------------------------------

constexpr std::size_t output_bytes_max = 4096;

/// A shell in a process group of its own, so that it ends with all it started.
class Shell {
public:
    static Result<Shell> start(const std::string& command) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) return Failure{Code::exhausted, reason(errno)};
        posix_spawn_file_actions_t files;
        posix_spawn_file_actions_init(&files);
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
        posix_spawnattr_t how;
        posix_spawnattr_init(&how);
        sigset_t pipe_signal;
        sigemptyset(&pipe_signal);
        sigaddset(&pipe_signal, SIGPIPE);
        posix_spawnattr_setsigdefault(&how, &pipe_signal);
        posix_spawnattr_setpgroup(&how, 0);
        posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
        std::string shell = "sh";
        std::string option = "-c";
        std::string text = command;
        const std::array<char*, 4> words{shell.data(), option.data(), text.data(), nullptr};
        pid_t pid = -1;
        const int error = posix_spawn(&pid, "/bin/sh", &files, &how, words.data(), environ);
        posix_spawnattr_destroy(&how);
        posix_spawn_file_actions_destroy(&files);
        ::close(ends[1]);
        if (error == 0) return Shell(pid, ends[0]);
        ::close(ends[0]);
        return Failure{Code::exhausted, reason(error)};
    }

    Shell(Shell&& other) noexcept : pid_(std::exchange(other.pid_, -1)), out_(std::exchange(other.out_, -1)) {}
    Shell& operator=(Shell&&) = delete;
    ~Shell() {
        if (out_ >= 0) ::close(out_);
        if (pid_ < 0) return;
        ::kill(-pid_, SIGKILL);
        while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

    /// All it prints until it closes its output; a failure when that takes too long or is too much.
    Result<std::string> output(Deadline deadline) const {
        std::string text;
        std::array<char, 512> block;
        while (true) {
            pollfd waiting{.fd = out_, .events = POLLIN, .revents = 0};
            const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
            if (ready < 0 && errno == EINTR) continue;
            if (ready <= 0) return Failure{Code::unavailable, "it did not end in time (--timeout)"};
            const ssize_t got = ::read(out_, block.data(), block.size());
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return text;
            text.append(block.data(), static_cast<std::size_t>(got));
            if (text.size() > output_bytes_max) return Failure{Code::invalid, "it prints more than a number"};
        }
    }

    /// The exit code.
    Result<int> wait(Deadline deadline) {
        // Whoever closed its output is about to end, but need not.
        const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
        pollfd waiting{.fd = handle, .events = POLLIN, .revents = 0};
        int ready = 0;
        while ((ready = ::poll(&waiting, 1, milliseconds_until(deadline))) < 0 && errno == EINTR) {
        }
        if (handle >= 0) ::close(handle);
        if (ready == 0) return Failure{Code::unavailable, "it did not end in time (--timeout)"};
        int status = 0;
        while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        pid_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

private:
    Shell(pid_t pid, int out) : pid_(pid), out_(out) {}
    pid_t pid_;
    int out_;
};

class CommandCounter final : public Counter {
public:
    CommandCounter(std::string command, Duration timeout) : command_(std::move(command)), timeout_(timeout) {}

    Result<std::int64_t> count(const Intent& intent) override {
        auto shell = Shell::start(fill_in(command_, intent));
        if (!shell) return failed(shell.failure().code, shell.failure().message);
        const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
        const auto printed = shell->output(deadline);
        if (!printed) return failed(printed.failure().code, printed.failure().message);
        const auto code = shell->wait(deadline);
        if (!code) return failed(code.failure().code, code.failure().message);
        if (*code != 0) return failed(Code::invalid, fmt::format("it ended with exit code {}", *code));
        if (const auto number = whole_number(*printed)) return *number;
        return failed(Code::invalid, fmt::format("it printed {}, which is no whole number", in_quotes(*printed)));
    }
    [[nodiscard]] bool per_intent() const override { return has_placeholder(command_); }

private:
    [[nodiscard]] Failure failed(Code code, std::string_view why) const {
        return {code, fmt::format("--count-command {}: {}", in_quotes(command_), why)};
    }
    std::string command_;
    Duration timeout_;
};

// ---- a URL ---------------------------------------------------------------------------------------------------------

class UrlCounter final : public Counter {
public:
    UrlCounter(std::string url, std::vector<Header> headers, JsonPointer pointer, Duration timeout, const Tls& tls)
        : url_(std::move(url)),
          headers_(std::move(headers)),
          pointer_(std::move(pointer)),
          timeout_(timeout),
          tls_(tls) {}

    Result<std::int64_t> count(const Intent& intent) override {
        auto url = Url::parse(fill_in(url_, intent));
        if (!url) return url.failure();
        Request request{.method = "GET", .url = std::move(*url), .headers = headers_, .body = std::nullopt};
        for (Header& header : request.headers) header.value = fill_in(header.value, intent);
        const Answer answer = exchange(request, tls_, std::chrono::steady_clock::now() + timeout_);
        if (!answer.response) return failed(Code::unavailable, answer.problem);
        if (!answer.success()) return failed(Code::unavailable, "it answered " + answer.text());
        const auto document = JsonDocument::parse(answer.response->body);
        if (!document) return failed(Code::invalid, "its answer is not JSON");
        const auto found = document->find(pointer_);
        if (!found)
            return failed(Code::invalid, fmt::format("its answer has nothing at {}", in_quotes(pointer_.text())));
        const auto& node = document->node(*found);
        const auto number =
            node.kind == JsonDocument::Kind::number ? whole_number(node.text) : std::optional<std::int64_t>();
        if (!number)
            return failed(Code::invalid,
                          fmt::format("what it has at {} is no whole number", in_quotes(pointer_.text())));
        return *number;
    }
    [[nodiscard]] bool per_intent() const override { return has_placeholder(url_); }

private:
    [[nodiscard]] Failure failed(Code code, std::string_view why) const {
        return {code, fmt::format("--count-url {}: {}", in_quotes(url_), why)};
    }
    std::string url_;
    std::vector<Header> headers_;
    JsonPointer pointer_;
    Duration timeout_;
    const Tls& tls_;
};

}  // namespace

std::optional<std::int64_t> whole_number(std::string_view text) {
    constexpr std::string_view white = " \t\r\n";
    const std::size_t first = text.find_first_not_of(white);
    if (first == std::string_view::npos) return std::nullopt;
    text = text.substr(first, text.find_last_not_of(white) - first + 1);
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || rest != end) return std::nullopt;
    return number;
}

std::unique_ptr<Counter> count_by_command(std::string command, Duration timeout) {
    return std::make_unique<CommandCounter>(std::move(command), timeout);
}

std::unique_ptr<Counter> count_by_url(std::string url, std::vector<Header> headers, JsonPointer pointer,
                                      Duration timeout, const Tls& tls) {
    return std::make_unique<UrlCounter>(std::move(url), std::move(headers), std::move(pointer), timeout, tls);
}

}  // namespace semel::verify
