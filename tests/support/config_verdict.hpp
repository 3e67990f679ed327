// What a reader of configurations says, for tests in other languages (config_schema.py). One line per argument:
//
//     config_verdict FILE…          `ok`, or the problems, separated by tabs
//     config_verdict --same A B…    per pair: `same` or `different`, but for their names; or the problems of either
//     config_verdict --shapes       per kind of mapping: `kind name name…`
#pragma once

#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "settings/setting.hpp"

namespace semel::test {

/// "ok", or the problems of what was read: anything with a `config`, and `problems` if there is none.
template <class Read>
std::string verdict(const Read& read) {
    if (read.config) return "ok";
    std::string text;
    for (const auto& problem : read.problems) text += (text.empty() ? "" : "\t") + problem.text();
    return text;
}

/// The program. `same(config, config)` ignores the files' names; both configurations are its own to change. Without --same:
/// nullptr.
template <class ReadFile, class Same>
int config_verdict(int argc, char** argv, const std::vector<settings::Shape>& shapes, ReadFile read, Same same) {
    const std::span<char*> arguments(argv + 1, static_cast<std::size_t>(argc - 1));
    const std::string_view first = arguments.empty() ? "" : arguments[0];
    if (first == "--shapes") {
        for (const auto& shape : shapes) {
            std::printf("%.*s", static_cast<int>(shape.kind.size()), shape.kind.data());
            for (const auto name : shape.names) std::printf(" %.*s", static_cast<int>(name.size()), name.data());
            std::printf("\n");
        }
        return 0;
    }
    if constexpr (!std::is_null_pointer_v<Same>) {
        for (std::size_t i = 1; first == "--same" && i + 1 < arguments.size(); i += 2) {
            auto left = read(arguments[i]);
            auto right = read(arguments[i + 1]);
            if (!left.config || !right.config)
                std::printf("%s\t%s\n", verdict(left).c_str(), verdict(right).c_str());
            else
                std::printf("%s\n", same(*left.config, *right.config) ? "same" : "different");
        }
        if (first == "--same") return 0;
    }
    for (const char* path : arguments) std::printf("%s\n", verdict(read(path)).c_str());
    return 0;
}

}  // namespace semel::test
