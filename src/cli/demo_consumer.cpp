#include "cli/demo_consumer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <system_error>

#include "cli/demo_wallet.hpp"
#include "cli/exit_code.hpp"
#include "ledger/fingerprint.hpp"
#include "semel/sqlite.hpp"

namespace semel::cli::demo {
namespace {

constexpr int answer_timeout_ms = 30'000;

Failure failed(std::string_view tried) {
    return {Code::unavailable, fmt::format("{}: {}", tried, std::error_code(errno, std::generic_category()).message())};
}

std::string_view name(Fault fault) {
    switch (fault) {
        case Fault::none: return "none";
        case Fault::crash_before_commit: return "crash";
        case Fault::reply_lost: return "reply-lost";
    }
    return "?";
}

// ---- the consumer's side ---------------------------------------------------------------------------------------

struct Delivery {
    Fault fault = Fault::none;
    Operation operation;
    Wallet::Credit credit;
    std::string correlation;
    std::string data;
};

std::string take_word(std::string_view& line) {
    const auto tab = line.find('\t');
    std::string word(line.substr(0, tab));
    line.remove_prefix(tab == std::string_view::npos ? line.size() : tab + 1);
    return word;
}

Result<Delivery> read_delivery(std::string_view line) {
    const std::string fault = take_word(line);
    auto key = Key::parse(take_word(line));
    if (!key) return key.failure();
    Wallet::Credit credit{key->text(), take_word(line), 0};
    const std::string cents = take_word(line);
    std::from_chars(cents.data(), cents.data() + cents.size(), credit.cents);
    std::string correlation = take_word(line);
    return Delivery{fault == name(Fault::crash_before_commit) ? Fault::crash_before_commit
                    : fault == name(Fault::reply_lost)        ? Fault::reply_lost
                                                              : Fault::none,
                    Operation{Scope::parse(wallet_scope).value(), std::move(*key)}, std::move(credit),
                    std::move(correlation), std::string(line)};
}

[[noreturn]] void wait_to_be_killed(LineChannel& broker) {
    broker.send("before-commit");
    while (true) pause();
}

/// A message, applied once: claim, credit and outcome commit together, and the acknowledgement comes last.
std::string apply(Wallet& wallet, const Delivery& delivery, LineChannel& broker) {
    sqlite3* const db = wallet.connection();
    if (auto begun = sqlite::run(db, "begin immediate"); !begun) return "failed: " + begun.failure().message;
    Status credited = Done{};
    const auto effect = [&] {
        credited = wallet.credit(delivery.credit);
        return Outcome{200, "credited", true};
    };
    OnceOptions options;
    options.correlation = delivery.correlation;
    const auto answer =
        sqlite::once(db, delivery.operation, fingerprint_of_message("payment", delivery.data), effect, options);
    const bool applied = answer && std::holds_alternative<Applied>(*answer);
    const bool replay = answer && std::holds_alternative<Replay>(*answer);
    if (!credited || !(applied || replay)) {
        sqlite3_exec(db, "rollback", nullptr, nullptr, nullptr);
        return fmt::format("failed: {}", !credited ? credited.failure().message
                                         : !answer ? answer.failure().message
                                                   : "not claimed");
    }
    if (applied && delivery.fault == Fault::crash_before_commit) wait_to_be_killed(broker);
    if (auto committed = sqlite::run(db, "commit"); !committed) return "failed: " + committed.failure().message;
    return applied ? "applied" : "replay";
}

std::string handle(Wallet& wallet, std::string_view line, LineChannel& broker) {
    const auto delivery = read_delivery(line);
    if (!delivery) return "failed: " + delivery.failure().message;
    std::string answer = apply(wallet, *delivery, broker);
    if (delivery->fault != Fault::reply_lost) return answer;
    // COMMIT was done but its reply never came: all that a consumer can do is to run the transaction again.
    return answer + ' ' + apply(wallet, *delivery, broker);
}

}  // namespace

int consume(const std::string& path) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    auto wallet = Wallet::open(path);
    if (!wallet) return fail(wallet.failure());
    LineChannel broker(STDIN_FILENO);
    while (const auto line = broker.receive(-1))
        if (!broker.send(handle(*wallet, *line, broker))) break;
    return exit_ok;
}

// ---- lines -----------------------------------------------------------------------------------------------------

LineChannel::~LineChannel() { ::close(descriptor_); }

bool LineChannel::send(std::string line) {
    line += '\n';
    std::string_view rest = line;
    while (!rest.empty()) {
        const ssize_t sent = ::send(descriptor_, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

std::optional<std::string> LineChannel::receive(int timeout_ms) {
    while (true) {
        if (const auto end = left_.find('\n'); end != std::string::npos) {
            std::string line = left_.substr(0, end);
            left_.erase(0, end + 1);
            return line;
        }
        pollfd waiting{descriptor_, POLLIN, 0};
        const int ready = poll(&waiting, 1, timeout_ms);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return std::nullopt;
        char block[4096];
        const ssize_t got = recv(descriptor_, block, sizeof block, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return std::nullopt;
        left_.append(block, static_cast<std::size_t>(got));
    }
}

// ---- the parent's side -----------------------------------------------------------------------------------------

Result<std::unique_ptr<ConsumerProcess>> ConsumerProcess::start(const std::string& path) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failed("make a socket for the consumer");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    std::string words[] = {"semel", "demo-consumer", path};
    char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    pid_t process = 0;
    errno = posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments, environ);
    const bool started = errno == 0;
    const Failure failure = failed("start the consumer");
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    if (started) return std::unique_ptr<ConsumerProcess>(new ConsumerProcess(process, ends[0]));
    ::close(ends[0]);
    return failure;
}

void ConsumerProcess::kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
}

ConsumerProcess::~ConsumerProcess() { kill(); }

Result<std::string> ConsumerProcess::deliver(const Payment& payment, Fault fault) {
    const std::string line = fmt::format("{}\t{}\t{}\t{}\t{}\t{}", name(fault), payment.key.text(), payment.account,
                                         payment.cents, payment.correlation, payment.json());
    if (!channel_.send(line)) return Failure{Code::unavailable, "the consumer has gone"};
    auto answer = channel_.receive(answer_timeout_ms);
    if (!answer) return Failure{Code::unavailable, "the consumer does not answer"};
    if (answer->starts_with("failed")) return Failure{Code::unavailable, fmt::format("the consumer {}", *answer)};
    return std::move(*answer);
}

}  // namespace semel::cli::demo
