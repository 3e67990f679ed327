// semel relay: messages from brokers to HTTP endpoints, each with a deterministic key.
#include "relay/relay.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "gateway/log.hpp"
#include "relay/relay_admin.hpp"
#include "relay/relay_metrics.hpp"
#include "relay/sweeper.hpp"
#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"

namespace semel::cli {
namespace {

using gateway::Logger;
using gateway::LogLine;
using Level = gateway::Log::Level;

/// How often it is asked whether any relay is left.
constexpr timespec look_every{0, 200'000'000};

struct Options {
    std::string config;
    bool check = false;
};

/// Reads the file; every problem is written, one line each.
std::optional<relay::RelayConfig> read(const std::string& path) {
    relay::ReadRelayConfig read = relay::read_relay_config(path);
    for (const settings::ConfigProblem& problem : read.problems)
        complain(fmt::format("{}: {}", problem.mark.text(), problem.message));
    return std::move(read.config);
}

sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int each : {SIGTERM, SIGINT}) sigaddset(&signals, each);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signal(SIGPIPE, SIG_IGN);
    return signals;
}

/// An embedded store is made if it is not there; a server's schema is `semel migrate`'s, which may need other rights.
Result<std::unique_ptr<Store>> open(const StoreUrl& url) {
    if (url.kind == StoreUrl::Kind::sqlite)
        if (const auto migrated = migrate_store(url); !migrated) return migrated.failure();
    return open_store(url, Purpose::change);
}

/// Without another look at the file: to close a descriptor of it would give up the locks of this process's connections
/// (POSIX), and whoever came next would take away the log that they write to.
Result<std::unique_ptr<Inbox>> open_inbox_beside_store(const StoreUrl& url) {
    if (url.kind == StoreUrl::Kind::sqlite) return sqlite::open_inbox({.path = url.place});
    return postgres::open_inbox({.uri = url.place});
}

Level level_of(std::string_view name) {
    if (name == "error") return Level::error;
    return name == "warning" ? Level::warning : Level::info;
}

/// Why the process should get no traffic, or rather: why somebody should look at it. Empty: all is well.
std::string not_ready(const relay::Relays& relays, Store& store) {
    if (const auto now = store.now(); !now) return "the store cannot be reached";
    std::string why;
    for (const relay::RelayState& state : relays.states()) {
        const std::string_view what = !state.running ? "has ended" : "is paused";
        const std::string& reason = !state.running ? state.ended : state.paused;
        if (state.running && state.paused.empty()) continue;
        why += fmt::format("{}relay {} {}: {}", why.empty() ? "" : "\n", state.name, what, reason);
    }
    return why;
}

relay::RelayAdmin::Views views(const std::atomic<const relay::Relays*>& relays, Store& store,
                               const relay::Sweeper& sweeper) {
    return {.not_ready = [&] { return relays == nullptr ? "starting" : not_ready(*relays.load(), store); },
            .metrics =
                [&] {
                    std::vector<relay::RelayState> states;
                    if (relays != nullptr) states = relays.load()->states();
                    return relay::metrics_text(states, sweeper.swept());
                }};
}

bool any_running(const relay::Relays& relays) {
    return std::ranges::any_of(relays.states(), [](const relay::RelayState& state) { return state.running; });
}

/// Until a signal comes (true), or no relay is left.
bool wait_for_signal(const sigset_t& signals, const relay::Relays& relays) {
    while (true) {
        if (sigtimedwait(&signals, nullptr, &look_every) > 0) return true;
        if (!any_running(relays)) return false;
    }
}

int serve(const relay::RelayConfig& config, const StoreUrl& url) {
    const sigset_t signals = block_signals();
    const auto log = Logger::open({});
    if (!log) return fail(log.failure());
    const auto store = open(url);
    if (!store) return fail(store.failure());
    const auto committer = Committer::start(**store);
    if (!committer) return fail(committer.failure());
    const auto say = [&log = **log](std::string_view level, std::string_view name, std::string_view text) {
        log.write(std::move(LogLine(level_of(level), "relay").text("relay", name).text("what", text)));
    };
    relay::Sweeper sweeper(**store, [&log = **log](std::string_view why) {
        log.write(std::move(LogLine(Level::error, "sweep_failed").text("why", why)));
    });
    std::unique_ptr<relay::Relays> relays;
    // An address that is taken is noticed before anything is delivered.
    std::atomic<const relay::Relays*> seen = nullptr;
    std::unique_ptr<relay::RelayAdmin> admin;
    if (config.admin) {
        auto started = relay::RelayAdmin::start(*config.admin, views(seen, **store, sweeper));
        if (!started) return fail(started.failure());
        admin = std::move(*started);
    }
    auto started = relay::Relays::start(
        config, **committer, [&url] { return open_inbox_beside_store(url); }, say);
    if (!started) return fail(started.failure());
    relays = std::move(*started);
    seen = relays.get();
    LogLine line(Level::info, "started");
    line.number("relays", static_cast<std::int64_t>(config.relays.size()));
    if (admin) line.text("admin", admin->address().text());
    (*log)->write_now(std::move(line.text("store", (*store)->text())));
    const bool asked = wait_for_signal(signals, *relays);
    (*log)->write_now(LogLine(Level::info, "stopping"));
    relays->stop();
    (*log)->write_now(LogLine(Level::info, "stopped"));
    if (asked) return exit_ok;
    for (const relay::RelayState& state : relays->states())
        complain(fmt::format("relay {}: {}", state.name, state.ended));
    return exit_failure;
}

/// What cannot be seen in the file alone; every problem is written.
int check(const relay::RelayConfig& config, const StoreUrl& url) {
    std::vector<Failure> found = relay::Relays::check(config);
    if (config.admin)
        if (const auto fine = relay::check_admin_files(*config.admin); !fine) found.push_back(fine.failure());
    for (const Failure& failure : found) complain(failure.message);
    if (!found.empty()) return exit_usage;
    fmt::print("{}: good: {} relays, store {}\n", config.file, config.relays.size(), url.text());
    return exit_ok;
}

int run(const Options& options) {
    const auto config = read(options.config);
    if (!config) return exit_usage;
    const auto url = parse_store_url(config->store);
    if (!url) return fail(url.failure());
    return options.check ? check(*config, *url) : serve(*config, *url);
}

}  // namespace

void add_relay(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command =
        root.add_subcommand("relay", "delivers messages from brokers to HTTP endpoints, each with a key of its own");
    command->footer(
        "SIGTERM and SIGINT stop it: what is being delivered is finished, the rest is given back to the brokers. Logs are\n"
        "JSON, one line per event. What no try can help is among the dead letters: `semel dead list`.");
    command->add_option("--config", options->config, "the configuration, as docs/relay.md describes it")
        ->required()
        ->type_name("FILE");
    command->add_flag("--check", options->check, "say everything that is wrong with it, and do nothing else");
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
