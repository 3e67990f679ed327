// semel dead list: the messages that nobody will try again unless a person says so.
#include <fmt/format.h>

#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/dead_choice.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_letter.hpp"
#include "consumers/in_transaction.hpp"

namespace semel::cli {
namespace {

/// Letters are read with their messages.
constexpr std::uint64_t page_max = 1000;

struct Options {
    std::string store;
    bool json = false;
    std::optional<std::string> consumer;
    std::optional<std::string> reason;
    std::string limit = "50";
    std::optional<std::string> before;
};

struct Asked {
    DeadFilter filter{};
    std::size_t limit = 0;
};

Result<Asked> read(const Options& options) {
    Asked asked;
    if (options.consumer) {
        auto consumer = parse_consumer("--consumer", *options.consumer);
        if (!consumer) return consumer.failure();
        asked.filter.consumer = std::move(*consumer);
    }
    if (options.reason) {
        auto reason = parse_reason(*options.reason);
        if (!reason) return reason.failure();
        asked.filter.reason = std::move(*reason);
    }
    const auto limit = parse_count("--limit", options.limit, 1, page_max);
    if (!limit) return limit.failure();
    asked.limit = *limit;
    if (options.before) {
        const auto before = parse_number("--before", *options.before);
        if (!before) return before.failure();
        asked.filter.before = *before;
    }
    return asked;
}

void print_json(const std::vector<DeadLetter>& letters, std::optional<std::int64_t> next) {
    JsonWriter json;
    json.begin_object().name("letters").begin_array();
    for (const DeadLetter& letter : letters) write_letter(json, letter, LetterParts::summary);
    json.end_array().member("next", next).end_object();
    fmt::print("{}\n", json.text());
}

int run(const Options& options) {
    const auto asked = read(options);
    if (!asked) return fail(asked.failure());
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto inbox = open_inbox(*url);
    if (!inbox) return fail(inbox.failure());
    auto letters = list_dead(**inbox, asked->filter, asked->limit + 1);
    if (!letters) return fail(letters.failure());
    std::optional<std::int64_t> next;
    if (letters->size() > asked->limit) {
        letters->pop_back();
        next = letters->back().number;
    }
    if (options.json) {
        print_json(*letters, next);
        return exit_ok;
    }
    if (letters->empty()) {
        fmt::print("no such dead letters\n");
        return exit_ok;
    }
    const auto now = in_transaction(**inbox, [](TimePoint at) -> Result<TimePoint> { return at; });
    if (!now) return fail(now.failure());
    fmt::print("{}", letter_table(*letters, *now));
    if (next) fmt::print("more: --before {}\n", *next);
    return exit_ok;
}

}  // namespace

void add_dead_list(CLI::App& dead, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = dead.add_subcommand("list", "list dead letters, the newest first");
    command->footer(
        "With --json one object: {\"letters\": [...], \"next\": what --before takes for the next page, or null}. "
        "Headers and\n"
        "bodies are not shown: `semel dead show` has them.\n"
        "Example: semel dead list --store sqlite:semel.db --consumer orders --reason tries-exhausted");
    add_store_option(*command, options->store);
    command->add_option("--consumer", options->consumer, "of this consumer")->type_name("NAME");
    command->add_option("--reason", options->reason, "that died of this")->type_name(std::string(reason_choices));
    command->add_option("--limit", options->limit, "at most this many, up to 1000")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--before", options->before, "go on after this letter of an earlier page")->type_name("NUMBER");
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
