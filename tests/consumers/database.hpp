// The user's database in consumer tests: SQLite in a temporary folder, or PostgreSQL with a database of its own.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "semel/inbox.hpp"
#include "semel/store.hpp"

namespace semel::test {

class Database {
public:
    virtual ~Database() = default;
    virtual std::unique_ptr<Inbox> inbox() = 0;
    /// The store in it, for leases and sweeps; of an embedded one this process is the owner.
    virtual std::unique_ptr<Store> store() = 0;
    /// On a connection of its own. Tables of Semel's are named `semel.x`.
    virtual void run(const std::string& sql) = 0;
    /// The first column of the first row, or "".
    virtual std::string value(const std::string& sql) = 0;
    /// How another process finds it.
    [[nodiscard]] virtual std::string url() const = 0;
};

inline constexpr std::string_view database_names[] = {"sqlite", "postgres"};
std::unique_ptr<Database> make_database(std::string_view name);

/// One statement in a handler's transaction; throws std::runtime_error if it fails.
void execute(const Transaction& transaction, const std::string& sql);

/// An inbox on the database at `url`, as Database::url() writes it.
std::unique_ptr<Inbox> open_inbox_at(const std::string& url);
std::unique_ptr<Store> open_store_at(const std::string& url);

}  // namespace semel::test
