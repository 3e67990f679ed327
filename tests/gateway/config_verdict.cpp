// What the configuration's reader says, for tests in other languages. One line per argument:
//
//     config_verdict FILE…          `ok`, or the problems, separated by tabs
//     config_verdict --same A B…    per pair: `same` or `different`, but for their names; or the problems of either
//     config_verdict --shapes       per kind of mapping: `kind name name…`
#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "gateway/config_reader.hpp"

namespace {

using semel::gateway::ReadConfig;

std::string verdict(const ReadConfig& read) {
    if (read.config) return "ok";
    std::string text;
    for (const auto& problem : read.problems) text += (text.empty() ? "" : "\t") + problem.text();
    return text;
}

std::string compare(const char* left_path, const char* right_path) {
    ReadConfig left = semel::gateway::read_config(left_path);
    ReadConfig right = semel::gateway::read_config(right_path);
    if (!left.config || !right.config) return verdict(left) + "\t" + verdict(right);
    for (ReadConfig* read : {&left, &right}) {
        read->config->file.clear();
        for (auto& route : read->config->routes) route.mark = {};
    }
    return *left.config == *right.config ? "same" : "different";
}

}  // namespace

int main(int argc, char** argv) {
    const std::span<char*> arguments(argv + 1, static_cast<std::size_t>(argc - 1));
    const std::string_view first = arguments.empty() ? "" : arguments[0];
    if (first == "--shapes") {
        for (const auto& shape : semel::gateway::config_shapes()) {
            std::printf("%.*s", static_cast<int>(shape.kind.size()), shape.kind.data());
            for (const auto name : shape.names) std::printf(" %.*s", static_cast<int>(name.size()), name.data());
            std::printf("\n");
        }
    } else if (first == "--same") {
        for (std::size_t i = 1; i + 1 < arguments.size(); i += 2)
            std::printf("%s\n", compare(arguments[i], arguments[i + 1]).c_str());
    } else {
        for (const char* path : arguments) std::printf("%s\n", verdict(semel::gateway::read_config(path)).c_str());
    }
    return 0;
}
