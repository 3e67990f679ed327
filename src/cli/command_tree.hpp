// The tree of commands as plain values: what completion scripts and the man page are made from.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace semel::cli {

struct OptionInfo {
    std::vector<std::string> names;  ///< with their dashes; empty for a positional
    std::string value;               ///< what follows, as in FILE; empty for a flag
    std::vector<std::string> choices;
    std::string default_value;
    std::string what;
    bool required = false;
};

struct CommandInfo {
    std::string path;  ///< "semel ops list"
    std::string name;  ///< "list"
    std::string what;
    std::string footer;
    std::vector<OptionInfo> options;
    std::vector<OptionInfo> positionals;
    std::vector<CommandInfo> commands;
};

/// All but what is hidden.
CommandInfo describe(const CLI::App& app, const std::string& above = "");

/// The command itself and everything below it, parents first.
std::vector<const CommandInfo*> flatten(const CommandInfo& command);

}  // namespace semel::cli
