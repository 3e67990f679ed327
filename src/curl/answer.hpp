// What an answer says about the operation that was asked for. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "semel/http.hpp"
#include "semel/time.hpp"

namespace semel {

/// Marked `Idempotent-Replayed: true`: it was answered before, and this is that answer.
bool is_replayed(const HttpAnswer& answer);

/// What Retry-After asks for: seconds, or until a date as `now` sees it (zero if that is past). Nothing: it is not there, or
/// cannot be read.
std::optional<Duration> retry_after(const HttpAnswer& answer, TimePoint now);

/// A problem document of Semel's, as a gateway before the server answers.
struct SemelProblem {
    std::string slug{};  ///< "in-progress"
    bool retryable = false;
    std::optional<int> outcome_status{};
    bool operator==(const SemelProblem&) const = default;
};

/// Nothing if it is not application/problem+json with a type of Semel's.
std::optional<SemelProblem> read_problem(std::string_view content_type, std::string_view body);

/// As above; nothing if the body was cut.
std::optional<SemelProblem> read_problem(const HttpAnswer& answer);

}  // namespace semel
