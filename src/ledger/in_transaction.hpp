// A claim and its settle inside a caller's own transaction: what the drivers that offer it do the same way.
#pragma once

#include <optional>

#include "ledger/rules.hpp"
#include "semel/once.hpp"

namespace semel {

/// Refuses what the ledger could not keep: spans, correlation, a key more than five minutes ahead of `now` (where there is
/// one to compare with).
Status check(const Operation& operation, const OnceOptions& options, std::optional<TimePoint> now = std::nullopt);
Status check(const Outcome& outcome);

/// The key's time as it counts: the one given; else, where the retention is finite, that inside a UUIDv7 key, so that a
/// late retry is Expired and not a new run.
std::optional<TimePoint> key_time_of(const Operation& operation, const OnceOptions& options);

/// Which transaction claimed an operation: kept as the record's attempt. The Claimed that a caller gets has none, so that
/// only the driver, which knows where it is, can fill the row.
using TransactionId = Attempt;

/// Settle by a caller who holds `claimed`, inside the transaction `here`. Without an attempt the token alone counts: an
/// application that is handed a lease's token need not know more. Ok says that this transaction settles the
/// operation. Unlike a leased holder's repeat, a record that another transaction has settled is Settled even with an
/// equal outcome: whatever this transaction wrote beside it would be a second effect (I2).
Decision settle_in_transaction(std::optional<Record> record, const OperationId& id, const Claimed& claimed,
                               const Outcome& outcome, const TransactionId& here, TimePoint now);

}  // namespace semel
