// What the reader of relay configurations says, for tests in other languages. One line per argument:
//
//     relay_config_verdict FILE…       `ok`, or the problems, separated by tabs
//     relay_config_verdict --shapes    per kind of mapping: `kind name name…`
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "relay/relay_config.hpp"

namespace {

std::string verdict(const char* path) {
    const auto read = semel::relay::read_relay_config(path);
    if (read.config) return "ok";
    std::string text;
    for (const auto& problem : read.problems) text += (text.empty() ? "" : "\t") + problem.text();
    return text;
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char*> arguments(argv + 1, static_cast<std::size_t>(argc - 1));
    if (!arguments.empty() && std::string_view(arguments[0]) == "--shapes") {
        for (const auto& shape : semel::relay::relay_config_shapes()) {
            std::printf("%.*s", static_cast<int>(shape.kind.size()), shape.kind.data());
            for (const auto name : shape.names) std::printf(" %.*s", static_cast<int>(name.size()), name.data());
            std::printf("\n");
        }
        return 0;
    }
    for (const char* path : arguments) std::printf("%s\n", verdict(path).c_str());
    return 0;
}
