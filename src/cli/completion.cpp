// semel completion: a script for the user's shell, made from the tree of commands so that it stays true.
#include "cli/completion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/quote.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"

namespace semel::cli {
namespace {

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    std::string text;
    for (const std::string& word : words) text += fmt::format("{}{}", text.empty() ? "" : between, word);
    return text;
}

bool takes_file(const OptionInfo& option) { return option.value == "FILE"; }

/// The words that may follow a command: its subcommands and options, or the choices of its positional.
std::vector<std::string> words_of(const CommandInfo& command) {
    std::vector<std::string> words;
    for (const CommandInfo& each : command.commands) words.push_back(each.name);
    for (const OptionInfo& each : command.positionals)
        words.insert(words.end(), each.choices.begin(), each.choices.end());
    for (const OptionInfo& each : command.options) words.insert(words.end(), each.names.begin(), each.names.end());
    return words;
}

/// Shell text in single quotes.
std::string single_quoted(std::string_view text) {
    std::string out = "'";
    for (const char c : text) {
        if (c == '\'')
            out += "'\\''";
        else
            out += c;
    }
    return out + '\'';
}

// ---- bash ------------------------------------------------------------------------------------------------------

constexpr std::string_view bash_head = R"(# bash completion for semel; made by `semel completion bash`
_semel() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} path=semel word words='' files=''
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$path $word" in
)";
constexpr std::string_view bash_middle = R"() path="$path $word" ;;
        esac
    done
    case "$path $previous" in
)";
constexpr std::string_view bash_tail = R"(            esac
            ;;
    esac
    COMPREPLY=()
    local each
    while IFS= read -r each; do COMPREPLY+=("$each"); done < <(compgen -W "$words" -- "$current")
    if [[ -n $files ]]; then
        while IFS= read -r each; do COMPREPLY+=("$each"); done < <(compgen -f -- "$current")
    fi
}
complete -o filenames -F _semel semel
)";

// ---- zsh -------------------------------------------------------------------------------------------------------

constexpr std::string_view zsh_head = R"(#compdef semel
# zsh completion for semel; made by `semel completion zsh`
_semel() {
    local current=${words[CURRENT]} previous=${words[CURRENT-1]} at=semel word
    local -a entries
    for word in "${(@)words[2,CURRENT-1]}"; do
        case "$at $word" in
)";
constexpr std::string_view zsh_middle = R"() at="$at $word" ;;
        esac
    done
    case "$at $previous" in
)";
constexpr std::string_view zsh_tail = R"(    esac
    (( ${#entries} )) && _describe -t values semel entries
}
_semel "$@"
)";

std::string paths_pattern(const std::vector<const CommandInfo*>& all, std::string_view indent) {
    std::vector<std::string> paths;
    for (const CommandInfo* each : all)
        if (each->path != "semel") paths.push_back('"' + each->path + '"');
    return std::string(indent) + joined(paths, "|");
}

std::string described(std::string_view word, std::string_view what) {
    std::string name;
    for (const char c : word) name += c == ':' ? std::string("\\:") : std::string(1, c);
    return single_quoted(fmt::format("{}:{}", name, what));
}

}  // namespace

std::string bash_completion(const CommandInfo& root) {
    const auto all = flatten(root);
    std::string text(bash_head);
    text += paths_pattern(all, "            ");
    text += bash_middle;
    for (const CommandInfo* command : all) {
        for (const OptionInfo& option : command->options) {
            if (option.value.empty()) continue;
            for (const std::string& name : option.names)
                text += fmt::format("        \"{} {}\") {} ;;\n", command->path, name,
                                    takes_file(option)
                                        ? "files=yes"
                                        : fmt::format("words={}", single_quoted(joined(option.choices, " "))));
        }
    }
    text += "        *)\n            case $path in\n";
    for (const CommandInfo* command : all) {
        const bool file = std::ranges::any_of(command->positionals, takes_file);
        text += fmt::format("                \"{}\") words={}{} ;;\n", command->path,
                            single_quoted(joined(words_of(*command), " ")), file ? " files=yes" : "");
    }
    text += bash_tail;
    return text;
}

