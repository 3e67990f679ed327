#include "http/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/assert.hpp"
#include "base/json.hpp"

namespace semel::http {
namespace {

constexpr std::array<ProblemKind, problems> kinds{{
    {Problem::request_malformed, 400, false, "request-malformed", "The request can not be read in one way only"},
    {Problem::key_missing, 400, false, "key-missing", "This operation needs an idempotency key"},
    {Problem::key_invalid, 400, false, "key-invalid", "The idempotency key is not valid"},
    {Problem::upgrade_refused, 400, false, "upgrade-refused", "This route takes neither Upgrade nor CONNECT"},
    {Problem::tenant_missing, 401, false, "tenant-missing", "The request does not say whose key this is"},
    {Problem::signature_invalid, 401, false, "signature-invalid", "The signature does not fit the request"},
    {Problem::replay_forbidden, 403, false, "replay-forbidden", "The stored answer may not be shown to this caller"},
    {Problem::role_missing, 403, false, "role-missing", "The credential does not give the right to do this"},
    {Problem::no_route, 404, false, "no-route", "No route serves this request"},
    {Problem::operation_absent, 404, false, "operation-absent", "The ledger does not know this operation"},
    {Problem::request_timeout, 408, true, "request-timeout", "The request did not arrive in time"},
    {Problem::in_progress, 409, true, "in-progress", "A request with this key is still being processed"},
    {Problem::outcome_unknown, 409, false, "outcome-unknown",
     "An earlier request with this key was begun and its outcome is not known"},
    {Problem::outcome_not_retained, 409, false, "outcome-not-retained",
     "The operation was done and its answer is no longer kept"},
    {Problem::fenced, 409, false, "fenced", "Somebody else holds the operation by now; nothing was changed"},
    {Problem::already_settled, 409, false, "already-settled", "The operation has another outcome already"},
    {Problem::too_early, 409, true, "too-early", "The last holder's effect may still be running"},
    {Problem::key_expired, 410, false, "key-expired", "The key is older than keys are remembered"},
    {Problem::request_too_large, 413, false, "request-too-large", "The request is larger than allowed"},
    {Problem::key_reused, 422, false, "key-reused", "The key was used before with another request"},
    {Problem::withheld, 424, false, "withheld", "Another command of its group was refused; nothing was done"},
    {Problem::quota, 429, true, "quota", "Too many operations for this tenant"},
    {Problem::upstream_unreachable, 502, true, "upstream-unreachable",
     "The upstream can not be reached; nothing was sent"},
    {Problem::upstream_failed, 502, false, "upstream-failed", "The upstream did not answer the request it was sent"},
    {Problem::upstream_timeout, 504, false, "upstream-timeout", "The upstream did not answer in time"},
    {Problem::store_unavailable, 503, true, "store-unavailable", "The ledger can not be reached; nothing was sent"},
    {Problem::overloaded, 503, true, "overloaded", "Too much is being done at the moment; nothing was sent"},
}};

constexpr bool in_order() {
    for (std::size_t i = 0; i < kinds.size(); ++i)
        if (static_cast<std::size_t>(kinds[i].problem) != i) return false;
    return true;
}
static_assert(in_order(), "one row per problem, in the order of the enum");

void append_member(std::string& out, std::string_view name, std::string_view value) {
    out.append(",\"").append(name).append("\":");
    append_json_string(out, value);
}

}  // namespace

const ProblemKind& kind(Problem problem) {
    const auto index = static_cast<std::size_t>(problem);
    SEMEL_ASSERT(index < kinds.size(), "a problem without a row");
    return kinds[index];
}

ProblemAnswer answer(Problem problem, const ProblemDetails& details) {
    const ProblemKind& row = kind(problem);
    ProblemAnswer made;
    made.status = details.status.value_or(row.status);
    std::string& body = made.body;
    body.append("{\"type\":\"").append(problem_type_prefix).append(row.slug).append("\"");
    append_member(body, "title", row.title);
    body += fmt::format(",\"status\":{}", made.status);
    if (!details.detail.empty()) append_member(body, "detail", details.detail);
    body.append(",\"retryable\":").append(details.retryable.value_or(row.retryable) ? "true" : "false");
    if (!details.key.empty()) append_member(body, "key", details.key);
    if (details.outcome_status) body += fmt::format(",\"outcome_status\":{}", *details.outcome_status);
    if (!details.more.empty()) body.append(",").append(details.more);
    body.append("}\n");
    if (details.retry_after) {
        const auto seconds = std::chrono::ceil<std::chrono::seconds>(*details.retry_after);
        made.retry_after = fmt::format("{}", std::max<std::int64_t>(1, seconds.count()));
    }
    return made;
}

}  // namespace semel::http
