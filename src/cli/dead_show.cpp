// semel dead show: everything known about one dead letter.
#include <fmt/format.h>

#include <memory>

#include "cli/command.hpp"
#include "cli/dead_choice.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_letter.hpp"
#include "consumers/in_transaction.hpp"

namespace semel::cli {
namespace {

struct Options {
    std::string store;
    bool json = false;
    bool body = false;
    std::string number;
};

void print(const DeadLetter& letter, TimePoint now, const Options& options, const std::string& store) {
    if (options.json) {
        JsonWriter json;
        write_letter(json, letter, options.body ? LetterParts::headers_and_body : LetterParts::headers);
        fmt::print("{}\n", json.text());
        return;
    }
    fmt::print("{}", letter_detail(letter, now, store));
    if (!options.body) return;
    fmt::print("\nthe body{}:\n{}", is_text(letter.message.body) ? "" : ", in hex", body_text(letter.message.body));
}

int run(const Options& options) {
    const auto number = parse_number("NUMBER", options.number);
    if (!number) return fail(number.failure());
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto inbox = open_inbox(*url);
    if (!inbox) return fail(inbox.failure());
    const auto letter = find_dead(**inbox, *number);
    if (!letter) return fail(letter.failure());
    if (!*letter) {
        complain(fmt::format("no dead letter {} in {}: retried or dropped before, or never there", *number,
                             (*inbox)->text()));
        return exit_failure;
    }
    const auto now = in_transaction(**inbox, [](TimePoint at) -> Result<TimePoint> { return at; });
    if (!now) return fail(now.failure());
    print(**letter, *now, options, (*inbox)->text());
    return exit_ok;
}

}  // namespace

void add_dead_show(CLI::App& dead, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = dead.add_subcommand("show", "show everything known about one dead letter");
    command->footer(
        "Logs and terminals are not for customers' data, so the message's body is shown only by --body: as text, or in hex\n"
        "if it is not UTF-8 that a terminal may be given; in JSON as body_text or body_hex. No such letter: exit code 1.\n"
        "Example: semel dead show --store sqlite:semel.db 17 --body");
    command->add_option("NUMBER", options->number, "the letter's number, as `semel dead list` shows it")
        ->required()
        ->type_name("");
    add_store_option(*command, options->store);
    command->add_flag("--body", options->body, "show the message's body as well");
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
