#include "cli/command_tree.hpp"

namespace semel::cli {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::size_t from = 0;
    for (std::size_t to = text.find(at); to != std::string::npos; from = to + 1, to = text.find(at, from))
        parts.push_back(text.substr(from, to - from));
    parts.push_back(text.substr(from));
    return parts;
}

OptionInfo describe(const CLI::Option& option) {
    OptionInfo info;
    for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
    if (option.get_items_expected_max() > 0) {
        info.value = option.get_type_name();
        // Choices are written in lower case with bars between: running|unknown|settled.
        if (info.value.find('|') != std::string::npos && info.value.find(' ') == std::string::npos)
            info.choices = split(info.value, '|');
    }
    // A positional's own name says what it is: FILE.
    if (info.names.empty()) info.value = option.get_name();
    info.default_value = option.get_default_str();
    info.what = option.get_description();
    info.required = option.get_required();
    return info;
}

void flatten_into(const CommandInfo& command, std::vector<const CommandInfo*>& all) {
    all.push_back(&command);
    for (const CommandInfo& each : command.commands) flatten_into(each, all);
}

}  // namespace

CommandInfo describe(const CLI::App& app, const std::string& above) {
    CommandInfo info;
    info.name = app.get_name();
    info.path = above.empty() ? info.name : above + ' ' + info.name;
    info.what = app.get_description();
    info.footer = app.get_footer();
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_group().empty()) continue;
        (option->get_positional() ? info.positionals : info.options).push_back(describe(*option));
    }
    const auto shown = [](const CLI::App* each) { return !each->get_group().empty(); };
    for (const CLI::App* each : app.get_subcommands(shown)) info.commands.push_back(describe(*each, info.path));
    return info;
}

std::vector<const CommandInfo*> flatten(const CommandInfo& command) {
    std::vector<const CommandInfo*> all;
    flatten_into(command, all);
    return all;
}

}  // namespace semel::cli
