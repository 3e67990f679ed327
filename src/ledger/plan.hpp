// plan: what one batch does to the records it found. Every store that reads and writes in a transaction runs it between
// its reading and its writing, so that all of them follow `decide` and the rules about groups.
#pragma once

#include <span>
#include <variant>
#include <vector>

#include "ledger/rules.hpp"
#include "semel/store.hpp"

namespace semel {

/// The row could not be locked: somebody's own transaction has it.
struct Locked {};
/// What a store found under an operation: a record or nothing, a locked row, or one it cannot trust.
using Found = std::variant<std::optional<Record>, Locked, Failure>;

struct Write {
    std::size_t command;  ///< flat index of the command that made it
    OperationId id;
    std::optional<Record> next;  ///< empty: remove
    bool existed = false;
};

struct Plan {
    std::vector<GroupAnswer> answers;
    std::vector<Write> writes;
    std::uint64_t tokens_used = 0;
};

struct PlanInput {
    TimePoint now;
    Token first_token;  ///< the first unused one; the plan takes them in order
    Epoch owner;
    std::optional<Failure>
        refuse_claims;  ///< I9: set when there is no room: new grants fail with it, nothing else does
};

/// `found` has one entry per command, in the order of the groups and their commands.
Plan plan(std::span<const Group> groups, std::vector<Found> found, const PlanInput& input);

/// How many tokens a batch can use at most.
std::uint64_t tokens_needed(std::span<const Group> groups);

/// How soon to try again what somebody's open transaction has locked.
inline constexpr Duration locked_retry_after = std::chrono::milliseconds{500};

}  // namespace semel
