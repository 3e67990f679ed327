#include "cli/dead_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quote.hpp"
#include "cli/arguments.hpp"
#include "cli/exit_code.hpp"
#include "semel/operation.hpp"

namespace semel::cli {
namespace {

/// Letters are read with their messages.
constexpr std::size_t page_size = 100;

}  // namespace

Result<std::string> parse_consumer(std::string_view name, const std::string& text) {
    // A consumer's name is that of its scope.
    if (Scope::make("", text)) return text;
    return refused(fmt::format("{} {}: must be a consumer's name, 1 to 255 printable ASCII characters without '#'",
                               name, in_quotes(text)));
}

Result<std::string> parse_reason(const std::string& text) {
    using enum DeadReason;
    for (const DeadReason reason :
         {unreadable, no_key, rejected, tries_exhausted, key_reused, outcome_unknown, key_expired, refused})
        if (text == name(reason)) return text;
    std::string choices(reason_choices);
    for (auto at = choices.find('|'); at != std::string::npos; at = choices.find('|')) choices.replace(at, 1, ", ");
    return cli::refused(fmt::format("--reason {}: must be one of {}", in_quotes(text), choices));
}

Result<std::int64_t> parse_number(std::string_view name, std::string_view text) {
    const auto number = parse_count(name, text, 1, INT64_MAX);
    if (!number) return number.failure();
    return static_cast<std::int64_t>(*number);
}

void add_choice(CLI::App& command, ChoiceWords& into) {
    command.add_option("NUMBER", into.numbers, "the letters' numbers, as `semel dead list` shows them")->type_name("");
    command.add_flag("--all", into.all, "all letters of --consumer, and of --reason if it is given");
    command.add_option("--consumer", into.consumer, "with --all: of this consumer")->type_name("NAME");
    command.add_option("--reason", into.reason, "with --all: that died of this")
        ->type_name(std::string(reason_choices));
}

Result<Choice> parse_choice(const ChoiceWords& words) {
    Choice choice;
    if (!words.all) {
        if (words.consumer || words.reason)
            return refused(fmt::format("{}: only with --all", words.consumer ? "--consumer" : "--reason"));
        if (words.numbers.empty()) return refused("no letters: give their numbers, or --all --consumer NAME");
        for (const std::string& word : words.numbers) {
            const auto number = parse_number("NUMBER", word);
            if (!number) return number.failure();
            choice.numbers.push_back(*number);
        }
        std::ranges::sort(choice.numbers);
        choice.numbers.erase(std::unique(choice.numbers.begin(), choice.numbers.end()), choice.numbers.end());
        return choice;
    }
    if (!words.numbers.empty())
        return refused(fmt::format("--all and {}: give numbers or --all, not both", in_quotes(words.numbers.front())));
    if (!words.consumer) return refused("--all: of which consumer? Give --consumer NAME");
    auto consumer = parse_consumer("--consumer", *words.consumer);
    if (!consumer) return consumer.failure();
    choice.all = DeadFilter{.consumer = std::move(*consumer)};
    if (words.reason) {
        auto reason = parse_reason(*words.reason);
        if (!reason) return reason.failure();
        choice.all->reason = std::move(*reason);
    }
    return choice;
}

Result<std::vector<std::int64_t>> chosen_numbers(Inbox& inbox, const Choice& choice) {
    if (!choice.all) return choice.numbers;
    std::vector<std::int64_t> numbers;
    DeadFilter filter = *choice.all;
    while (true) {
        const auto page = list_dead(inbox, filter, page_size);
        if (!page) return page.failure();
        for (const DeadLetter& letter : *page) numbers.push_back(letter.number);
        if (page->size() < page_size) break;
        filter.before = numbers.back();
    }
    std::ranges::reverse(numbers);
    return numbers;
}

}  // namespace semel::cli
