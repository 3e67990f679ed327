#include "cli/dead_each.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "base/json.hpp"
#include "cli/exit_code.hpp"
#include "cli/open_store.hpp"

namespace semel::cli {
namespace {

struct Progress {
    std::vector<DoneLetter> done;
    std::vector<std::int64_t> missing;
    std::optional<Failure> stopped;
    std::size_t left = 0;  ///< not begun, because of the failure
};

Result<std::optional<DoneLetter>> act_on(Inbox& inbox, std::int64_t number, const EachLetter& each) {
    const auto letter = find_dead(inbox, number);
    if (!letter) return letter.failure();
    if (!*letter) return std::optional<DoneLetter>{};
    return each.act(inbox, **letter);
}

Progress act_on_all(Inbox& inbox, const std::vector<std::int64_t>& numbers, const EachLetter& each, bool tell) {
    Progress progress;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        auto done = act_on(inbox, numbers[i], each);
        if (!done) {
            progress.left = numbers.size() - i - 1;
            // Of a lost reply to COMMIT nobody knows: `dead show` tells.
            progress.stopped =
                Failure{done.failure().code, fmt::format("dead letter {}: {}{}", numbers[i], done.failure().message,
                                                         done.failure().code == Code::indeterminate
                                                             ? "; it may have been done: look with `semel dead show`"
                                                             : "")};
            break;
        }
        if (!*done) {
            progress.missing.push_back(numbers[i]);
            continue;
        }
        if (tell) fmt::print("{}\n", each.line(**done));
        progress.done.push_back(std::move(**done));
    }
    return progress;
}

void print_json(const Progress& progress, std::string_view name) {
    JsonWriter json;
    json.begin_object().name(name).begin_array();
    for (const DoneLetter& letter : progress.done) {
        json.begin_object().member("number", letter.number).member("consumer", letter.consumer);
        if (letter.generation) json.member("generation", *letter.generation);
        json.end_object();
    }
    json.end_array().name("missing").begin_array();
    for (const std::int64_t number : progress.missing) json.value(number);
    json.end_array().end_object();
    fmt::print("{}\n", json.text());
}

}  // namespace

int for_each_letter(const EachOptions& options, const EachLetter& each) {
    const auto choice = parse_choice(options.choice);
    if (!choice) return fail(choice.failure());
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto inbox = open_inbox(*url);
    if (!inbox) return fail(inbox.failure());
    const auto numbers = chosen_numbers(**inbox, *choice);
    if (!numbers) return fail(numbers.failure());
    const Progress progress = act_on_all(**inbox, *numbers, each, !options.json);
    if (options.json)
        print_json(progress, each.name);
    else if (!progress.done.empty())
        fmt::print("{}\n", each.last_line(progress.done));
    else if (numbers->empty())
        fmt::print("no such dead letters\n");
    if (progress.stopped) {
        complain(fmt::format("{}; {} more were not begun", progress.stopped->message, progress.left));
        return exit_failure;
    }
    if (progress.missing.empty()) return exit_ok;
    complain(fmt::format("no dead letter {} in {}: retried or dropped before, or never there",
                         fmt::join(progress.missing, ", "), (*inbox)->text()));
    return exit_failure;
}

std::string consumers_of(const std::vector<DoneLetter>& letters) {
    std::set<std::string> names;
    for (const DoneLetter& letter : letters) names.insert(letter.consumer);
    return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace semel::cli
