// Semel on SQLite: the embedded store, and operations inside a caller's own SQLite transaction.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "semel/inbox.hpp"
#include "semel/once.hpp"
#include "semel/outbox.hpp"
#include "semel/store.hpp"

struct sqlite3;

namespace semel::sqlite {

enum class Access {
    own,   ///< the one owning process: creates and migrates the file, expires the leases of the owner before it
    read,  ///< find and list only, beside an owner or without one; fails if there is no store
};

struct Options {
    std::string path{};
    Access access = Access::own;
    /// Below this much free space on the file's disk new claims are refused, so that open operations can settle (I9).
    std::uint64_t reserve_bytes = 64ULL << 20;
    /// The file grows no further than this; zero: no limit. New claims are refused when the reserve is reached.
    std::uint64_t file_bytes_max = 0;
    /// How long to wait for another connection's transaction on the same file (a caller's own, see `once`).
    Duration busy_timeout = std::chrono::seconds{2};
    /// The store's clock; empty: wall time at the start, moved on by the kernel's boot clock, so that it never jumps.
    std::function<TimePoint()> clock{};
};

/// Opens the store. Fails with `unavailable` if another process owns it, `invalid` if the schema is newer than this
/// program or the path cannot be used, `corrupt` if the file is damaged.
Result<std::unique_ptr<Store>> open(Options options);

/// Creates or updates Semel's tables in the database of this connection. Returns the schema version.
Result<int> migrate(sqlite3* connection);

/// The consumer's side of a SQLite database, on a connection of its own; makes Semel's tables if they are not there. Needs
/// no ownership: any number of inboxes may share the file with each other and with the owner of its store.
Result<std::unique_ptr<Inbox>> open_inbox(Options options);

/// One relay's side of the outbox `name`, as an inbox beside the owner of the store and the processes that stage.
Result<std::unique_ptr<OutboxTable>> open_outbox(Options options, std::string name, std::string relay);

// ---- in your own transaction -----------------------------------------------------------------------------------
// The connection must have a transaction open (BEGIN IMMEDIATE is best: a deferred one may answer RetryTransaction) on a
// database with Semel's tables. Nothing here begins, commits or rolls back the caller's transaction.

/// Runs `effect` unless this operation was done before. An effect that throws leaves nothing of itself and of the claim.
Result<OnceAnswer> once(sqlite3* transaction, const Operation& operation, const Fingerprint& fingerprint,
                        const Effect& effect, const OnceOptions& options = {});

/// The two halves of `once`. A transaction that commits without settle leaves a tombstone: done, outcome not kept.
/// Settle also ends what a lease holds, under its token (policy `joined`); Claimed may then come without its attempt.
/// Ok: this transaction settles it. Settled, Fenced: it does not, and what it wrote beside must be rolled back; Settled also
/// when another transaction has settled it with an equal outcome.
Result<TransactionClaim> claim(sqlite3* transaction, const Operation& operation, const Fingerprint& fingerprint,
                               const OnceOptions& options = {});
Result<HolderAnswer> settle(sqlite3* transaction, const Operation& operation, const Claimed& claimed,
                            const Outcome& outcome);

/// Stages an event: it is published if and only if this transaction commits. Returns its number.
Result<std::int64_t> stage(sqlite3* transaction, const StagedEvent& staged);

/// A value for a column: text, or null.
struct Column {
    std::string name{};
    std::optional<std::string> value{};
};

/// Inserts a row unless one with the same `unique` columns is there; returns `returning` of the row either way.
/// Needs no ledger row; the table must have a unique constraint on exactly those columns.
Result<CreatedRow> create_once(sqlite3* transaction, const std::string& table, std::span<const Column> unique,
                               std::span<const Column> rest, std::span<const std::string> returning);

/// Sets `column` of the row where `id` matches from `expected` to `next`, together with `also`.
Result<AppliedIf> apply_if(sqlite3* transaction, const std::string& table, const Column& id, const std::string& column,
                           const std::string& expected, const std::string& next, std::span<const Column> also = {});

}  // namespace semel::sqlite
