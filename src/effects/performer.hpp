// Performs one intent: drives the IntentMachine against the ledger, the other side and the clock, on the caller's thread.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "async/terms.hpp"
#include "effects/surroundings.hpp"
#include "semel/intent.hpp"

namespace semel::effects {

using At = std::function<void(std::string_view)>;

/// The intent is a step of something longer, which must still be held when the intent is claimed: both stand or fall
/// together, so that a holder that was superseded begins nothing.
struct Guard {
    Holder whole{};
    Checkpoint begun{};  ///< kept in the whole's record
};
/// The whole is held by somebody else now.
struct WholeLost {};

/// `invalid` names what is wrong with it.
Status check(const Provider& provider);
Status check(const Limits& limits);

/// The policy of an intent's operation.
Policy policy_of(const Provider& provider);

/// `operation` is the intent's own.
Result<std::variant<Performance, WholeLost>> perform(const Surroundings& world, const Intent& intent,
                                                     const Operation& operation, const Guard* guard, const At& at,
                                                     const std::stop_token& stop);

}  // namespace semel::effects
