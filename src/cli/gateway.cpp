// semel gateway: the reverse proxy that gives a service idempotency keys.
#include "gateway/server.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <memory>

#include "api/ledger_api.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "gateway/config_reader.hpp"

namespace semel::cli {
namespace {

struct Options {
    std::string config;
    bool check = false;
};

/// Reads the file; every problem is written, one line each.
std::optional<gateway::Config> read(const std::string& path) {
    gateway::ReadConfig read = gateway::read_config(path);
    for (const gateway::ConfigProblem& problem : read.problems)
        complain(fmt::format("{}: {}", problem.mark.text(), problem.message));
    return std::move(read.config);
}

/// Signals are taken one by one by whoever waits for them, never in the middle of something.
sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, each);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    signal(SIGPIPE, SIG_IGN);
    return signals;
}

/// An embedded store is made if it is not there; a server's schema is `semel migrate`'s, which may need other rights.
Result<std::unique_ptr<Store>> open(const std::string& text) {
    const auto url = parse_store_url(text);
    if (!url) return url.failure();
    if (url->kind == StoreUrl::Kind::sqlite)
        if (const auto migrated = migrate_store(*url); !migrated) return migrated.failure();
    return open_store(*url, Purpose::change);
}

void log_resolution(gateway::Logger& log, const api::Resolution& resolution) {
    const Scope& scope = resolution.operation.scope;
    gateway::LogLine line(gateway::Log::Level::warning, "resolve");
    line.text("tenant", scope.tenant()).text("scope", scope.name()).number("generation", scope.generation());
    line.text("key", resolution.operation.key.text())
        .text("token", fmt::format("{}", resolution.command.token_seen.value));
    line.text("verdict", resolution.command.outcome ? "happened" : "did_not_happen");
    line.text("who", resolution.command.who).text("why", resolution.command.why).text("answer", resolution.answer);
    if (!resolution.failure.empty()) line.text("failure", resolution.failure);
    log.write(std::move(line));
}

/// The Ledger API as the configuration wants it.
std::unique_ptr<http::Service> make_api(const gateway::Api& api, Committer& committer, gateway::Logger& log) {
    api::LedgerApiOptions options{.body_bytes_max = api.body_bytes_max, .timeout = api.timeout};
    options.resolved = [&log](const api::Resolution& resolution) { log_resolution(log, resolution); };
    for (const gateway::ApiToken& each : api.tokens)
        options.tokens.push_back({each.token, each.name, each.tenant, {each.hold, each.read, each.resolve}});
    return std::make_unique<api::LedgerApi>(committer, options);
}

void reload(gateway::Gateway& gateway, gateway::Logger& log, const std::string& path) {
    gateway::ReadConfig read = gateway::read_config(path);
    for (const gateway::ConfigProblem& problem : read.problems)
        log.write(std::move(gateway::LogLine(gateway::Log::Level::error, "reload_refused")
                                .text("why", fmt::format("{}: {}", problem.mark.text(), problem.message))));
    if (!read.config) return;
    const Status reloaded = gateway.reload(std::move(*read.config));
    if (reloaded)
        log.write_now(std::move(gateway::LogLine(gateway::Log::Level::info, "reloaded").text("file", path)));
    else
        log.write_now(std::move(
            gateway::LogLine(gateway::Log::Level::error, "reload_refused").text("why", reloaded.failure().message)));
}

int serve(gateway::Config config) {
    const sigset_t signals = block_signals();
    auto log = gateway::Logger::open(config.log);
    if (!log) return fail(log.failure());
    const auto store = open(config.store);
    if (!store) return fail(store.failure());
    const std::string path = config.file;
    const auto api_maker = [&log](const gateway::Api& api, Committer& committer) {
        return make_api(api, committer, **log);
    };
    auto gateway = gateway::Gateway::start(std::move(config), **store, **log, api_maker);
    if (!gateway) return fail(gateway.failure());
    gateway::LogLine line(gateway::Log::Level::info, "listening");
    line.text("address", (*gateway)->address().text());
    if (const auto admin = (*gateway)->admin_address()) line.text("admin", admin->text());
    if (const auto api = (*gateway)->api_address()) line.text("api", api->text());
    line.text("store", (*store)->text());
    (*log)->write_now(std::move(line));
    while (true) {
        int taken = 0;
        sigwait(&signals, &taken);
        if (taken != SIGHUP) break;
        reload(**gateway, **log, path);
    }
    (*log)->write_now(gateway::LogLine(gateway::Log::Level::info, "draining"));
    const gateway::Stopped stopped = (*gateway)->stop();
    (*log)->write_now(std::move(
        gateway::LogLine(stopped.in_time ? gateway::Log::Level::info : gateway::Log::Level::warning, "stopped")
            .number("abandoned", static_cast<std::int64_t>(stopped.abandoned))));
    return exit_ok;
}

int run(const Options& options) {
    auto config = read(options.config);
    if (!config) return exit_usage;
    if (const auto url = parse_store_url(config->store); !url) return fail(url.failure());
    if (options.check) {
        if (const auto checked = gateway::check_files(*config); !checked) return fail(checked.failure());
        fmt::print("{}: good: {} routes, listen {}, store {}\n", options.config, config->routes.size(),
                   config->listen.address.text(), parse_store_url(config->store)->text());
        return exit_ok;
    }
    return serve(std::move(*config));
}

}  // namespace

void add_gateway(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command =
        root.add_subcommand("gateway", "a reverse proxy that makes retries of HTTP requests harmless");
    command->footer(
        "SIGHUP reads the file again; a bad one is refused and the old one stays. SIGTERM and SIGINT drain: what is "
        "claimed\n"
        "is finished, or abandoned as unknown after `drain`. Logs are JSON, one line per event.");
    command->add_option("--config", options->config, "the configuration, as docs/configuration.md describes it")
        ->required()
        ->type_name("FILE");
    command->add_flag("--check", options->check, "say everything that is wrong with it, and do nothing else");
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
