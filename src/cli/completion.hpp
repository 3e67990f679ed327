// Completion scripts from the tree of commands.
#pragma once

#include <string>

#include "cli/command_tree.hpp"

namespace semel::cli {

std::string bash_completion(const CommandInfo& root);
std::string zsh_completion(const CommandInfo& root);
std::string fish_completion(const CommandInfo& root);

}  // namespace semel::cli
