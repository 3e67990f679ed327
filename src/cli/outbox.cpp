// semel outbox: events that committed with the business write, published to brokers.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>

#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "gateway/log.hpp"
#include "outbox/outbox_config.hpp"
#include "outbox/outbox_metrics.hpp"
#include "relay/relay_admin.hpp"
#include "semel/keys.hpp"
#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"

namespace semel::cli {
namespace {

using gateway::Logger;
using gateway::LogLine;
using Level = gateway::Log::Level;

struct Options {
    std::string config;
    bool check = false;
};

/// Reads the file; every problem is written, one line each.
std::optional<outbox::OutboxConfig> read(const std::string& path) {
    outbox::ReadOutboxConfig read = outbox::read_outbox_config(path);
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

Level level_of(std::string_view name) {
    if (name == "error") return Level::error;
    return name == "warning" ? Level::warning : Level::info;
}

/// One outbox at work, on a thread of its own; ends when it goes.
struct Working {
    std::string name;
    std::unique_ptr<OutboxTable> table;
    std::unique_ptr<outbox::Publisher> publisher;
    std::unique_ptr<outbox::Pump> pump;
    std::jthread thread;
};

using All = std::vector<std::unique_ptr<Working>>;

Result<std::unique_ptr<Working>> start(const outbox::OutboxPlan& plan, const StoreUrl& url, Logger& log) {
    auto working = std::make_unique<Working>();
    working->name = plan.name;
    auto publisher = outbox::open_publisher(plan.to);
    if (!publisher) return publisher.failure();
    working->publisher = std::move(*publisher);
    auto table = open_outbox(url, plan.name, mint_uuid4().text());
    if (!table) return table.failure();
    working->table = std::move(*table);
    working->pump = std::make_unique<outbox::Pump>(
        *working->table, *working->publisher, plan.pump, [&log, name = plan.name](auto level, auto text) {
            log.write(std::move(LogLine(level_of(level), "outbox").text("outbox", name).text("what", text)));
        });
    return working;
}

relay::RelayAdmin::Views views(const std::atomic<const All*>& all) {
    return {.not_ready = [&]() -> std::string {
                if (all == nullptr) return "starting";
                std::string why;
                for (const auto& each : *all.load()) {
                    const outbox::PumpState state = each->pump->state();
                    for (const std::string& reason : {state.store_down, state.broker_down})
                        if (!reason.empty())
                            why += fmt::format("{}outbox {}: {}", why.empty() ? "" : "\n", each->name, reason);
                }
                return why;
            },
            .metrics =
                [&] {
                    std::vector<std::pair<std::string, outbox::PumpState>> states;
                    if (all != nullptr)
                        for (const auto& each : *all.load()) states.emplace_back(each->name, each->pump->state());
                    return outbox::metrics_text(states);
                }};
}

int serve(const outbox::OutboxConfig& config, const StoreUrl& url) {
    const sigset_t signals = block_signals();
    const auto log = Logger::open({});
    if (!log) return fail(log.failure());
    All all;
    std::atomic<const All*> seen = nullptr;
    std::unique_ptr<relay::RelayAdmin> admin;
    // An address that is taken is noticed before anything is published.
    if (config.admin) {
        auto started = relay::RelayAdmin::start(*config.admin, views(seen));
        if (!started) return fail(started.failure());
        admin = std::move(*started);
    }
    for (const outbox::OutboxPlan& plan : config.outboxes) {
        auto working = start(plan, url, **log);
        if (!working) return fail(working.failure());
        all.push_back(std::move(*working));
    }
    seen = &all;
    for (const auto& each : all)
        each->thread = std::jthread([pump = each->pump.get()](const std::stop_token& stop) { pump->run(stop); });
    LogLine line(Level::info, "started");
    line.number("outboxes", static_cast<std::int64_t>(all.size()));
    if (admin) line.text("admin", admin->address().text());
    (*log)->write_now(std::move(line.text("store", url.text())));
    int signal = 0;
    sigwait(&signals, &signal);
    (*log)->write_now(LogLine(Level::info, "stopping"));
    for (const auto& each : all) each->thread.request_stop();
    for (const auto& each : all) each->thread.join();
    (*log)->write_now(LogLine(Level::info, "stopped"));
    admin.reset();
    return exit_ok;
}

/// What cannot be seen in the file alone; every problem is written.
int check(const outbox::OutboxConfig& config, const StoreUrl& url) {
    std::vector<Failure> found;
    for (const outbox::OutboxPlan& plan : config.outboxes)
        if (const auto publisher = outbox::open_publisher(plan.to); !publisher)
            found.push_back({Code::invalid, fmt::format("outbox {}: {}", plan.name, publisher.failure().message)});
    if (config.admin)
        if (const auto fine = relay::check_admin_files(*config.admin); !fine) found.push_back(fine.failure());
    for (const Failure& failure : found) complain(failure.message);
    if (!found.empty()) return exit_usage;
    fmt::print("{}: good: {} outboxes, store {}\n", config.file, config.outboxes.size(), url.text());
    return exit_ok;
}

int run(const Options& options) {
    if (options.config.empty()) return fail(refused("outbox: --config is required; `semel outbox --help` shows how"));
    const auto config = read(options.config);
    if (!config) return exit_usage;
    const auto url = parse_store_url(config->store);
    if (!url) return fail(url.failure());
    return options.check ? check(*config, *url) : serve(*config, *url);
}

}  // namespace

CLI::App& add_outbox(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command =
        root.add_subcommand("outbox", "publishes events that committed with the business write, in order");
    command->footer(
        "SIGTERM and SIGINT stop it: what is on its way is waited for, the rest is left to other relays. Logs are "
        "JSON, "
        "one\n"
        "line per event. An event that its broker refuses stops its ordering key: `semel outbox stuck list`.");
    command->add_option("--config", options->config, "the configuration, as docs/outbox.md describes it")
        ->type_name("FILE");
    command->add_flag("--check", options->check, "say everything that is wrong with it, and do nothing else");
    command->callback([command, &chosen, options] {
        if (command->get_subcommands().empty()) chosen = [options] { return run(*options); };
    });
    return *command;
}

}  // namespace semel::cli
