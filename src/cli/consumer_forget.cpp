// semel consumer forget: the sweep no longer waits for a consumer that is gone for good.
#include <fmt/format.h>

#include <algorithm>
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

void print_done(const Options& options, std::int64_t members) {
    if (options.json) {
        JsonWriter json;
        json.begin_object().member("consumer", options.name).member("members", members).end_object();
        fmt::print("{}\n", json.text());
        return;
    }
    if (members == 0) {
        fmt::print("consumer {}: it has no members, so the sweep does not wait for it\n", options.name);
        return;
    }
    fmt::print(
        "consumer {}: the progress of its members ({}) is forgotten, and the sweep no longer waits for them\n"
        "What they did and had not acknowledged can now be swept after its retention; if the broker still delivered it "
        "after\nthat, it would be applied again. A member that is not gone after all notes its progress again within "
        "seconds.\n",
        options.name, members);
}

int run(const Options& options) {
    const auto name = parse_consumer("NAME", options.name);
    if (!name) return fail(name.failure());
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto inbox = open_inbox(*url);
    if (!inbox) return fail(inbox.failure());
    const auto groups = report_groups(**inbox);
    if (!groups) return fail(groups.failure());
    const auto group = std::ranges::find(*groups, *name, &GroupReport::name);
    const auto forgotten = forget_members(**inbox, *name);
    if (!forgotten) return fail(forgotten.failure());
    if (group == groups->end() || !*forgotten) {
        complain(fmt::format("consumer {}: there is none of that name in {}", *name, (*inbox)->text()));
        return exit_failure;
    }
    print_done(options, group->members);
    return exit_ok;
}

}  // namespace

void add_consumer_forget(CLI::App& consumer, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command =
        consumer.add_subcommand("forget", "no longer let the sweep wait for a consumer that is gone for good");
    command->footer(
        "The sweep keeps what a consumer did and may not have acknowledged, however long that lasts. Members that end in order\n"
        "leave nothing to wait for, and those that crash are forgotten by the next that runs for an hour; this is for a consumer\n"
        "that will never run again. Its messages, letters and operations stay. No such consumer: exit code 1.\n"
        "Example: semel consumer forget --store sqlite:semel.db orders");
    command->add_option("NAME", options->name, "the consumer's name")->required()->type_name("");
    add_store_option(*command, options->store);
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
