// The loops somebody would write by hand: the same rows into the same tables with the same durability, and nothing else.
// No answer is decided, no token is counted, no checksum is made: what is written was prepared before.
#pragma once

#include <chrono>
#include <string>

#include "store/stores.hpp"
#include "support/figures.hpp"

namespace semel::bench {

using Seconds = std::chrono::duration<double>;

/// SQLite, one connection. `batch` commands are one transaction; 1: each commits by itself.
Run sqlite_by_hand(const std::string& path, std::size_t batch, Seconds length, const SampleRows& rows);

/// PostgreSQL, one prepared statement per command, each committed by itself, on `connections` at once.
Run postgres_one_by_one(const std::string& uri, std::size_t connections, Seconds length, const SampleRows& rows);

/// PostgreSQL, one prepared statement and one commit for `batch` commands, on `connections` at once.
Run postgres_batched(const std::string& uri, std::size_t connections, std::size_t batch, Seconds length,
                     const SampleRows& rows);

}  // namespace semel::bench
