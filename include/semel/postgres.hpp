// Semel on PostgreSQL: the store that many instances share, and operations inside a caller's own transaction.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "semel/inbox.hpp"
#include "semel/once.hpp"
#include "semel/outbox.hpp"
#include "semel/store.hpp"

struct pg_conn;

namespace semel::postgres {

struct Options {
    std::string uri{};             ///< postgres://user@host/db, as libpq reads it
    std::size_t sessions_max = 4;  ///< connections for batches; one more reads and sweeps
    Duration connect_timeout = std::chrono::seconds{3};
    Duration timeout = std::chrono::seconds{5};             ///< for the reply to one round trip
    Duration lock_timeout = std::chrono::milliseconds{50};  ///< a row locked longer than this is Busy
    Duration lock_timeout_again = std::chrono::seconds{4};  ///< for a batch whose reply was lost
};

/// Connects and checks the server: the schema is the one this program knows, synchronous_commit and fsync are on, it is
/// not a standby. Works through PgBouncer in transaction mode. `unavailable` if it cannot be reached, else `invalid`.
Result<std::unique_ptr<Store>> open(Options options);

/// The schema this program writes.
int schema_version();
/// Creates or updates the schema `semel`, in one transaction under a lock. Returns the version; `invalid` if it is newer.
Result<int> migrate(const Options& options);

/// The consumer's side of the same database, on a connection of its own. Connects and checks as `open` does.
Result<std::unique_ptr<Inbox>> open_inbox(Options options);

/// One relay's side of the outbox `name`. `relay` is its name among the relays of that outbox, and nobody else's.
Result<std::unique_ptr<OutboxTable>> open_outbox(Options options, std::string name, std::string relay);

// ---- in your own transaction -----------------------------------------------------------------------------------
// On a caller's own connection with a transaction open, in a database with the schema `semel`. Nothing here begins,
// commits or rolls back the caller's transaction. At READ COMMITTED a concurrent duplicate waits for the first to end and
// gets its replay; at stricter levels the answer is RetryTransaction. After a failure, and after RetryTransaction, of
// anything but `once` the transaction has failed, as after any error of PostgreSQL. A table is named `name` or
// `schema.name`, as it is stored.

/// Runs `effect` unless this operation was done before. An effect that throws leaves nothing of itself and of the claim,
/// and the transaction goes on. One that ends the transaction itself is `indeterminate`.
Result<OnceAnswer> once(pg_conn* transaction, const Operation& operation, const Fingerprint& fingerprint,
                        const Effect& effect, const OnceOptions& options = {});

/// The two halves of `once`. A transaction that commits without settle leaves a tombstone: done, outcome not kept.
/// Settle also ends what a lease holds, under its token (policy `joined`); Claimed may then come without its attempt.
/// Ok: this transaction settles it. Settled, Fenced: it does not, and what it wrote beside must be rolled back; Settled also
/// when another transaction has settled it with an equal outcome.
Result<TransactionClaim> claim(pg_conn* transaction, const Operation& operation, const Fingerprint& fingerprint,
                               const OnceOptions& options = {});
Result<HolderAnswer> settle(pg_conn* transaction, const Operation& operation, const Claimed& claimed,
                            const Outcome& outcome);

/// Stages an event: it is published if and only if this transaction commits. Waits until another transaction that staged for
/// the same ordering key has ended. Returns its number. `contended`: roll back and run the transaction again.
Result<std::int64_t> stage(pg_conn* transaction, const StagedEvent& staged);

/// A value for a column: text that PostgreSQL reads as the column's type, or null.
struct Column {
    std::string name{};
    std::optional<std::string> value{};
};

/// Inserts a row unless one with the same `unique` columns is there; returns `returning` of the row either way.
/// Needs no ledger row; the table must have a unique constraint on exactly those columns.
Result<CreatedRow> create_once(pg_conn* transaction, const std::string& table, std::span<const Column> unique,
                               std::span<const Column> rest, std::span<const std::string> returning);

/// Sets `column` of the row where `id` matches from `expected` to `next`, together with `also`.
Result<AppliedIf> apply_if(pg_conn* transaction, const std::string& table, const Column& id, const std::string& column,
                           const std::string& expected, const std::string& next, std::span<const Column> also = {});

}  // namespace semel::postgres
