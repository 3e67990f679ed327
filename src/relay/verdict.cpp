#include "relay/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace semel::relay {
namespace {

using How = DeliveryEnd::How;

constexpr bool among(int status, std::initializer_list<int> statuses) {
    return std::ranges::find(statuses, status) != statuses.end();
}

constexpr bool is_success(int status) { return status >= 200 && status < 300; }

std::string answered(int status) { return fmt::format("the endpoint answered {}", status); }

Verdict final_by(int status, std::string why) {
    if (is_success(status)) return Settle{status};
    return DeadLetter{status, std::move(why)};
}

Verdict unknown(const EndpointRules& rules, const Before& before, std::string why) {
    if (rules.deduplicates && before.since_first_send < *rules.deduplicates) return Retry{{}, false, std::move(why)};
    if (rules.deduplicates)
        return Park{fmt::format("{}; the window of to.deduplicates is over since its first delivery", why)};
    return Park{
        fmt::format("{}; it may have been executed, and to.deduplicates does not say that it can be repeated", why)};
}

Retry retry(const EndpointRules& rules, const DeliveryEnd& end, bool surely_not_executed) {
    std::optional<Duration> after = end.retry_after;
    if (after) after = std::clamp(*after, Duration::zero(), rules.retry_after_max);
    return {after, surely_not_executed, answered(end.status)};
}

// By what a Semel before the endpoint knows; nothing if that says no more than the status does.
std::optional<Verdict> by_problem(const EndpointRules& rules, const DeliveryEnd& end) {
    const SemelProblem& problem = *end.problem;
    const std::string why = fmt::format("{} {}", answered(end.status), problem.slug);
    // An earlier delivery of ours is being executed there right now.
    if (problem.slug == "in-progress") return retry(rules, end, false);
    if (problem.slug == "outcome-unknown") return Park{why};
    if (problem.slug == "outcome-not-retained" && problem.outcome_status)
        return final_by(*problem.outcome_status, fmt::format("{}: {} then", why, *problem.outcome_status));
    const bool nothing_began =
        problem.slug == "quota" || problem.slug == "overloaded" || problem.slug == "upstream-unreachable";
    if (problem.retryable) return retry(rules, end, nothing_began);
    return std::nullopt;
}

Verdict by_status(const EndpointRules& rules, const Before& before, const DeliveryEnd& end) {
    const int status = end.status;
    if (is_success(status)) return Settle{status};
    if (end.problem)
        if (auto known = by_problem(rules, end)) return std::move(*known);
    if (std::ranges::find(rules.retry_on, status) != rules.retry_on.end()) return retry(rules, end, true);
    if (among(status, {425, 429})) return retry(rules, end, true);
    if (status == 408 || (status == 409 && end.retry_after)) return retry(rules, end, false);
    if (among(status, {401, 403, 404}))
        return Pause{fmt::format("{}; see to.url and the credentials in to.headers", answered(status))};
    if (among(status, {301, 307, 308}))
        return Pause{fmt::format("{}: it has moved, and redirects are not followed; see to.url", answered(status))};
    if (status >= 400 && status < 500) {
        if (before.doubt)
            return Park{fmt::format("{}, and an earlier delivery may have been executed", answered(status))};
        return DeadLetter{status, answered(status)};
    }
    return unknown(rules, before, answered(status));
}

}  // namespace

Verdict verdict(const EndpointRules& rules, const Before& before, const DeliveryEnd& end) {
    switch (end.how) {
        case How::not_sent: return Retry{{}, true, end.reason};
        case How::timeout:
        case How::broken: return unknown(rules, before, end.reason);
        case How::answered: break;
    }
    if (end.replayed) return final_by(end.status, fmt::format("{}, as it did before", answered(end.status)));
    return by_status(rules, before, end);
}

}  // namespace semel::relay
