#include "async/local_step.hpp"

namespace semel {
namespace {

/// Why a claim in the transaction was not granted.
Failure not_granted(const TransactionClaim& answer) {
    return std::visit(
        match{
            [](const Mismatch&) {
                return Failure{Code::invalid, "its operation was claimed before with another fingerprint"};
            },
            [](const Expired&) {
                return Failure{Code::invalid, "its key is older than the retention"};
            },
            [](const RetryTransaction&) {
                return Failure{Code::contended, "the database could not serialise its transaction with another one"};
            },
            [](const Busy&) {
                return Failure{Code::contended, "its operation is in somebody else's hands"};
            },
            [](const Unknown&) {
                return Failure{Code::invalid, "nobody knows what became of its operation; `semel ops resolve` decides"};
            },
            [](const Claimed&) {
                return Failure{Code::contended, "it was granted"};
            },
            [](const Replay&) {
                return Failure{Code::contended, "it was done before"};
            }},
        answer);
}

}  // namespace

Result<LocalStepAnswer> run_local_step(Inbox& inbox, const LocalStep& step,
                                       const std::function<Outcome(Transaction)>& effect) {
    const auto roll_back = [&](Failure failure) {
        inbox.roll_back();
        return failure;
    };
    if (auto begun = inbox.begin(); !begun) return roll_back(begun.failure());
    auto held = inbox.holds(step.whole, step.token);
    if (!held) return roll_back(held.failure());
    if (!*held) {
        inbox.roll_back();
        return LocalStepAnswer{StepSuperseded{}};
    }
    const InboxClaim wanted{step.operation, step.fingerprint, step.retention, step.correlation};
    auto answers = inbox.claim(std::span(&wanted, 1));
    if (!answers) return roll_back(answers.failure());
    TransactionClaim& answer = answers->front();
    if (auto* replay = std::get_if<Replay>(&answer)) {
        inbox.roll_back();
        return LocalStepAnswer{StepDone{std::move(replay->outcome), true}};
    }
    const auto* mine = std::get_if<Claimed>(&answer);
    if (mine == nullptr) return roll_back(not_granted(answer));
    Outcome outcome;
    try {
        outcome = effect(inbox.transaction());
    } catch (...) {
        inbox.roll_back();
        throw;
    }
    if (!inbox.alive() || inbox.broken())
        return roll_back({Code::unavailable, "a statement failed, or the connection was lost"});
    if (auto settled = inbox.settle(step.operation, *mine, outcome); !settled) return roll_back(settled.failure());
    if (auto committed = inbox.commit(); !committed) return roll_back(committed.failure());
    return LocalStepAnswer{StepDone{std::move(outcome), false}};
}

}  // namespace semel
