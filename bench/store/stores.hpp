// The stores under measurement: opened fresh, or filled with records that nobody asks for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "ledger/row.hpp"
#include "semel/committer.hpp"

namespace semel::bench {

/// A store with its committer. Ends the program if it cannot be opened.
struct Opened {
    std::unique_ptr<Store> store;
    std::unique_ptr<Committer> committer;
};
Opened open_sqlite(const std::string& path);
Opened open_postgres(const std::string& uri, std::size_t sessions = 0);  ///< 0: the store's default

/// Another database on the same server, with the schema `semel`, dropped with this object.
class PostgresDatabase {
public:
    PostgresDatabase(std::string uri, std::string name);
    ~PostgresDatabase();
    PostgresDatabase(const PostgresDatabase&) = delete;
    PostgresDatabase& operator=(const PostgresDatabase&) = delete;
    [[nodiscard]] const std::string& uri() const { return uri_; }

private:
    std::string server_;
    std::string name_;
    std::string uri_;
};

/// Runs SQL on a connection of its own; returns the first column of the first row as a number, or zero.
double postgres_sql(const std::string& uri, const std::string& sql);

/// The two rows that a claim and its settlement write, as the ledger makes them.
struct SampleRows {
    Row claimed;
    Row settled;
};
SampleRows sample_rows(std::size_t body_bytes);

/// Records that were settled long ago.
enum class Past {
    tombstones,  ///< permanent identities without their answers
    expired,     ///< their retention is over: the next sweep removes them
};
/// Puts `count` of them into a store that nobody has open, in random order of their ids, as fast as that goes.
void fill_sqlite(const std::string& path, std::uint64_t count, Past past);
void fill_postgres(const std::string& uri, std::uint64_t count, Past past);

/// The disk that a store nobody writes to takes, indexes included, and space that is ready to be used again left out.
double sqlite_used_bytes(const std::string& path);
double postgres_used_bytes(const std::string& uri);

}  // namespace semel::bench
