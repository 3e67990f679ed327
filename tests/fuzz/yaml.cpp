// Any bytes as a configuration. There is a configuration or there are problems; a problem is one line of printable text
// within the file's lines, and shows nothing that came from the environment; what is accepted can be used.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "gateway/config_reader.hpp"
#include "gateway/route_match.hpp"

namespace {

using namespace semel::gateway;  // NOLINT(google-build-using-namespace): one subject, one file

constexpr const char* from_environment = "sqlite:from-the-environment";

const char* environment(const std::string& name) { return name.starts_with('N') ? nullptr : from_environment; }

/// UTF-8 of ours included: the texts of problems are written by us, what they quote is not.
bool is_one_line(std::string_view text) {
    return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

void check(const ConfigProblem& problem, std::string_view text) {
    const auto lines = 2 + std::ranges::count(text, '\n');  // yaml-cpp may name the one behind the last
    SEMEL_ASSERT(problem.mark.line >= 0 && problem.mark.line <= lines, "a line of the file");
    SEMEL_ASSERT(!problem.message.empty() && is_one_line(problem.text()), "one line");
    SEMEL_ASSERT(text.find("from-the-env") != std::string_view::npos ||
                     problem.message.find("from-the-env") == std::string::npos,
                 "nothing of the environment is shown");
}

void check(const Config& config) {
    SEMEL_ASSERT(!config.store.empty() && !config.listen.address.host.empty(), "what is needed is there");
    SEMEL_ASSERT(!config.upstream.servers.empty(), "what is needed is there");
    const RouteTable table(config.routes);
    for (const Route& route : config.routes) {
        SEMEL_ASSERT(semel::Scope::make("", route.name, route.generation).ok(), "its name fits a scope");
        SEMEL_ASSERT(!route.key_from.empty(), "a key is somewhere");
        std::string path;
        for (const std::string& segment : route.match.segments) path += "/" + (segment == "{}" ? "x" : segment);
        if (route.match.rest) path += "/";
        SEMEL_ASSERT(table.find(route.match.method, path) != nullptr, "what it matches is found");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const ReadConfig read = read_config_text(text, "semel.yaml", environment);
    SEMEL_ASSERT(read.config.has_value() == read.problems.empty(), "either or");
    SEMEL_ASSERT(read.problems.size() <= Problems::count_max + 1, "within the limit");
    for (const ConfigProblem& problem : read.problems) check(problem, text);
    if (read.config) check(*read.config);
    return 0;
}
