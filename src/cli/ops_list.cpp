// semel ops list: the operations a store remembers.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_record.hpp"

namespace semel::cli {
namespace {

constexpr std::uint64_t page_max = 10'000;

struct Options {
    std::string store;
    bool json = false;
    FilterWords filter;
    std::string limit = "50";
    std::optional<std::string> cursor;
};

TimePoint born(const Record& record) {
    return record.created != TimePoint{} ? record.created : record.settled_at.value_or(TimePoint{});
}

void print_json(const Page& page, TimePoint now) {
    JsonWriter json;
    json.begin_object().name("operations").begin_array();
    for (const Record& record : page.records) write_record(json, record, now);
    json.end_array();
    if (page.next.empty())
        json.name("next").null();
    else
        json.member("next", page.next);
    json.member("corrupt", page.corrupt).end_object();
    fmt::print("{}\n", json.text());
}

void print_table(const Page& page, TimePoint now) {
    if (page.records.empty()) {
        fmt::print("no such operations\n");
        return;
    }
    fmt::print("{}", record_table(page.records, now));
    if (!page.next.empty()) fmt::print("more: --cursor {}\n", page.next);
}

int run(const Options& options) {
    const auto filter = parse_filter(options.filter);
    if (!filter) return fail(filter.failure());
    const auto limit = parse_count("--limit", options.limit, 1, page_max);
    if (!limit) return fail(limit.failure());
    std::string cursor;
    if (options.cursor) {
        auto parsed = parse_cursor(*options.cursor);
        if (!parsed) return fail(parsed.failure());
        cursor = std::move(*parsed);
    }
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto store = open_store(*url, Purpose::read);
    if (!store) return fail(store.failure());
    auto page = (*store)->list(*filter, cursor, *limit);
    if (!page) return fail(page.failure());
    const auto now = (*store)->now();
    if (!now) return fail(now.failure());
    std::ranges::stable_sort(page->records, std::ranges::greater{}, born);
    if (options.json)
        print_json(*page, *now);
    else
        print_table(*page, *now);
    if (page->corrupt == 0) return exit_ok;
    complain(
        fmt::format("{}: {} operations cannot be trusted (their checksum is wrong); restore the store from a backup",
                    (*store)->text(), page->corrupt));
    return exit_failure;
}

}  // namespace

void add_ops_list(CLI::App& ops, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = ops.add_subcommand("list", "list operations");
    command->footer(
        "Pages follow the store's own order, and the newest come first within a page. With --json one object:\n"
        "{\"operations\": [...], \"next\": the cursor of the next page or null, \"corrupt\": rows that cannot be "
        "trusted}.\n"
        "Corrupt rows make the exit code 1.");
    add_store_option(*command, options->store);
    FilterWords& filter = options->filter;
    command
        ->add_option("--scope", filter.scope,
                     "of this scope: NAME under any tenant, TENANT/NAME, either with #GENERATION")
        ->type_name("SCOPE");
    command->add_option("--tenant", filter.tenant, "of this tenant")->type_name("TENANT");
    command->add_option("--state", filter.state, "in this state")->type_name(std::string(state_choices));
    command->add_option("--older-than", filter.older_than, "created longer ago than this, as in 30m or 7d")
        ->type_name("DURATION");
    command->add_option("--newer-than", filter.newer_than, "created within this time")->type_name("DURATION");
    command->add_option("--correlation", filter.correlation, "with this correlation id")->type_name("ID");
    command->add_option("--limit", options->limit, "at most this many, up to 10000")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--cursor", options->cursor, "go on after an earlier page")->type_name("CURSOR");
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
