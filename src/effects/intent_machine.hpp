// What an intent does next: a pure machine without clock, threads or I/O, driven by Intents::perform and by the simulator.
//
//   claim ──Claimed──> call ──Answered──> settle ──> over: Performed, Failed, Superseded
//     ^  \               ├─NotSent──> release ──┐
//     |   \              └─InDoubt──> abandon ──┤
//     |    ├─Unknown──> look up ──> resolve ────┤
//     |    ├─Busy ──────────────────────────────┤
//     |    └─Replay, Mismatch ──> over          │
//     └──────────── wait, while the limits allow ┘ ──> over: what is known
//
// What is known when the limits are reached: NotPerformed if nothing can have been executed, or else OutcomeUnknown.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "base/random.hpp"
#include "semel/intent.hpp"

namespace semel::effects {

struct DoClaim {};
struct DoCall {
    Claimed claimed{};
};
struct DoSettle {
    Outcome outcome{};
    bool conclusive = true;
};
struct DoRelease {};
struct DoAbandon {};
struct DoLookUp {};
struct DoResolve {
    std::optional<Outcome> outcome{};
};
struct DoWait {
    Duration how_long{};
};
struct Over {
    Result<Performance> answer;
};
using Act = std::variant<DoClaim, DoCall, DoSettle, DoRelease, DoAbandon, DoLookUp, DoResolve, DoWait, Over>;

/// Looked at the record before the lookup: when it may be asked at all.
struct LookUpEarly {
    Duration wait{};
};
/// There is nothing to look up any more: claim again.
struct LookUpNeedless {};
using LookUpAnswer = std::variant<LookupAnswer, LookUpEarly, LookUpNeedless>;

/// Each answer of the world goes in once and the next act comes out. `elapsed`: since begin().
class IntentMachine {
public:
    IntentMachine(Repeating repeating, bool has_lookup, Limits limits, Random& random)
        : repeating_(repeating), has_lookup_(has_lookup), limits_(limits), random_(random) {}

    Act begin() { return DoClaim{}; }
    Act claim_answered(const Result<ClaimAnswer>& answer, Duration elapsed);
    /// What the call came to; NotSent also if it was never made because the lease was nearly over (I4).
    Act call_answered(Reply reply);
    Act settle_answered(const Result<HolderAnswer>& answer, Duration elapsed);
    Act release_answered(const Result<HolderAnswer>& answer, Duration elapsed);
    Act abandon_answered(const Result<HolderAnswer>& answer, Duration elapsed);
    Act lookup_answered(const LookUpAnswer& answer, Duration elapsed);
    Act resolve_answered(const Result<HolderAnswer>& answer, Duration elapsed);
    Act waited(bool stopped);

private:
    Act again(Duration elapsed, std::optional<Duration> not_before = std::nullopt);
    Act give_up();
    Act over(Performance performance);
    Act settled_as(const Outcome& outcome, bool replayed);

    Repeating repeating_;
    bool has_lookup_;
    Limits limits_;
    Random& random_;
    std::uint32_t calls_ = 0;
    std::uint32_t waits_ = 0;
    bool busy_ = false;      // the last claim met another holder
    Duration busy_for_{0};   // that one's lease
    bool in_doubt_ = false;  // something may have been executed, by us or by a holder before us
    std::optional<TimePoint> since_{};
    std::string error_{};
    std::optional<Duration> not_before_{};
    Outcome outcome_{};
    std::optional<Outcome> verdict_{};
};

}  // namespace semel::effects
