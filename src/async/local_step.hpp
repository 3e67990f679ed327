// A step of something longer: an operation of its own, in one transaction with its writes and its result.
//
// The longer work (a message, a workflow) holds a lease, which only keeps two from doing the same work at the same time: the
// step's transaction checks that it is still held, and nobody can take it over before that transaction has ended.
//
// What a crash leaves: before the commit nothing, and the step is run again; after it everything, and the next run is told
// what it came to.
#pragma once

#include <functional>
#include <string>
#include <variant>

#include "semel/inbox.hpp"

namespace semel {

struct LocalStep {
    Operation operation;  ///< the step's own
    Fingerprint fingerprint{};
    Retention retention{};
    std::string correlation{};
    OperationId whole{};  ///< what it is a step of
    Token token{};        ///< by which that is held
};

struct StepDone {
    Outcome outcome{};
    bool replayed = false;  ///< done by an earlier run
};
/// What it is a step of is held by somebody else now: nothing was done.
struct StepSuperseded {};
using LocalStepAnswer = std::variant<StepDone, StepSuperseded>;

/// Runs `effect` unless it was done before. What that throws passes, and nothing of the step remains. After `indeterminate`
/// the same call again tells whether it was done.
Result<LocalStepAnswer> run_local_step(Inbox& inbox, const LocalStep& step,
                                       const std::function<Outcome(Transaction)>& effect);

}  // namespace semel
