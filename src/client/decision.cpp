#include "client/decision.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "curl/answer.hpp"
#include "semel/ledger.hpp"

namespace semel::client {
namespace {

constexpr bool is_success(int status) { return status >= 200 && status < 300; }

constexpr bool is_retried(int status) { return status == 408 || status == 425 || status == 429 || status >= 500; }

std::string answered(int status, const std::optional<SemelProblem>& problem) {
    return problem ? fmt::format("answered {} {}", status, problem->slug) : fmt::format("answered {}", status);
}

/// What a Semel before the server says of this try.
bool nothing_began(const SemelProblem& problem) {
    return problem.slug == "quota" || problem.slug == "overloaded" || problem.slug == "upstream-unreachable";
}

Decision by_answer(HttpAnswer answer, TimePoint now) {
    const int status = answer.status;
    const auto problem = read_problem(answer);
    if (is_replayed(answer)) {
        if (is_success(status)) return Succeeded{std::move(answer), true};
        return Refused{std::move(answer), true};
    }
    if (is_success(status)) return Succeeded{std::move(answer)};
    if (problem && problem->slug == "in-progress")
        return Again{retry_after(answer, now), false, answered(status, problem)};
    if (problem && problem->slug == "outcome-unknown") return OutcomeUnknown{std::move(answer)};
    if (problem && problem->slug == "outcome-not-retained") return NotRetained{problem->outcome_status};
    // Others say 409 of an earlier request that is still being executed, too, each in words of its own.
    if (status == 409 && !problem) return Again{retry_after(answer, now), false, answered(status, problem)};
    if (is_retried(status))
        return Again{retry_after(answer, now), status == 425 || status == 429 || (problem && nothing_began(*problem)),
                     answered(status, problem)};
    return Refused{std::move(answer)};
}

}  // namespace

Decision decide(HttpEnd end, TimePoint now) {
    return std::visit(match{[](HttpNotSent& none) -> Decision {
                                return Again{{}, true, std::move(none.reason)};
                            },
                            [](HttpNoAnswer& none) -> Decision {
                                return Again{{}, false, std::move(none.reason)};
                            },
                            [&](HttpAnswer& answer) { return by_answer(std::move(answer), now); }},
                      end);
}

bool is_settled(const Outcome& outcome) {
    return std::visit(match{[](const Succeeded&) { return true; }, [](const NotRetained&) { return true; },
                            [](const Refused& refused) {
                                const int status = refused.answer.status;
                                return refused.replayed || (!refused.doubt && status >= 400 && status != 401 &&
                                                            status != 403 && status != 404 && status != 407);
                            },
                            [](const OutcomeUnknown&) { return false; }, [](const GaveUp&) { return false; }},
                      outcome);
}

bool surely_not_executed(const Refused& refused) { return !refused.replayed && refused.answer.status == 401; }

Duration wait_after(const RetryRules& rules, std::uint32_t tries, std::optional<Duration> asked, Random& random) {
    Duration limit = rules.backoff_first;
    for (std::uint32_t i = 1; i < tries && limit < rules.backoff_max; ++i) limit *= 2;
    limit = std::clamp(limit, Duration::zero(), rules.backoff_max);
    const Duration drawn{static_cast<Duration::rep>(random.below(static_cast<std::uint64_t>(limit.count()) + 1))};
    return std::max(drawn, asked.value_or(Duration::zero()));
}

}  // namespace semel::client
