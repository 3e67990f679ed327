// What a store remembers of the operations it has running: the record as it wrote it, so that the holder's next command,
// most often the settle, reads nothing.
//
// It is a copy of rows that others may change: a store uses it only where it notices that they did. What a transaction takes
// out comes back only if that transaction commits.
#pragma once

#include <optional>
#include <unordered_map>

#include "semel/record.hpp"

namespace semel {

/// `Place` is how the store finds or recognises the row. Used by one thread at a time.
template <class Place>
class OpenRecords {
public:
    struct Entry {
        Place place{};
        Record record{};
    };
    static constexpr std::size_t count_max = 8192;  ///< at more everything is forgotten, and read when it is needed

    std::optional<Entry> take(const OperationId& id) {
        const auto found = entries_.find(id);
        if (found == entries_.end()) return std::nullopt;
        std::optional<Entry> entry(std::move(found->second));
        entries_.erase(found);
        return entry;
    }
    /// A row as it was committed. Small ones are kept that run: most are settled next.
    void keep(Place place, Record record) {
        const bool small = record.checkpoints.empty() && record.request.empty();
        if (record.state != State::running || !small) return;
        if (entries_.size() >= count_max) forget();  // most are of holders that vanished
        const OperationId id = record.id;
        entries_.insert_or_assign(id, Entry{std::move(place), std::move(record)});
    }
    void forget() { entries_.clear(); }

private:
    std::unordered_map<OperationId, Entry> entries_;
};

}  // namespace semel
