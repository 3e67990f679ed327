// semel consumer replay: "these again, on purpose".
#include <fmt/format.h>

#include <memory>

#include "base/json.hpp"
#include "cli/command.hpp"
#include "cli/dead_choice.hpp"
#include "cli/exit_code.hpp"
#include "consumers/group.hpp"

namespace semel::cli {
namespace {

struct Options {
    std::string store;
    bool json = false;
    std::string name;
};

int run(const Options& options) {
    const auto name = parse_consumer("NAME", options.name);
    if (!name) return fail(name.failure());
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto inbox = open_inbox(*url);
    if (!inbox) return fail(inbox.failure());
    const auto generation = start_replay(**inbox, *name);
    if (!generation) {
        // A name that nobody has is a finding about the store, not malformed input.
        complain(fmt::format("{} ({})", generation.failure().message, (*inbox)->text()));
        return exit_failure;
    }
    if (options.json) {
        JsonWriter json;
        json.begin_object().member("consumer", *name).member("generation", *generation).end_object();
        fmt::print("{}\n", json.text());
    } else {
        fmt::print(
            "consumer {}: generation {} begins; whatever is delivered to it from now on counts as never seen and is "
            "applied\n",
            *name, *generation);
    }
    return exit_ok;
}

}  // namespace

void add_consumer_replay(CLI::App& consumer, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command =
        consumer.add_subcommand("replay", "apply messages again on purpose: starts a new generation");
    command->footer(
        "What earlier generations did stays known, and no longer absorbs anything. So: stop the consumer in order, so "
        "that all\n"
        "it did is acknowledged; start the new generation; set the broker back to where the replay begins; start the "
        "consumer.\n"
        "Refused while anything waits on the consumer's shelf, or a member is at work or has crashed: exit code 1.\n"
        "Example: semel consumer replay --store sqlite:semel.db orders");
    command->add_option("NAME", options->name, "the consumer's name")->required()->type_name("");
    add_store_option(*command, options->store);
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
