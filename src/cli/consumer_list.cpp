// semel consumer list: how every consumer stands.
#include <fmt/format.h>

#include <memory>

#include "base/duration.hpp"
#include "base/json.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_record.hpp"
#include "cli/table.hpp"
#include "consumers/group.hpp"
#include "consumers/in_transaction.hpp"

namespace semel::cli {
namespace {

struct Options {
    std::string store;
    bool json = false;
};

/// A member that has just begun has not come anywhere yet.
std::optional<TimePoint> progress_of(const GroupReport& group) {
    if (group.progress == TimePoint{}) return std::nullopt;
    return group.progress;
}

void print_json(const std::vector<GroupReport>& groups, TimePoint now) {
    JsonWriter json;
    json.begin_object().name("consumers").begin_array();
    for (const GroupReport& group : groups) {
        std::optional<std::string> progress;
        std::optional<std::int64_t> age;
        if (const auto at = progress_of(group)) {
            progress = to_text(*at);
            age = std::chrono::duration_cast<std::chrono::milliseconds>(now - *at).count();
        }
        json.begin_object().member("name", group.name).member("generation", group.generation);
        json.member("waiting", group.waiting).member("held", group.held).member("dead", group.dead);
        json.member("members", group.members).member("progress", progress).member("progress_age_ms", age).end_object();
    }
    json.end_array().end_object();
    fmt::print("{}\n", json.text());
}

void print_table(const std::vector<GroupReport>& groups, TimePoint now) {
    using enum Table::Align;
    Table table({{"NAME"},
                 {"GENERATION", right},
                 {"WAITING", right},
                 {"HELD", right},
                 {"DEAD", right},
                 {"MEMBERS", right},
                 {"PROGRESS AGE", right}});
    for (const GroupReport& group : groups) {
        const auto progress = progress_of(group);
        table.add({group.name, std::to_string(group.generation), std::to_string(group.waiting),
                   std::to_string(group.held), std::to_string(group.dead), std::to_string(group.members),
                   progress ? age_text(now - *progress) : "-"});
    }
    fmt::print("{}", table.text());
}

int run(const Options& options) {
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto inbox = open_inbox(*url);
    if (!inbox) return fail(inbox.failure());
    const auto groups = report_groups(**inbox);
    if (!groups) return fail(groups.failure());
    const auto now = in_transaction(**inbox, [](TimePoint at) -> Result<TimePoint> { return at; });
    if (!now) return fail(now.failure());
    if (options.json)
        print_json(*groups, *now);
    else if (groups->empty())
        fmt::print("no consumers\n");
    else
        print_table(*groups, *now);
    return exit_ok;
}

}  // namespace

void add_consumer_list(CLI::App& consumer, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = consumer.add_subcommand("list", "list consumers and what waits for them");
    command->footer(
        "WAITING messages have failed and wait for their next try, or wait behind one of those; HELD ones wait for a gap to be\n"
        "filled. PROGRESS AGE: everything that was settled longer ago than this is acknowledged at the broker; the sweep waits\n"
        "for the slowest member of all consumers. With --json one object: {\"consumers\": [...]}.\n"
        "Example: semel consumer list --store sqlite:semel.db");
    add_store_option(*command, options->store);
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
