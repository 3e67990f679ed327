// Everything that can happen next in a world, and what the ledger and the holders make of it.
//
// Delay needs no queue of messages: a command can be on its way for any time, so at every moment every command that
// anyone may ever have sent can arrive. A holder's stage says which those are.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "ledger/rules.hpp"
#include "world.hpp"

namespace semel::enumerate {

/// A command arrives: for the first time, again, or late.
struct Arrive {
    Command command;
};
/// The newest holder begins its effect.
struct Begin {};
struct PassTime {};
struct Sweep {};
/// The owning process died and another one opened the store. `again`: its announcement, seen once more later on.
struct Restart {
    bool again = false;
};
using Move = std::variant<Arrive, Begin, PassTime, Sweep, Restart>;

std::vector<Move> moves(const World& world);

struct Step {
    const World& before;
    const Move& move;
    Decision decision;  ///< of a move that asks the ledger; otherwise the record as it was
    World after;
};

/// Makes the move: the real rules decide, the holders hear the answer.
Step make(const World& before, const Move& move);

/// What the ledger decides if the same move reaches it right after `step`.
Decision repeat(const Step& step);

/// The holder a command names, if it is a holder's command.
const Holder* holder_of(const Command& command);

/// A claim was granted under a new token.
bool is_grant(const Step& step);

/// A holder starts to act on the world outside: it begins by itself, or its claim is part of its transaction.
bool begins_effect(const Step& step);

std::string text(const Move& move);
std::string text(const Answer& answer);

}  // namespace semel::enumerate
