// The stored form of a record: a few plain columns that people and SQL read, one versioned binary column for the rest,
// and a checksum over all of it. docs/formats/record.md describes every byte.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "semel/record.hpp"

namespace semel {

/// One row of the `operation` table, the same in every SQL store.
struct Row {
    OperationId id;
    Token token;
    std::optional<std::int64_t> due;  ///< microseconds: due_at(record)
    State state = State::running;
    std::optional<std::string> scope;  ///< Scope::text(); absent together with the key in a tombstone
    std::optional<std::string> key;
    std::string record;                  ///< everything else, then 8 bytes of checksum
    std::optional<std::string> outcome;  ///< the body that a replay returns
};

Row to_row(const Record& record);

/// Back to the record. Fails with `corrupt` on any flipped bit, truncation, misplaced row or unknown format version;
/// such a row is never replayed and never run again.
Result<Record> from_row(const Row& row);

/// The last 8 bytes of Row::record: over all other columns. `head` is Row::record without them.
std::string checksum(const Row& row, std::string_view head);

}  // namespace semel
