// A place in a configuration file.
#pragma once

#include <string>

namespace semel::settings {

/// A place in the file, for messages: "semel.yaml:12".
struct Mark {
    std::string file{};
    int line = 0;  ///< from 1
    [[nodiscard]] std::string text() const { return file + ":" + std::to_string(line); }
    bool operator==(const Mark&) const = default;
};

}  // namespace semel::settings
