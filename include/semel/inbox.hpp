// The inbox: the ledger and a consumer's own tables in the user's database, over one connection with one transaction.
//
// What a message does to the database, its claim and its outcome commit together. semel/postgres.hpp and semel/sqlite.hpp
// open one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "semel/once.hpp"

struct pg_conn;
struct sqlite3;

namespace semel {

/// The open transaction that a handler writes in: one of the two is there.
struct Transaction {
    pg_conn* postgres = nullptr;  ///< a PGconn in its ordinary mode, inside of BEGIN
    sqlite3* sqlite = nullptr;
};

/// A value that goes into a statement or comes out of it.
struct SqlBytes {
    std::string value{};
    bool operator==(const SqlBytes&) const = default;
};
using SqlValue = std::variant<std::monostate, std::int64_t, std::string, SqlBytes>;
using SqlRow = std::vector<SqlValue>;

/// The claim of one message in a batch.
struct InboxClaim {
    Operation operation;
    Fingerprint fingerprint{};
    Retention retention{};
    std::string correlation{};
};

/// Used by one thread. Failures are those of a store (semel/store.hpp): after `indeterminate` from commit the batch is
/// processed again, and its claims tell whether it had been done.
class Inbox {
public:
    virtual ~Inbox() = default;

    struct Begun {
        TimePoint now{};  ///< by the database's clock
        std::vector<SqlRow> rows{};
    };
    /// Begins a transaction, on a new connection if the last one was lost, and asks the first statement in the same breath.
    virtual Result<Begun> begin_and_ask(std::string_view sql, std::span<const SqlValue> parameters) = 0;
    Result<TimePoint> begin() {
        auto begun = begin_and_ask("select 1", {});
        if (!begun) return std::move(begun).failure();
        return begun->now;
    }
    /// Durable when it returns.
    virtual Status commit() = 0;
    virtual void roll_back() = 0;

    /// A place inside of the transaction to return to. There is one: it replaces the one before.
    virtual Status mark() = 0;
    virtual Status return_to_mark() = 0;
    /// Whether the transaction is still there: false after its connection was lost or somebody else ended it. Waits for the end
    /// of a statement that somebody has sent and not waited for, and ends a COPY.
    [[nodiscard]] virtual bool alive() const = 0;
    /// Whether a statement has failed in a way that only return_to_mark or roll_back mends.
    [[nodiscard]] virtual bool broken() const = 0;
    /// Moves on whenever a statement is executed in the transaction, and may do so without one. The same number twice, and
    /// nothing broken: there is nothing to undo in between.
    [[nodiscard]] virtual std::uint64_t changes() const = 0;
    /// Whether the last statement that failed did so because of another transaction (a deadlock, a lock timeout): the same
    /// work may succeed when it is done again.
    [[nodiscard]] virtual bool contended() const = 0;
    [[nodiscard]] virtual Transaction transaction() = 0;

    /// Claims all of them at once and marks the place after; no operation may appear twice. A claimed one counts as settled with status 0 and no
    /// outcome if this transaction commits, and as if it had never been claimed if not.
    virtual Result<std::vector<TransactionClaim>> claim(std::span<const InboxClaim> claims) = 0;
    /// Gives an operation that was claimed in this transaction another outcome; or settles one that is held under a lease.
    /// `contended`: it is held by somebody else.
    virtual Status settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) = 0;
    /// Takes claims of this transaction back.
    virtual void unclaim(std::span<const OperationId> claimed) = 0;

    /// Whether `token` holds the operation under a lease now. It cannot be superseded before this transaction has ended.
    virtual Result<bool> holds(const OperationId& id, Token token) = 0;

    /// One statement on the consumer's tables, in PostgreSQL's words: tables are `semel.name`, parameters $1, $2….
    /// SQLite's driver writes `semel_name`, leaves `for update`, `for share` and `skip locked` out, since it has one writer,
    /// and takes the elements of a JSON array by its own function.
    virtual Result<std::vector<SqlRow>> ask(std::string_view sql, std::span<const SqlValue> parameters) = 0;

    /// The same for a statement whose answer nobody needs: done by the time of commit, in order with what is asked or told
    /// after it. If it fails, that fails.
    virtual void tell(std::string_view sql, std::span<const SqlValue> parameters) = 0;

    /// For people: the database, without credentials.
    [[nodiscard]] virtual std::string text() const = 0;
};

}  // namespace semel
