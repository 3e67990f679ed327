// What every subcommand has in common. A subcommand adds itself to the tree of commands and leaves, when it is the one
// that was asked for, what is to be done; the tree is also what completion and the man page are made from.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "cli/arguments.hpp"
#include "cli/open_store.hpp"

namespace semel::cli {

/// Does the work and returns the exit code.
using Action = std::function<int()>;

/// Remembers `action` as what is to be done if `command` was asked for; by then all its options are read.
inline void when_asked(CLI::App& command, Action& chosen, Action action) {
    command.callback([&chosen, action = std::move(action)] { chosen = action; });
}

/// --store, with SEMEL_STORE as its default.
inline void add_store_option(CLI::App& command, std::string& into) {
    command.add_option("--store", into, "where the operations are: sqlite:PATH or postgres://USER@HOST/DATABASE")
        ->envname("SEMEL_STORE")
        ->type_name("URL");
}

/// SCOPE KEY, or the id alone.
inline void add_operation(CLI::App& command, OperationWords& into) {
    command.add_option("SCOPE", into.first, "the operation's scope, or its id and no key")->required()->type_name("");
    command.add_option("KEY", into.key, "its key")->type_name("");
}

inline void add_json_option(CLI::App& command, bool& into) {
    command.add_flag("--json", into, "write JSON for programs; the names in it are stable");
}

// One function per subcommand, each in a file of its own.
void add_migrate(CLI::App& root, Action& chosen);
void add_ops_list(CLI::App& ops, Action& chosen);
void add_ops_show(CLI::App& ops, Action& chosen);
void add_ops_resolve(CLI::App& ops, Action& chosen);
void add_ops_sweep(CLI::App& ops, Action& chosen);
void add_dead_list(CLI::App& dead, Action& chosen);
void add_dead_show(CLI::App& dead, Action& chosen);
void add_dead_retry(CLI::App& dead, Action& chosen);
void add_dead_drop(CLI::App& dead, Action& chosen);
void add_consumer_list(CLI::App& consumer, Action& chosen);
void add_consumer_replay(CLI::App& consumer, Action& chosen);
void add_consumer_forget(CLI::App& consumer, Action& chosen);
void add_key(CLI::App& root, Action& chosen);
void add_fingerprint(CLI::App& root, Action& chosen);
void add_gateway(CLI::App& root, Action& chosen);
void add_relay(CLI::App& root, Action& chosen);
void add_call(CLI::App& root, Action& chosen);
CLI::App& add_outbox(CLI::App& root, Action& chosen);  ///< the command, for those below it
void add_outbox_stuck(CLI::App& outbox, Action& chosen);
void add_verify(CLI::App& root, Action& chosen);
void add_demo(CLI::App& root, Action& chosen);
void add_completion(CLI::App& root, Action& chosen);
void add_man(CLI::App& root, Action& chosen);

}  // namespace semel::cli
