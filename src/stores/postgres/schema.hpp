// Semel's schema in a PostgreSQL database: the numbered migrations of sql/postgres, and what the server must be like.
#pragma once

#include "semel/postgres.hpp"
#include "stores/postgres/wire.hpp"

namespace semel::postgres {

/// The SQL of each migration, in order; compiled in from sql/postgres/*.sql.
extern const char* const migrations[];
extern const int migration_count;

/// The schema version of the database; zero: no schema of ours.
Result<int> schema_of(Wire& wire, Duration timeout);

/// The server keeps what it commits, is not a standby, and has the schema of this program.
Status check_server(Wire& wire, const Options& options);

/// A wire error as a failure: what was tried, where, and what may be concluded.
Failure failure_of(const WireError& error, std::string_view tried, const Options& options);

}  // namespace semel::postgres
