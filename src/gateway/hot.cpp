#include "gateway/hot.hpp"

#include <algorithm>

namespace semel::gateway {

std::size_t HotTier::bytes_of(const HotEntry& entry) {
    // The list's and the table's nodes are about as large as a place.
    return entry.outcome.body.size() + 2 * sizeof(Place);
}

HotEntry* HotTier::find(const OperationId& id, SteadyTime now) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return nullptr;
    const Places::iterator place = found->second;
    if (place->until <= now) {
        forget(place);
        return nullptr;
    }
    places_.splice(places_.begin(), places_, place);
    return &place->entry;
}

void HotTier::put(const OperationId& id, HotEntry entry, const Retention& retention, Duration age, SteadyTime now,
                  std::size_t bytes_max) {
    if (!entry.outcome.kept || entry.outcome.body.size() > entry_bytes_max) return;
    if (const auto known = by_id_.find(id); known != by_id_.end()) forget(known->second);
    Duration keep = kept_for;
    for (const auto& limit : {retention.identity, retention.response})
        if (limit) keep = std::min(keep, *limit - age);
    if (keep <= Duration{0}) return;
    bytes_ += bytes_of(entry);
    places_.push_front(Place{id, std::move(entry), now + keep});
    by_id_.emplace(id, places_.begin());
    while (bytes_ > bytes_max && !places_.empty()) forget(std::prev(places_.end()));
}

void HotTier::forget(Places::iterator place) {
    bytes_ -= bytes_of(place->entry);
    by_id_.erase(place->id);
    places_.erase(place);
}

}  // namespace semel::gateway
