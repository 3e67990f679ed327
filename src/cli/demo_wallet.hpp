// The demo's own tables: wallets and an audit of every credit, in the SQLite database that also holds the ledger.
//
// The audit has no unique constraint on purpose: nothing but Semel keeps a payment from being applied twice.
#pragma once

#include <string>
#include <vector>

#include "cli/demo_plan.hpp"
#include "stores/sqlite/database.hpp"

namespace semel::cli::demo {

inline constexpr const char* payments_scope = "demo/payments";  ///< the API: one operation per request key
inline constexpr const char* wallet_scope = "demo/wallet";      ///< the consumer: one operation per message

class Wallet {
public:
    /// Opens the database, which the ledger's owner has made.
    static Result<Wallet> open(const std::string& path);

    Status create(const std::vector<std::string>& accounts);

    struct Credit {
        std::string payment;
        std::string account;
        std::int64_t cents = 0;
    };
    /// The business writes, inside whatever transaction is open.
    Status credit(const Credit& credit);

    [[nodiscard]] Result<std::uint64_t> applied() const;

    struct Check {
        bool passed = false;
        std::string what;
    };
    /// Compares the tables with what the payments come to when each counts once.
    [[nodiscard]] Result<std::vector<Check>> check(const Plan& plan) const;

    [[nodiscard]] sqlite3* connection() const { return connection_.get(); }

private:
    explicit Wallet(sqlite::Connection connection) : connection_(std::move(connection)) {}
    [[nodiscard]] Result<Check> check_balances(const Plan& plan) const;
    [[nodiscard]] Result<Check> check_audit(const Plan& plan) const;
    sqlite::Connection connection_;
};

/// `1234.50`
std::string money(std::int64_t cents);

}  // namespace semel::cli::demo
