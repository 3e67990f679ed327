#include "cli/exit_code.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace semel::cli {

void complain(std::string_view message) {
    std::string line;
    bool gap = false;
    for (const char c : message) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f || c == ' ') {
            gap = true;
            continue;
        }
        if (gap && !line.empty()) line += ' ';
        gap = false;
        line += c;
    }
    std::fflush(stdout);
    fmt::print(stderr, "semel: {}\n", line);
}

int fail(const Failure& failure) {
    complain(failure.message);
    return failure.code == Code::invalid ? exit_usage : exit_failure;
}

Failure refused(std::string message) { return {Code::invalid, std::move(message)}; }

}  // namespace semel::cli
