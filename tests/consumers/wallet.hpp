// The wallet: the effect of the consumer tests. Every entry notes the balance before it, so that an effect applied twice,
// lost or interleaved shows in the books.
#pragma once

#include <string>

#include "database.hpp"
#include "semel/consumer.hpp"

namespace semel::test {

inline constexpr int wallet_accounts = 20;

/// Makes the tables, with all accounts at zero.
void make_wallet(Database& database);

/// A credit with this id, as a CloudEvent for the broker of that name.
Message credit(const std::string& broker, const std::string& id, int account, int amount);

/// Applies a credit.
void apply_credit(Work& work);

/// What is wrong with the books; empty: nothing. `ids` credits were made, of 1 to 100 each.
std::string audit(Database& database, int ids, const std::string& consumer);

}  // namespace semel::test
