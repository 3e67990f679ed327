// What was settled lately, in the memory of one thread, so that the duplicates that follow within moments cost the store
// nothing. It may answer Replay and Mismatch from what is settled, and nothing else: a settled outcome never changes (I2),
// while anything that is absent here has to be asked of the ledger. Losing it costs speed, not correctness.
#pragma once

#include <list>
#include <optional>
#include <unordered_map>

#include "gateway/deadlines.hpp"
#include "semel/operation.hpp"

namespace semel::gateway {

struct HotEntry {
    Fingerprint fingerprint{};
    Outcome outcome{};
    TimePoint settled_at{};
};

/// Used by one thread.
class HotTier {
public:
    static constexpr Duration kept_for = std::chrono::minutes{5};  ///< or until the retention ends, if that is sooner
    static constexpr std::size_t entry_bytes_max = 64 * 1024;      ///< larger responses are the store's

    /// What is known of a settled operation; nullptr: ask the ledger. Valid until the next call.
    HotEntry* find(const OperationId& id, SteadyTime now);
    /// The ledger has said that it is settled so. Beyond `bytes_max` those that were used least lately are forgotten.
    /// `age`: since it was settled.
    void put(const OperationId& id, HotEntry entry, const Retention& retention, Duration age, SteadyTime now,
             std::size_t bytes_max);

    [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
    struct Place {
        OperationId id;
        HotEntry entry;
        SteadyTime until;
    };
    using Places = std::list<Place>;
    static std::size_t bytes_of(const HotEntry& entry);
    void forget(Places::iterator place);

    Places places_;  // the one used last in front
    std::unordered_map<OperationId, Places::iterator> by_id_;
    std::size_t bytes_ = 0;
};

}  // namespace semel::gateway
