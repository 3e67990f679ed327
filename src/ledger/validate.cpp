// What the ledger refuses before anything reaches a store.
#include <fmt/format.h>

#include <algorithm>

#include "semel/committer.hpp"
#include "semel/ledger.hpp"

namespace semel {
namespace {

constexpr Duration lease_min = std::chrono::milliseconds{100};
constexpr Duration lease_max = std::chrono::hours{24};
constexpr Duration span_max = std::chrono::hours{24 * 366 * 100};
constexpr std::size_t correlation_bytes_max = 255;
constexpr std::size_t checkpoint_name_bytes_max = 255;
constexpr std::size_t checkpoint_bytes_max = 1U << 20;
constexpr std::size_t outcome_bytes_max = 64U << 20;
constexpr std::size_t person_bytes_max = 255;
constexpr std::size_t reason_bytes_max = 4096;

Status invalid(std::string message) { return Failure{Code::invalid, std::move(message)}; }

bool printable(std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c <= 0x7e; });
}
/// Text that every store can keep and every log can show.
bool clean(std::string_view text) {
    return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

Status check_span(std::string_view what, Duration value, Duration least, Duration most) {
    if (value >= least && value <= most) return Done{};
    return invalid(fmt::format("{} is {} ms; it must be between {} ms and {} ms", what,
                               value / std::chrono::milliseconds{1}, least / std::chrono::milliseconds{1},
                               most / std::chrono::milliseconds{1}));
}

Status check_policy(const Policy& policy) {
    if (auto ok = check_span("lease", policy.lease, lease_min, lease_max); !ok) return ok;
    if (auto ok = check_span("effect_deadline", policy.effect_deadline, Duration{0}, lease_max); !ok) return ok;
    if (auto ok = check_span("dedup_window", policy.dedup_window, Duration{0}, span_max); !ok) return ok;
    if (policy.on_unknown == OnUnknown::retry && policy.dedup_window == Duration{0})
        return invalid("on_unknown: retry needs a dedup_window: how long the other side remembers our key");
    const Retention& retention = policy.retention;
    if (retention.identity) {
        if (auto ok = check_span("retention", *retention.identity, std::chrono::seconds{1}, span_max); !ok) return ok;
        if (*retention.identity < policy.lease)
            return invalid("retention is shorter than the lease: a record would not outlive its effect");
    }
    if (retention.response) {
        if (auto ok = check_span("response_retention", *retention.response, Duration{0}, span_max); !ok) return ok;
    }
    return Done{};
}

}  // namespace

Status validate(const Command& command) {
    return std::visit(
        match{[](const Claim& c) -> Status {
                  if (c.correlation.size() > correlation_bytes_max || !printable(c.correlation))
                      return invalid("a correlation id has at most 255 printable ASCII characters");
                  if (c.request.size() > Record::request_bytes_max)
                      return invalid("a claim's request has at most 64 KiB (request_bytes_max)");
                  if (c.in_transaction)
                      return invalid(
                          "a claim inside a caller's transaction goes through semel/sqlite.hpp or semel/postgres.hpp");
                  return check_policy(c.policy);
              },
              [](const SaveCheckpoint& c) -> Status {
                  if (c.checkpoint.name.empty() || c.checkpoint.name.size() > checkpoint_name_bytes_max ||
                      !clean(c.checkpoint.name))
                      return invalid("a checkpoint's name has 1 to 255 bytes and no control characters");
                  if (c.checkpoint.value.size() > checkpoint_bytes_max)
                      return invalid("a checkpoint's value has at most 1 MiB");
                  return Done{};
              },
              [](const Settle& c) -> Status {
                  if (c.outcome.body.size() > outcome_bytes_max)
                      return invalid("an outcome has at most 64 MiB; settle a larger one as a tombstone (I8)");
                  if (!c.outcome.kept && !c.outcome.body.empty()) return invalid("a tombstone has no body");
                  return Done{};
              },
              [](const Resolve& c) -> Status {
                  if (c.who.empty() || c.who.size() > person_bytes_max || !clean(c.who))
                      return invalid("resolve: say who decides, in 1 to 255 bytes");
                  if (c.why.empty() || c.why.size() > reason_bytes_max || !clean(c.why))
                      return invalid("resolve: say why, in 1 to 4096 bytes");
                  if (c.outcome && c.outcome->body.size() > outcome_bytes_max)
                      return invalid("an outcome has at most 64 MiB");
                  return Done{};
              },
              [](const Renew&) -> Status { return Done{}; }, [](const Release&) -> Status { return Done{}; },
              [](const Abandon&) -> Status { return Done{}; }},
        command);
}

}  // namespace semel
