// semel dead drop: forgets dead letters.
#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/dead_each.hpp"
#include "cli/exit_code.hpp"

namespace semel::cli {
namespace {

struct Options {
    EachOptions each;
    bool yes = false;
};

Result<std::optional<DoneLetter>> drop(Inbox& inbox, const DeadLetter& letter) {
    const auto dropped = drop_dead(inbox, letter.number);
    if (!dropped) return dropped.failure();
    if (!*dropped) return std::optional<DoneLetter>{};
    return std::optional(DoneLetter{letter.number, letter.consumer, std::nullopt});
}

std::string line(const DoneLetter& letter) {
    return fmt::format("dead letter {} of {}: dropped", letter.number, letter.consumer);
}

std::string last_line(const std::vector<DoneLetter>& letters) {
    return fmt::format("{} of {} forgotten; what the ledger knows about {} stays", letters.size(),
                       consumers_of(letters), letters.size() == 1 ? "it" : "them");
}

int run(const Options& options) {
    if (const auto choice = parse_choice(options.each.choice); !choice) return fail(choice.failure());
    if (options.each.choice.all && !options.yes)
        return fail(refused(fmt::format("--all: forgets every such letter of {} for good; add --yes if that is meant",
                                        *options.each.choice.consumer)));
    return for_each_letter(options.each, {.name = "dropped", .act = drop, .line = line, .last_line = last_line});
}

}  // namespace

void add_dead_drop(CLI::App& dead, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = dead.add_subcommand("drop", "forget dead letters");
    command->footer(
        "The message is gone for good; its operation stays settled, so that another delivery of it is absorbed. A letter that\n"
        "is not there: the others are dropped, and the exit code is 1.\n"
        "Example: semel dead drop --store sqlite:semel.db 17 18");
    add_choice(*command, options->each.choice);
    command->add_flag("--yes", options->yes, "with --all: that is meant");
    add_store_option(*command, options->each.store);
    add_json_option(*command, options->each.json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