std::string zsh_completion(const CommandInfo& root) {
    const auto all = flatten(root);
    std::string text(zsh_head);
    text += paths_pattern(all, "            ");
    text += zsh_middle;
    for (const CommandInfo* command : all) {
        for (const OptionInfo& option : command->options) {
            if (option.value.empty()) continue;
            for (const std::string& name : option.names) {
                if (takes_file(option))
                    text += fmt::format("        \"{} {}\") _files; return ;;\n", command->path, name);
                else
                    text += fmt::format("        \"{} {}\") compadd -- {}; return ;;\n", command->path, name,
                                        joined(option.choices, " "));
            }
        }
    }
    text += "    esac\n    case $at in\n";
    for (const CommandInfo* command : all) {
        std::vector<std::string> entries;
        for (const CommandInfo& each : command->commands) entries.push_back(described(each.name, each.what));
        for (const OptionInfo& each : command->positionals)
            for (const std::string& choice : each.choices) entries.push_back(described(choice, each.what));
        for (const OptionInfo& each : command->options)
            for (const std::string& name : each.names) entries.push_back(described(name, each.what));
        const bool file = std::ranges::any_of(command->positionals, takes_file);
        text += fmt::format("        \"{}\")\n            entries=({})\n{}            ;;\n", command->path,
                            joined(entries, "\n                "), file ? "            _files\n" : "");
    }
    text += zsh_tail;
    return text;
}

std::string fish_completion(const CommandInfo& root) {
    const auto all = flatten(root);
    std::vector<std::string> paths;
    for (const CommandInfo* each : all)
        if (each->path != "semel") paths.push_back(single_quoted(each->path));
    std::string text = fmt::format(
        "# fish completion for semel; made by `semel completion fish`\n"
        "function __semel_at\n"
        "    set -l at semel\n"
        "    set -l words (commandline -opc)\n"
        "    for word in $words[2..-1]\n"
        "        if contains -- \"$at $word\" {}\n"
        "            set at \"$at $word\"\n"
        "        end\n"
        "    end\n"
        "    test \"$at\" = \"$argv\"\n"
        "end\n"
        "complete -c semel -f\n",
        joined(paths, " "));
    for (const CommandInfo* command : all) {
        const std::string when = single_quoted("__semel_at " + command->path);
        for (const CommandInfo& each : command->commands)
            text += fmt::format("complete -c semel -n {} -a {} -d {}\n", when, each.name, single_quoted(each.what));
        for (const OptionInfo& each : command->positionals) {
            if (!each.choices.empty())
                text += fmt::format("complete -c semel -n {} -a {} -d {}\n", when,
                                    single_quoted(joined(each.choices, " ")), single_quoted(each.what));
            else if (takes_file(each))
                text += fmt::format("complete -c semel -n {} -F\n", when);
        }
        for (const OptionInfo& each : command->options) {
            std::string names;
            for (const std::string& name : each.names)
                names += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                                : fmt::format(" -s {}", name.substr(1));
            std::string value;
            if (takes_file(each))
                value = " -r -F";
            else if (!each.choices.empty())
                value = fmt::format(" -x -a {}", single_quoted(joined(each.choices, " ")));
            else if (!each.value.empty())
                value = " -x";
            text += fmt::format("complete -c semel -n {}{}{} -d {}\n", when, names, value, single_quoted(each.what));
        }
    }
    return text;
}

void add_completion(CLI::App& root, Action& chosen) {
    const auto shell = std::make_shared<std::string>();
    CLI::App* const command = root.add_subcommand("completion", "print a completion script for a shell");
    command->footer("For this session of bash: source <(semel completion bash)");
    command->add_option("SHELL", *shell, "the shell: bash, zsh or fish")->required()->type_name("bash|zsh|fish");
    when_asked(*command, chosen, [shell, &root] {
        const CommandInfo tree = describe(root);
        if (*shell == "bash")
            fmt::print("{}", bash_completion(tree));
        else if (*shell == "zsh")
            fmt::print("{}", zsh_completion(tree));
        else if (*shell == "fish")
            fmt::print("{}", fish_completion(tree));
        else
            return fail(refused(fmt::format("shell {}: must be bash, zsh or fish", in_quotes(*shell))));
        return int{exit_ok};
    });
}

}  // namespace semel::cli
