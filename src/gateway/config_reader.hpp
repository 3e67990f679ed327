// Reads semel.yaml. Everything that is wrong with it is told at once; docs/configuration.md says what is right.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.hpp"
#include "settings/setting.hpp"

namespace semel::gateway {

struct ReadConfig {
    std::optional<Config> config{};         ///< there if and only if there is no problem
    std::vector<ConfigProblem> problems{};  ///< in the order of lines
};

/// Reads the file, with the process's environment. Files that it names (certificates, keys) are not looked at.
ReadConfig read_config(const std::string& path);

/// As read_config, of a text; `file` is its name in messages, `environment` gives a variable's value or nullptr.
ReadConfig read_config_text(std::string_view text, const std::string& file, const Environment& environment);

/// Every kind of mapping with the names it may hold: what packaging/semel.schema.json has to say, too.
std::vector<Shape> config_shapes();

}  // namespace semel::gateway
