// The ledger's commands as JSON: what a caller writes, read strictly. Names that nobody knows, values of another kind, a
// name twice: all refused, and all told at once. docs/ledger-api.md and packaging/ledger-api.openapi.yaml say the same.
//
// The tenant is never part of what is read: it comes from the caller's token, so that another tenant's operations have no
// name here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/tokens.hpp"
#include "semel/ledger.hpp"

namespace semel::api {

inline constexpr std::size_t groups_max = 128;
inline constexpr std::size_t group_commands_max = 16;
/// How much of what is wrong is told.
inline constexpr std::size_t problems_max = 20;

/// A command, with what its answer needs and the ledger does not keep.
struct Asked {
    Command command;
    std::string key{};
    /// Of a claim: the caller named the attempt, and may repeat the very same claim. A grant that could not be delivered is
    /// then its own to find: releasing it here could take it from the repetition that found it.
    bool attempt_given = false;
    Duration lease{0};                       ///< of a claim
    std::optional<Operation> resolved = {};  ///< of a resolve: what is decided on, for the log
};

/// Why a request was refused: a sentence for each problem, with the place it is about.
struct Refused {
    std::vector<std::string> problems{};
    bool role = false;  ///< the caller's token does not give the right to it

    [[nodiscard]] std::string text() const;
};

/// `claim`, `renew`, `checkpoint`, `settle`, `release`, `abandon` or `resolve`.
bool is_command(std::string_view name);

std::variant<Asked, Refused> read_command(std::string_view name, std::string_view body, const Caller& caller);

/// `{"groups": [[{"command": "claim", …}, …], …]}`
using Groups = std::vector<std::vector<Asked>>;
std::variant<Groups, Refused> read_batch(std::string_view body, const Caller& caller);

/// The query of a find: `scope=…&key=…&generation=…`.
std::variant<Operation, Refused> read_find(std::string_view query, const Caller& caller);

}  // namespace semel::api
