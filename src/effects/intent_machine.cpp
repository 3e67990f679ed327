#include "effects/intent_machine.hpp"

#include <algorithm>

#include "base/retry.hpp"
#include "ledger/mutation.hpp"

namespace semel::effects {
namespace {

/// How often another holder's lease is looked at: whoever is at it is mostly done long before it is over.
constexpr Duration look_again_after = std::chrono::milliseconds{100};

}  // namespace

Act IntentMachine::over(Performance performance) { return Over{std::move(performance)}; }

Act IntentMachine::settled_as(const Outcome& outcome, bool replayed) {
    if (failed(outcome)) return over(Failed{outcome, replayed});
    return over(Performed{outcome, replayed});
}

Act IntentMachine::give_up() {
    if (busy_) return over(Busy{busy_for_});
    if (SEMEL_MUTATION(doubt_forgotten_on_giving_up, in_doubt_, false)) return over(OutcomeUnknown{since_, error_});
    return over(NotPerformed{error_});
}

Act IntentMachine::again(Duration elapsed, std::optional<Duration> not_before) {
    if (calls_ >= limits_.calls_max) return give_up();
    const Duration wait = std::max(backoff(limits_.backoff_first, limits_.backoff_max, ++waits_, random_),
                                   not_before.value_or(Duration{0}));
    if (elapsed + wait > limits_.total) return give_up();
    return DoWait{wait};
}

Act IntentMachine::waited(bool stopped) {
    if (!stopped) return DoClaim{};
    if (error_.empty()) error_ = "it was asked to stop";
    return give_up();
}

Act IntentMachine::claim_answered(const Result<ClaimAnswer>& answer, Duration elapsed) {
    if (!answer) {
        // I6: a claim that was not granted in time is released by the committer. What was sent before is in doubt all the same.
        if (!in_doubt_) return Over{answer.failure()};
        error_ = answer.failure().message;
        return give_up();
    }
    busy_ = false;
    return std::visit(match{[&](const Claimed& claimed) -> Act {
                                in_doubt_ = claimed.doubt;
                                ++calls_;
                                return DoCall{claimed};
                            },
                            [&](const Replay& replay) -> Act { return settled_as(replay.outcome, true); },
                            [&](const Busy& busy) -> Act {
                                busy_ = true;
                                busy_for_ = busy.retry_after;
                                if (elapsed >= limits_.busy_wait) return give_up();
                                return DoWait{std::min(busy.retry_after, look_again_after)};
                            },
                            [&](const Mismatch& mismatch) -> Act { return over(mismatch); },
                            [&](const Unknown& unknown) -> Act {
                                in_doubt_ = true;
                                since_ = unknown.since;
                                if (has_lookup_) return DoLookUp{};
                                if (error_.empty())
                                    error_ = "nobody knows what an earlier call came to, and it may not be repeated";
                                return give_up();
                            },
                            [&](const Expired&) -> Act {
                                error_ = "its key is older than the retention: it may have been done";
                                in_doubt_ = true;
                                return give_up();
                            }},
                      *answer);
}

Act IntentMachine::call_answered(Reply reply) {
    return std::visit(match{[&](Answered& answered) -> Act {
                                outcome_ = answered.outcome;
                                return DoSettle{std::move(answered.outcome), answered.conclusive};
                            },
                            [&](NotSent& not_sent) -> Act {
                                error_ = std::move(not_sent.error);
                                not_before_ = not_sent.not_before;
                                return DoRelease{};
                            },
                            [&](InDoubt& doubt) -> Act {
                                error_ = std::move(doubt.error);
                                not_before_ = doubt.not_before;
                                in_doubt_ = true;
                                if (SEMEL_MUTATION(doubt_is_released, false, true)) return DoRelease{};
                                return DoAbandon{};
                            }},
                      reply);
}

Act IntentMachine::settle_answered(const Result<HolderAnswer>& answer, Duration elapsed) {
    if (!answer) {
        // Called, and nobody could be told: when the lease is over it is unknown.
        return Over{Failure{Code::indeterminate, answer.failure().message}};
    }
    return std::visit(match{[&](const Ok& ok) -> Act {
                                if (ok.state == State::settled) return settled_as(outcome_, false);
                                // I11: an inconclusive answer under doubt.
                                in_doubt_ = true;
                                error_ = "the answer does not say what an earlier call came to";
                                return again(elapsed);
                            },
                            [&](const Settled& settled) -> Act { return settled_as(settled.outcome, true); },
                            [&](const Fenced&) -> Act { return over(Superseded{}); },
                            [&](const TooEarly&) -> Act { return over(Superseded{}); }},
                      *answer);
}

Act IntentMachine::release_answered(const Result<HolderAnswer>& answer, Duration elapsed) {
    if (!answer) {
        // The claim stays until its lease is over, and is unknown then: nobody else knows that nothing was sent.
        in_doubt_ = true;
        error_ += "; and it could not be released: " + answer.failure().message;
        return give_up();
    }
    return std::visit(match{[&](const Ok& ok) -> Act {
                                in_doubt_ = ok.state.has_value();  // I11: a release under doubt
                                return again(elapsed, not_before_);
                            },
                            [&](const Settled& settled) -> Act { return settled_as(settled.outcome, true); },
                            [&](const Fenced&) -> Act { return over(Superseded{}); },
                            [&](const TooEarly&) -> Act { return over(Superseded{}); }},
                      *answer);
}

Act IntentMachine::abandon_answered(const Result<HolderAnswer>& answer, Duration elapsed) {
    if (!answer) return give_up();
    return std::visit(match{[&](const Ok&) -> Act {
                                // The next claim asks the ledger whether it may be repeated, or the lookup what became of it.
                                if (repeating_ == Repeating::deduplicated || has_lookup_)
                                    return again(elapsed, not_before_);
                                return give_up();
                            },
                            [&](const Settled& settled) -> Act { return settled_as(settled.outcome, true); },
                            [&](const Fenced&) -> Act { return over(Superseded{}); },
                            [&](const TooEarly&) -> Act { return over(Superseded{}); }},
                      *answer);
}

Act IntentMachine::lookup_answered(const LookUpAnswer& answer, Duration elapsed) {
    return std::visit(
        match{
            [&](const LookUpEarly& early) -> Act {
                if (elapsed + early.wait > limits_.total) {
                    error_ = "the last call may still have an effect; only after its deadline can it be looked up";
                    return give_up();
                }
                return DoWait{early.wait};
            },
            // Somebody has said what it came to; what that is the next claim tells.
            [&](const LookUpNeedless&) -> Act { return DoWait{Duration{0}}; },
            [&](const LookupAnswer& looked_up) -> Act {
                return std::visit(
                    match{
                        [&](const Happened& happened) -> Act {
                            verdict_ = happened.outcome;
                            return DoResolve{happened.outcome};
                        },
                        [&](const DidNotHappen&) -> Act {
                            if (repeating_ == Repeating::never) {
                                error_ =
                                    "the lookup says that it did not happen; it is declared at_most_once, so a person "
                                    "decides";
                                return give_up();
                            }
                            verdict_.reset();
                            return DoResolve{std::nullopt};
                        },
                        [&](const CannotTell& cannot) -> Act {
                            error_ = "the lookup cannot tell: " + cannot.why;
                            return give_up();
                        }},
                    looked_up);
            }},
        answer);
}

Act IntentMachine::resolve_answered(const Result<HolderAnswer>& answer, Duration elapsed) {
    if (!answer) {
        error_ = answer.failure().message;
        return give_up();
    }
    return std::visit(match{[&](const Ok&) -> Act {
                                if (verdict_) return settled_as(*verdict_, false);
                                in_doubt_ = false;
                                since_.reset();
                                return again(elapsed);
                            },
                            [&](const Settled& settled) -> Act { return settled_as(settled.outcome, true); },
                            // Somebody took it over, or decided, since it was looked at.
                            [&](const Fenced&) -> Act { return again(elapsed); },
                            [&](const TooEarly&) -> Act { return again(elapsed); }},
                      *answer);
}

}  // namespace semel::effects
