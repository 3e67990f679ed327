// What the end of a try means. Pure; the whole table:
//
//   not one byte was sent                     again: surely not executed
//   sent, and no whole answer                 again: the key makes that safe
//   marked Idempotent-Replayed                final, whatever its status
//   2xx                                       final
//   in-progress, of Semel                     again: an earlier try of ours, or of a twin, is being executed
//   outcome-unknown, outcome-not-retained     final: the server says what it knows
//   409 of anybody else                       again: many servers say so of what is still being executed
//   408, 5xx                                  again: may have been executed
//   425, 429                                  again: not executed, by what they mean
//   anything else                             final: refused
//
// Every further try carries the same key and the same bytes.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "base/random.hpp"
#include "curl/caller.hpp"
#include "semel/client.hpp"

namespace semel::client {

struct Again {
    std::optional<Duration> after{};   ///< asked for by the server
    bool surely_not_executed = false;  ///< this try; of earlier ones it says nothing
    std::string why{};
    bool operator==(const Again&) const = default;
};

using Decision = std::variant<Again, Succeeded, NotRetained, Refused, OutcomeUnknown>;

/// `now` is what a date in Retry-After is compared with.
Decision decide(HttpEnd end, TimePoint now);

/// Whether a journal remembers this as the end. Not if it is the world that has to change before the same request succeeds
/// (a credential, an address, somebody's resolve), and the intent may be run again then.
bool is_settled(const Outcome& outcome);

/// Whether this answer shows that its own try was not executed.
bool surely_not_executed(const Refused& refused);

/// The wait after so many tries: random up to a limit that doubles, and never less than the server asked for.
Duration wait_after(const RetryRules& rules, std::uint32_t tries, std::optional<Duration> asked, Random& random);

}  // namespace semel::client
