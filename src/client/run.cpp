#include "client/run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "semel/ledger.hpp"

namespace semel::client {
namespace {

constexpr std::string_view asked_to_stop = "it was asked to stop";

Outcome outcome_of(Decision decision, bool doubt) {
    return std::visit(
        match{[](Again&) -> Outcome { return GaveUp{}; }, [](Succeeded& end) -> Outcome { return std::move(end); },
              [](NotRetained& end) -> Outcome { return end; },
              [&](Refused& end) -> Outcome {
                  end.doubt = doubt && !end.replayed;
                  return std::move(end);
              },
              [](OutcomeUnknown& end) -> Outcome { return std::move(end); }},
        decision);
}

/// Whether somebody still has to ask, after this final answer, if a try was executed.
bool doubt_after(const Outcome& outcome, bool doubt) {
    if (const auto* refused = std::get_if<Refused>(&outcome)) return doubt || !surely_not_executed(*refused);
    return true;
}

}  // namespace

Ran run(const RetryRules& rules, Duration timeout, bool doubt, const World& world) {
    Ran ran{.doubt = doubt};
    const Clock::Steady deadline = world.clock.steady() + rules.budget;
    std::string last;
    const auto gave_up = [&](std::string why) {
        ran.outcome = GaveUp{ran.doubt, std::move(why), std::move(last)};
        return std::move(ran);
    };
    while (true) {
        if (world.stopped()) return gave_up(std::string(asked_to_stop));
        const auto left = std::chrono::duration_cast<Duration>(deadline - world.clock.steady());
        Decision decision = decide(world.call(std::clamp(left, Duration{1}, timeout)), world.clock.wall());
        ++ran.tries;
        auto* const again = std::get_if<Again>(&decision);
        if (again == nullptr) {
            ran.outcome = outcome_of(std::move(decision), ran.doubt);
            ran.doubt = doubt_after(ran.outcome, ran.doubt);
            return ran;
        }
        ran.doubt = ran.doubt || !again->surely_not_executed;
        last = std::move(again->why);
        if (world.stopped()) return gave_up(std::string(asked_to_stop));
        if (ran.tries >= rules.tries_max) return gave_up(fmt::format("{} tries are used up", ran.tries));
        const Duration wait = wait_after(rules, ran.tries, again->after, world.random);
        if (world.clock.steady() + wait >= deadline)
            return gave_up(again->after == wait ? fmt::format("the server asks to wait {}, beyond the budget of {}",
                                                              to_text(wait), to_text(rules.budget))
                                                : fmt::format("the budget of {} is used up", to_text(rules.budget)));
        world.wait(wait);
    }
}

}  // namespace semel::client
