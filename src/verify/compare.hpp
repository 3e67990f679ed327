// What two answers to one operation have in common, and what the second must not hold.
#pragma once

#include <optional>

#include "verify/client.hpp"
#include "verify/verdict.hpp"

namespace semel::verify {

/// Nothing: the same status.
std::optional<Failed> differing_status(const Response& first, const Response& again);

/// Nothing: the same status, the same body byte for byte, and the same fields about it (Content-Type, Location, ETag…).
/// Date, hop-by-hop fields and Idempotent-Replayed may differ, as may any other field.
std::optional<Failed> differing_answer(const Response& first, const Response& again);

/// Nothing: the replay holds no cookie of the first answer, no challenge or credential, nothing of another hop, and no
/// field twice that may be there once.
std::optional<Failed> unclean_replay(const Response& first, const Response& again);

}  // namespace semel::verify
