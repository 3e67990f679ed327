// What the gateway answers in its own name: problem documents (RFC 9457) with types that never change.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semel::http {

enum class Problem : std::uint8_t {
    request_malformed,     ///< 400, or what the Fault suggests
    key_missing,           ///< 400
    key_invalid,           ///< 400
    upgrade_refused,       ///< 400
    tenant_missing,        ///< 401
    signature_invalid,     ///< 401
    replay_forbidden,      ///< 403
    role_missing,          ///< 403
    no_route,              ///< 404
    operation_absent,      ///< 404
    request_timeout,       ///< 408
    in_progress,           ///< 409, retryable
    outcome_unknown,       ///< 409
    outcome_not_retained,  ///< 409
    fenced,                ///< 409
    already_settled,       ///< 409
    too_early,             ///< 409, retryable
    key_expired,           ///< 410
    request_too_large,     ///< 413
    key_reused,            ///< 422
    withheld,              ///< 424
    quota,                 ///< 429, retryable
    upstream_unreachable,  ///< 502, retryable: not one byte was sent
    upstream_failed,       ///< 502: no whole answer after sending
    upstream_timeout,      ///< 504: no whole answer in time after sending
    store_unavailable,     ///< 503, retryable
    overloaded,            ///< 503, retryable
};

inline constexpr int problems = static_cast<int>(Problem::overloaded) + 1;

struct ProblemKind {
    Problem problem;
    int status;
    bool retryable;         ///< whether the same request may be sent again as it is
    std::string_view slug;  ///< "in-progress": the last part of the type, for metrics and logs
    std::string_view title;
};

/// The table's row.
const ProblemKind& kind(Problem problem);

inline constexpr std::string_view problem_type_prefix = "urn:semel:problem:";
inline constexpr std::string_view problem_content_type = "application/problem+json";

/// What this occurrence adds. Nothing here may come from another tenant's request.
struct ProblemDetails {
    std::string_view detail = {};                               ///< empty: left out
    std::string_view key = {};                                  ///< empty: left out
    std::optional<std::chrono::milliseconds> retry_after = {};  ///< rounded up to whole seconds, at least one
    std::optional<int> outcome_status = {};  ///< of outcome_not_retained: the status that was answered then
    std::optional<int> status = {};          ///< instead of the table's
    std::optional<bool> retryable = {};      ///< instead of the table's
    std::string_view more = {};              ///< members of this occurrence's own, as JSON: `"since":"…"`
};

struct ProblemAnswer {
    int status = 0;
    std::string body;         ///< JSON: type, title, status, detail, retryable, key, outcome_status and more
    std::string retry_after;  ///< the value of Retry-After; empty: without one
};

ProblemAnswer answer(Problem problem, const ProblemDetails& details = {});

}  // namespace semel::http
