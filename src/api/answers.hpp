// The ledger's answers as JSON. What went well has a member `answer`; conflicts and refusals are problem documents (RFC
// 9457) that have it, too, so that a client can decide by one field.
//
//   claimed 201 · replay, ok, found 200 · busy, unknown, settled, fenced, too_early 409 · expired 410 · mismatch 422 ·
//   withheld 424
#pragma once

#include <string>
#include <string_view>

#include "api/commands.hpp"
#include "http/problem.hpp"
#include "semel/ledger.hpp"
#include "semel/record.hpp"

namespace semel::api {

/// One answer: a status and one JSON object, which ends in a line feed.
struct Said {
    int status = 200;
    bool problem = false;
    std::string json{};
    std::string retry_after{};  ///< the value of Retry-After; empty: without one
    std::string_view word{};    ///< `claimed`, `fenced`…, or a problem's slug: for metrics
};

/// `lease` is the length of the lease that was granted, of Claimed.
Said said(const Answer& answer, const Asked& asked, Duration lease);
/// What happened instead of an answer.
Said said(const Failure& failure, const Asked& asked);
Said said(const Refused& refused);
Said said(http::Problem problem, const http::ProblemDetails& details = {});

/// The answer to find. Never tells the attempt: it is what proves a holder.
Said found(const Record& record, const Operation& operation, TimePoint now);

}  // namespace semel::api
