// semel dead retry: puts dead letters back on their consumer's shelf.
#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/dead_each.hpp"

namespace semel::cli {
namespace {

Result<std::optional<DoneLetter>> retry(Inbox& inbox, const DeadLetter& letter) {
    const auto generation = retry_dead(inbox, letter.number);
    if (!generation) return generation.failure();
    if (!*generation) return std::optional<DoneLetter>{};
    return std::optional(DoneLetter{letter.number, letter.consumer, **generation});
}

std::string line(const DoneLetter& letter) {
    return fmt::format("dead letter {}: back on the shelf of {}, generation {}", letter.number, letter.consumer,
                       *letter.generation);
}

std::string last_line(const std::vector<DoneLetter>& letters) {
    const bool one = letters.size() == 1;
    return fmt::format("a running consumer of that name ({}) picks {} up within seconds; until one runs, {}",
                       consumers_of(letters), one ? "it" : "them", one ? "it waits" : "they wait");
}

}  // namespace

void add_dead_retry(CLI::App& dead, Action& chosen) {
    const auto options = std::make_shared<EachOptions>();
    CLI::App* const command = dead.add_subcommand("retry", "try dead letters again");
    command->footer(
        "Each goes back on its consumer's shelf under a new generation, with as many tries as a new message; the "
        "original\n"
        "stays as it was settled. That generation has not seen the message: its effect runs, even if it ran before. Oldest\n"
        "first, each in a transaction of its own. A letter that is not there: the others are retried, the exit code is 1.\n"
        "Example: semel dead retry --store sqlite:semel.db --all --consumer orders --reason tries-exhausted");
    add_choice(*command, options->choice);
    add_store_option(*command, options->store);
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] {
        return for_each_letter(*options, {.name = "retried", .act = retry, .line = line, .last_line = last_line});
    });
}

}  // namespace semel::cli
