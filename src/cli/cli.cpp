#include "cli/cli.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "base/quote.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"

namespace semel::cli {
namespace {

constexpr const char* footer =
    "Exit codes: 0 all is well, 1 a finding or a failure, 2 malformed input or configuration (nothing was done).\n"
    "`semel COMMAND --help` tells more. SEMEL_STORE names the store where --store is not given.";

/// A flag has no value: `--json=3` is refused, not guessed at.
void make_flags_strict(CLI::App& command) {
    for (CLI::Option* option : command.get_options())
        if (option->get_items_expected_max() == 0) option->disable_flag_override();
    for (CLI::App* each : command.get_subcommands([](CLI::App*) { return true; })) make_flags_strict(*each);
}

void add_commands(CLI::App& root, Action& chosen) {
    root.require_subcommand(1);
    root.set_help_flag("-h,--help", "show this help");
    root.footer(footer);
    root.set_version_flag("--version", "semel " SEMEL_VERSION, "show the version");
    add_gateway(root, chosen);
    add_relay(root, chosen);
    add_outbox_stuck(add_outbox(root, chosen), chosen);
    add_demo(root, chosen);
    CLI::App* const ops = root.add_subcommand("ops", "what happened to an operation, and decisions about it");
    ops->require_subcommand(1);
    add_ops_list(*ops, chosen);
    add_ops_show(*ops, chosen);
    add_ops_resolve(*ops, chosen);
    add_ops_sweep(*ops, chosen);
    CLI::App* const dead = root.add_subcommand("dead", "messages that nobody will try again unless a person says so");
    dead->require_subcommand(1);
    add_dead_list(*dead, chosen);
    add_dead_show(*dead, chosen);
    add_dead_retry(*dead, chosen);
    add_dead_drop(*dead, chosen);
    CLI::App* const consumer = root.add_subcommand("consumer", "how the consumers of messages stand");
    consumer->require_subcommand(1);
    add_consumer_list(*consumer, chosen);
    add_consumer_replay(*consumer, chosen);
    add_consumer_forget(*consumer, chosen);
    add_migrate(root, chosen);
    add_key(root, chosen);
    add_fingerprint(root, chosen);
    add_call(root, chosen);
    add_verify(root, chosen);
    add_completion(root, chosen);
    add_man(root, chosen);
    make_flags_strict(root);
}

/// The command that was being read, and its name as the user writes it after `semel`.
const CLI::App& innermost(const CLI::App& root, std::string& path) {
    const CLI::App* at = &root;
    while (!at->get_subcommands().empty()) {
        at = at->get_subcommands().front();
        path += (path.empty() ? "" : " ") + at->get_name();
    }
    return *at;
}

std::string names_below(const CLI::App& command) {
    std::string names;
    for (const CLI::App* each : command.get_subcommands([](const CLI::App* app) { return !app->get_group().empty(); }))
        names += (names.empty() ? "" : ", ") + each->get_name();
    return names;
}

/// One line that names what was not understood.
std::string explain(const CLI::App& root, const CLI::ParseError& error) {
    std::string path;
    const CLI::App& command = innermost(root, path);
    const std::string at = path.empty() ? "" : path + ": ";
    const std::string help = fmt::format("`semel {}{}--help`", path, path.empty() ? "" : " ");
    const std::string below = names_below(command);
    // What was left over says more than what is missing because of it.
    const auto left = root.remaining(true);
    if (!left.empty() && !below.empty() && !left.front().starts_with('-'))
        return fmt::format("{}no command {}: one of {}", at, in_quotes(left.front()), below);
    if (!left.empty())
        return fmt::format("{}{} is not understood here; {} shows what is", at, in_quotes(left.front()), help);
    if (!below.empty()) return fmt::format("{}a command is missing: one of {}", at, below);
    std::string what = error.what();
    constexpr std::string_view overridden = " was given a disallowed flag override";
    if (what.ends_with(overridden))
        what = fmt::format("--{} takes no value", what.substr(0, what.size() - overridden.size()));
    return fmt::format("{}{}; {} shows how", at, what, help);
}

}  // namespace

int run(int argc, char** argv) {
    CLI::App root("Makes retries harmless: however often an operation arrives, its effect happens once.", "semel");
    Action chosen;
    add_commands(root, chosen);
    int code = exit_ok;
    try {
        root.parse(argc, argv);
        code = chosen();
    } catch (const CLI::Success& asked) {
        code = root.exit(asked);
    } catch (const CLI::ParseError& error) {
        complain(explain(root, error));
        return exit_usage;
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        complain("standard output: the disk is full or the other end has gone");
        return exit_failure;
    }
    return code;
}

}  // namespace semel::cli
