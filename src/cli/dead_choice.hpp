// Which dead letters a command is about: reading what the user says, and finding them.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "consumers/dead_letters.hpp"

namespace semel::cli {

inline constexpr std::string_view reason_choices =
    "unreadable|no-key|rejected|tries-exhausted|key-reused|outcome-unknown|key-expired|refused";

/// `name` is the option, as the user writes it.
Result<std::string> parse_consumer(std::string_view name, const std::string& text);
Result<std::string> parse_reason(const std::string& text);
Result<std::int64_t> parse_number(std::string_view name, std::string_view text);

/// The raw words of the options that choose; empty: not given.
struct ChoiceWords {
    std::vector<std::string> numbers{};
    bool all = false;
    std::optional<std::string> consumer{};
    std::optional<std::string> reason{};
};
void add_choice(CLI::App& command, ChoiceWords& into);

struct Choice {
    std::vector<std::int64_t> numbers{};  ///< each once, the oldest first
    std::optional<DeadFilter> all{};      ///< instead of the numbers
};
/// Numbers, or all of one consumer; never both.
Result<Choice> parse_choice(const ChoiceWords& words);

/// The numbers that are meant, the oldest first: what goes back on the shelf keeps the order in which it died. Letters that
/// die from now on are not among them.
Result<std::vector<std::int64_t>> chosen_numbers(Inbox& inbox, const Choice& choice);

}  // namespace semel::cli
