// Semel's tables in a SQLite database, and the numbered migrations that make them.
#pragma once

#include <optional>

#include "semel/result.hpp"

struct sqlite3;

namespace semel::sqlite {

/// The schema this program writes.
inline constexpr int schema_version = 3;

/// The schema version of the database; zero: no tables of ours.
Result<int> schema_of(sqlite3* connection);

/// Brings the schema up to schema_version, in one transaction. `invalid` if it is newer.
Result<int> migrate_schema(sqlite3* connection);

/// Says why a database of this version cannot be used as it is; success if it can.
Status check_schema(int version, const char* path);

}  // namespace semel::sqlite
