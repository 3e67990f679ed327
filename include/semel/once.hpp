// In your own transaction: claim, business write and outcome commit together. No lease is needed; the primary key
// serialises duplicates and a crash rolls back everything. semel/sqlite.hpp and semel/postgres.hpp have the functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "semel/ledger.hpp"

namespace semel {

/// The effect ran in this transaction and its outcome was written beside it. Commit to make both durable.
struct Applied {
    Outcome outcome{};
    bool operator==(const Applied&) const = default;
};
/// The database could not serialise this transaction with another one: roll it back and run it again.
struct RetryTransaction {
    bool operator==(const RetryTransaction&) const = default;
};

/// Everything that `once` can answer. Only Applied has run the effect.
using OnceAnswer = std::variant<Applied, Replay, Busy, Mismatch, Unknown, Expired, RetryTransaction>;

/// What a claim inside a transaction can answer; settle it in the same transaction.
using TransactionClaim = std::variant<Claimed, Replay, Busy, Mismatch, Unknown, Expired, RetryTransaction>;

/// The business writes, on the same connection. What it throws passes through `once`, and nothing of it remains.
using Effect = std::function<Outcome()>;

struct OnceOptions {
    Retention retention{};
    std::optional<TimePoint> key_time{};
    std::string correlation{};
};

/// create_once: the row was made now, or was there before; `row` holds the columns asked for, as text, null where empty.
struct CreatedRow {
    bool created = false;
    std::vector<std::optional<std::string>> row{};
};

/// apply_if: a compare-and-set on state that carries its own idempotency.
enum class AppliedIf {
    applied,            ///< the row had the expected state and has the new one now
    already_applied,    ///< the row has the new state already
    conflict,           ///< the row has neither
    missing,            ///< there is no such row
    retry_transaction,  ///< the database could not serialise this transaction: roll it back and run it again
};

}  // namespace semel
