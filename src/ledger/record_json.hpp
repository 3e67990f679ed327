// A record as JSON, the same from the command line and the admin listener.
#pragma once

#include <string>

#include "base/json.hpp"
#include "semel/record.hpp"

namespace semel {

/// `v1:` and the bytes in hex.
std::string fingerprint_text(const Fingerprint& fingerprint);

/// Whether a running one's lease is over: the next claim will find it unknown.
bool lease_is_over(const Record& record, TimePoint now);
/// When a person may resolve it: the lease and the effect's deadline are over.
TimePoint resolvable_from(const Record& record);
/// Empty of a tombstone, which has forgotten it.
std::optional<TimePoint> created_at(const Record& record);
/// `permanent`, or as in `24h`.
std::string lasting(const std::optional<Duration>& duration);

/// One JSON object, without the outcome's body. Times are ISO 8601 in UTC or null, durations as `30s`, lasting for ever is
/// `permanent`.
void write_record(JsonWriter& json, const Record& record, TimePoint now);
/// The same without the braces, for an object that says more.
void write_record_members(JsonWriter& json, const Record& record, TimePoint now);

}  // namespace semel
