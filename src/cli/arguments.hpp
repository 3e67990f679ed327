// Reading arguments: text from the command line becomes the ledger's own types, or a refusal that names the option, the
// input and what would be right. Everything is read before a store is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "semel/operation.hpp"
#include "semel/record.hpp"
#include "semel/store.hpp"

namespace semel::cli {

/// A whole number in decimal digits, from `least` to `most`. `name` is the option, as the user writes it.
Result<std::uint64_t> parse_count(std::string_view name, std::string_view text, std::uint64_t least,
                                  std::uint64_t most);
/// The same with a sign: the status of an outcome.
Result<std::int32_t> parse_status(std::string_view name, std::string_view text);
Result<Duration> parse_duration_of(std::string_view name, std::string_view text);
Result<State> parse_state(std::string_view text);
Result<KeyFormat> parse_format(std::string_view text);

inline constexpr std::string_view state_choices = "running|unknown|settled";
inline constexpr std::string_view format_choices = "any|uuid|uuidv7";

/// An operation as the user names it.
struct Named {
    OperationId id;
    std::optional<Operation> operation;  ///< empty when it was named by its id

    [[nodiscard]] std::string text() const;
};
struct OperationWords {
    std::string first;  ///< the scope, or the id
    std::optional<std::string> key;
};
/// Either scope and key, or the operation's id alone: 32 hex digits.
Result<Named> parse_operation(const OperationWords& words);

/// The raw words of the options that narrow a list; empty: not given.
struct FilterWords {
    std::optional<std::string> scope{};
    std::optional<std::string> tenant{};
    std::optional<std::string> state{};
    std::optional<std::string> older_than{};
    std::optional<std::string> newer_than{};
    std::optional<std::string> correlation{};
};
/// A scope without '/' asks for its name under any tenant; with one, for that tenant (`/name`: for none). A generation
/// counts if it is written.
Result<Filter> parse_filter(const FilterWords& words);

/// A place in a list, as an earlier page gave it.
Result<std::string> parse_cursor(const std::string& text);

/// The bytes of a file, `-` being standard input. More than `bytes_max` are refused.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max);

}  // namespace semel::cli
