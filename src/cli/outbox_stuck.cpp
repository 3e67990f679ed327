// semel outbox stuck: events that their broker refuses, and what a person decides about them.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/duration.hpp"
#include "base/json.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/dead_choice.hpp"
#include "cli/exit_code.hpp"
#include "cli/table.hpp"

namespace semel::cli {
namespace {

constexpr std::size_t shown_max = 1000;

struct Options {
    std::string store;
    std::string outbox = "main";
    std::string number;
    std::string who;
    std::string why;
    bool json = false;
};

Result<std::unique_ptr<OutboxTable>> open(const Options& options) {
    const auto url = parse_store_url(options.store);
    if (!url) return url.failure();
    if (url->kind == StoreUrl::Kind::sqlite && !std::filesystem::exists(url->place))
        return refused(fmt::format("{}: there is no such file (--store)", url->text()));
    return open_outbox(*url, options.outbox, "");
}

void print_json(const std::vector<OutboxStuck>& all) {
    JsonWriter json;
    json.begin_object().name("stuck").begin_array();
    for (const OutboxStuck& each : all) {
        json.begin_object().member("number", each.place.sequence).member("id", each.id).member("topic", each.topic);
        json.member("ordering_key", each.ordering_key).member("tries", static_cast<std::int64_t>(each.tries));
        json.member("since", micros(each.since)).member("retry_at", micros(each.retry_at));
        json.member("error", each.error).end_object();
    }
    json.end_array().end_object();
    fmt::print("{}\n", json.text());
}

int list(const Options& options) {
    const auto table = open(options);
    if (!table) return fail(table.failure());
    const auto all = (*table)->stuck(shown_max);
    if (!all) return fail(all.failure());
    if (options.json) {
        print_json(*all);
        return exit_ok;
    }
    if (all->empty()) {
        fmt::print("nothing is stuck\n");
        return exit_ok;
    }
    Table shown({{"NUMBER", Table::Align::right},
                 {"EVENT"},
                 {"TOPIC"},
                 {"ORDERING KEY"},
                 {"TRIES", Table::Align::right},
                 {"WHY"}});
    for (const OutboxStuck& each : *all)
        shown.add({std::to_string(each.place.sequence), printable(each.id), printable(each.topic),
                   printable(each.ordering_key), std::to_string(each.tries), printable(each.error)});
    fmt::print("{}", shown.text());
    return exit_ok;
}

void print_json(const std::vector<OutboxDropped>& all) {
    JsonWriter json;
    json.begin_object().name("dropped").begin_array();
    for (const OutboxDropped& each : all) {
        json.begin_object()
            .member("number", each.decision.sequence)
            .member("id", each.id)
            .member("source", each.source);
        json.member("type", each.type).member("topic", each.topic).member("ordering_key", each.ordering_key);
        json.member("staged_at", micros(each.staged_at)).member("tries", static_cast<std::int64_t>(each.tries));
        json.member("error", each.error).member("dropped_at", micros(each.dropped_at));
        json.member("who", each.decision.who).member("why", each.decision.why).end_object();
    }
    json.end_array().end_object();
    fmt::print("{}\n", json.text());
}

int list_dropped(const Options& options) {
    const auto table = open(options);
    if (!table) return fail(table.failure());
    const auto all = (*table)->dropped(shown_max);
    if (!all) return fail(all.failure());
    if (options.json) {
        print_json(*all);
        return exit_ok;
    }
    if (all->empty()) {
        fmt::print("nothing was dropped\n");
        return exit_ok;
    }
    Table shown(
        {{"NUMBER", Table::Align::right}, {"EVENT"}, {"TOPIC"}, {"ORDERING KEY"}, {"DROPPED"}, {"WHO"}, {"WHY"}});
    for (const OutboxDropped& each : *all)
        shown.add({std::to_string(each.decision.sequence), printable(each.id), printable(each.topic),
                   printable(each.ordering_key), to_text(each.dropped_at), printable(each.decision.who),
                   printable(each.decision.why)});
    fmt::print("{}", shown.text());
    return exit_ok;
}

template <class Act>
int change(const Options& options, std::string_view done, Act act) {
    const auto number = parse_number("NUMBER", options.number);
    if (!number) return fail(number.failure());
    const auto table = open(options);
    if (!table) return fail(table.failure());
    const auto changed = act(**table, *number);
    if (!changed) return fail(changed.failure());
    if (!*changed) {
        complain(fmt::format("event {} is not stuck in the outbox {}", *number, options.outbox));
        return exit_failure;
    }
    if (options.json) {
        JsonWriter json;
        json.begin_object().member("number", *number).member("done", done);
        if (!options.why.empty()) json.member("who", options.who).member("why", options.why);
        fmt::print("{}\n", json.end_object().text());
    } else {
        fmt::print("event {}: {}\n", *number, done);
    }
    return exit_ok;
}

int retry(const Options& options) {
    return change(options, "tried again now",
                  [](OutboxTable& table, std::int64_t number) { return table.retry(number); });
}

int drop(const Options& options) {
    if (auto fine = check(OutboxDrop{.who = options.who, .why = options.why}); !fine)
        return fail(refused(fine.failure().message));
    return change(options, "dropped", [&](OutboxTable& table, std::int64_t number) {
        return table.drop({.sequence = number, .who = options.who, .why = options.why});
    });
}

CLI::App* add(CLI::App& stuck, const char* name, const char* what, const std::shared_ptr<Options>& options) {
    CLI::App* const command = stuck.add_subcommand(name, what);
    add_store_option(*command, options->store);
    command->add_option("--outbox", options->outbox, "of this outbox")->type_name("NAME")->capture_default_str();
    add_json_option(*command, options->json);
    return command;
}

}  // namespace

void add_outbox_stuck(CLI::App& outbox, Action& chosen) {
    CLI::App* const stuck = outbox.add_subcommand("stuck", "events that their broker refuses");
    stuck->require_subcommand(1);
    stuck->footer("");  // not that of the relay
    const auto listed = std::make_shared<Options>();
    CLI::App* command = add(*stuck, "list", "list them, the oldest first", listed);
    command->footer("Each of them stops the events behind it that have the same ordering key.");
    when_asked(*command, chosen, [listed] { return list(*listed); });
    const auto retried = std::make_shared<Options>();
    command = add(*stuck, "retry", "try one again at once", retried);
    command->add_option("NUMBER", retried->number, "its number in the list")->required()->type_name("");
    when_asked(*command, chosen, [retried] { return retry(*retried); });
    const auto dropped = std::make_shared<Options>();
    command = add(*stuck, "drop", "remove one without publishing it: nobody will ever hear of it", dropped);
    command->add_option("NUMBER", dropped->number, "its number in the list")->required()->type_name("");
    command->add_option("--who", dropped->who, "who decides")->required()->type_name("NAME");
    command->add_option("--why", dropped->why, "on what grounds")->required()->type_name("REASON");
    command->footer("The decision is kept, with all of the event but its data: `semel outbox stuck dropped` lists it.");
    when_asked(*command, chosen, [dropped] { return drop(*dropped); });
    const auto records = std::make_shared<Options>();
    command =
        add(*stuck, "dropped", "list those that were dropped, the latest first, with who decided and why", records);
    when_asked(*command, chosen, [records] { return list_dropped(*records); });
}

}  // namespace semel::cli
