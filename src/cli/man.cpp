// semel man (hidden): the man page, made from the tree of commands. packaging/man/semel.1 is its output.
#include <fmt/format.h>

#include "cli/command.hpp"
#include "cli/command_tree.hpp"
#include "cli/exit_code.hpp"

namespace semel::cli {
namespace {

/// Text that roff prints as it is.
std::string roff(std::string_view text) {
    std::string out;
    bool line_begins = true;
    for (const char c : text) {
        if (line_begins && (c == '.' || c == '\'')) out += "\\&";
        line_begins = c == '\n';
        if (c == '\\')
            out += "\\e";
        else if (c == '-')
            out += "\\-";
        else
            out += c;
    }
    return out;
}

std::string option_line(const OptionInfo& option) {
    std::string names;
    for (const std::string& name : option.names)
        names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", roff(name));
    std::string value = option.value.empty() ? "" : fmt::format("\\fI{}\\fR", roff(option.value));
    if (names.empty()) return value;
    return value.empty() ? names : names + ' ' + value;
}

std::string option_entry(const OptionInfo& option) {
    std::string what = roff(option.what);
    if (!option.default_value.empty()) what += fmt::format(" (default {})", roff(option.default_value));
    return fmt::format(".TP\n{}\n{}.\n", option_line(option), what);
}

std::string command_section(const CommandInfo& command) {
    std::string text = fmt::format(".SS {}\n{}.\n", roff(command.path), roff(command.what));
    for (const OptionInfo& each : command.positionals) text += option_entry(each);
    for (const OptionInfo& each : command.options)
        if (each.names.back() != "--help") text += option_entry(each);
    if (!command.footer.empty()) text += fmt::format(".PP\n{}\n", roff(command.footer));
    return text;
}

std::string man_page(const CommandInfo& root) {
    std::string text = fmt::format(
        ".\\\" Made by `semel man`.\n"
        ".TH SEMEL 1 \"\" \"semel {}\" \"User Commands\"\n"
        ".SH NAME\nsemel \\- makes retries harmless\n"
        ".SH SYNOPSIS\n.B semel\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n"
        ".SH DESCRIPTION\n{}\n.PP\nEvery command has \\fB\\-\\-help\\fR.\n.SH COMMANDS\n",
        SEMEL_VERSION, roff(root.what));
    // One that only has others below it says nothing of its own; root has its own words above.
    const auto does_something = [&](const CommandInfo& each) {
        return each.commands.empty() || (&each != &root && each.options.size() > 1);
    };
    for (const CommandInfo* each : flatten(root))
        if (does_something(*each)) text += command_section(*each);
    text +=
        ".SH ENVIRONMENT\n.TP\n.B SEMEL_STORE\nThe store where \\fB\\-\\-store\\fR is not given.\n"
        ".SH EXIT STATUS\n.TP\n.B 0\nAll is well.\n.TP\n.B 1\nA finding, or a failure.\n"
        ".TP\n.B 2\nMalformed input or configuration; nothing was done.\n";
    return text;
}

}  // namespace

void add_man(CLI::App& root, Action& chosen) {
    CLI::App* const command = root.add_subcommand("man", "print the man page");
    command->group("");  // for packaging, not for users
    when_asked(*command, chosen, [&root] {
        fmt::print("{}", man_page(describe(root)));
        return int{exit_ok};
    });
}

}  // namespace semel::cli
