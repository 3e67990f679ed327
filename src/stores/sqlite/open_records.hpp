// What the owner of a store remembers of the operations it has running: the row as it wrote it, so that the holder's next
// command, most often the settle, reads nothing.
//
// It is a copy of rows that only writers change. Whatever another connection commits to the file makes it forget everything;
// what a transaction takes out comes back only if that transaction commits.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "semel/record.hpp"

namespace semel::sqlite {

/// Used by who has the writer's turn.
class OpenRecords {
public:
    struct Entry {
        std::int64_t rowid = 0;
        Record record{};
    };
    static constexpr std::size_t count_max = 8192;  ///< at more everything is forgotten, and read when it is needed

    /// `version` is the file's as others see it: it changes with every commit of another connection.
    void as_of(std::int64_t version) {
        if (version != version_) entries_.clear();
        version_ = version;
    }
    std::optional<Entry> take(const OperationId& id) {
        const auto found = entries_.find(id);
        if (found == entries_.end()) return std::nullopt;
        std::optional<Entry> entry(std::move(found->second));
        entries_.erase(found);
        return entry;
    }
    /// A row as it was committed. Small ones are kept that run: most are settled next.
    void keep(std::int64_t rowid, Record record) {
        const bool small = record.checkpoints.empty() && record.request.empty();
        if (record.state != State::running || !small) return;
        if (entries_.size() >= count_max) entries_.clear();  // most are of holders that vanished
        const OperationId id = record.id;
        entries_.insert_or_assign(id, Entry{rowid, std::move(record)});
    }

private:
    std::unordered_map<OperationId, Entry> entries_;
    std::int64_t version_ = 0;
};

}  // namespace semel::sqlite
