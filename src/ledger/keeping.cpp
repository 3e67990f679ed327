#include "ledger/keeping.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace semel {

bool matches(const Filter& filter, const Record& record, TimePoint now) {
    if (filter.state && *filter.state != record.state) return false;
    if (filter.tenant && (!record.operation || record.operation->scope.tenant() != *filter.tenant)) return false;
    if (filter.scope_name && (!record.operation || record.operation->scope.name() != *filter.scope_name)) return false;
    if (filter.generation && (!record.operation || record.operation->scope.generation() != *filter.generation))
        return false;
    if (filter.correlation && record.correlation != *filter.correlation) return false;
    // A tombstone has forgotten when it was created; it was before it settled.
    const TimePoint born = record.created != TimePoint{} ? record.created : record.settled_at.value_or(now);
    if (filter.older_than && born > now - *filter.older_than) return false;
    if (filter.newer_than && born < now - *filter.newer_than) return false;
    return true;
}

Status check_sweep_clock(std::optional<TimePoint> last_sweep, TimePoint now, bool accept_clock) {
    if (!last_sweep || accept_clock) return Done{};
    const bool ahead = now > later(*last_sweep, sweep_step_max);
    const bool back = later(now, sweep_step_back_max) < *last_sweep;
    if (!ahead && !back) return Done{};
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - *last_sweep).count();
    return Failure{
        Code::unavailable,
        fmt::format("sweep: the store's clock moved by {} s since the last sweep ({} at most); nothing was swept. "
                    "If the clock is right, run `semel ops sweep --accept-clock` once",
                    seconds, ahead ? "7 days ahead" : "5 minutes back")};
}

}  // namespace semel
