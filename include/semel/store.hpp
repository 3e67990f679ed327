// A store: a driver behind one narrow interface that remembers operations durably.
//
// Commands come in batches and a batch is one durable commit. A store answers each command through `decide`
// (src/ledger/rules.hpp) or in a way that conformance tests show to be equal to it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "semel/ledger.hpp"

namespace semel {

/// Commands that stand or fall together. Most groups hold one. A group stands if every answer in it is Claimed,
/// Replay, Ok, or a lone command's own answer; otherwise nothing of it is done and the others answer Withheld.
struct Group {
    std::vector<Command> commands{};
    bool again = false;  ///< executed before with its reply lost: wait for locks of our own earlier transaction
    std::vector<OperationId> ids{};  ///< of the commands, in their order, if somebody has computed them

    [[nodiscard]] OperationId id(std::size_t command) const {
        return ids.empty() ? id_of(commands[command]) : ids[command];
    }
};

/// The answers of one group, in the order of its commands; or the failure of that group alone (corrupt, exhausted).
using GroupAnswer = Result<std::vector<Answer>>;

struct Executed {
    TimePoint now{};  ///< the store's clock, read after locking
    std::vector<GroupAnswer> answers{};
    Duration waited{0};  ///< for the disk alone, of the time it took; zero where the store cannot tell
};

struct Filter {
    std::optional<State> state{};
    std::optional<std::string> tenant{};
    std::optional<std::string> scope_name{};
    std::optional<std::uint32_t> generation{};
    std::optional<std::string> correlation{};
    std::optional<Duration> older_than{};  ///< since creation, by the store's clock
    std::optional<Duration> newer_than{};
};

struct Page {
    std::vector<Record> records{};
    std::string next{};         ///< pass to the following call; empty at the end
    std::uint64_t corrupt = 0;  ///< rows passed over because their checksum is wrong
};

struct Swept {
    std::uint64_t bodies_dropped = 0;
    std::uint64_t removed = 0;
    bool more = false;  ///< the limit was reached
};

/// One connection's worth of work on a store: used by one thread at a time, blocking.
class Session {
public:
    static constexpr std::size_t groups_max = 512;

    virtual ~Session() = default;

    /// Executes all groups in one transaction. No operation may appear twice in a batch.
    /// On success everything answered is durable. Failures of the whole:
    ///   unavailable    nothing happened
    ///   indeterminate  no reply to COMMIT: execute again with the same ids and `again` set
    ///   contended      rolled back because of another transaction's lock; smaller batches find the one
    ///   invalid        rolled back because of one command's data; smaller batches find the one
    virtual Result<Executed> execute(std::span<const Group> groups) = 0;
};

/// Thread safe. Sessions must not outlive their store.
class Store {
public:
    virtual ~Store() = default;

    virtual Result<std::unique_ptr<Session>> session() = 0;
    /// How many sessions do useful work at once.
    [[nodiscard]] virtual std::size_t sessions_max() const = 0;

    /// What is stored about an operation now, or nothing. Never a basis for deciding: that is what claim is for.
    virtual Result<std::optional<Record>> find(const OperationId& id) = 0;
    /// At most `limit` records in a stable order, after the place `cursor` names ("" is the start).
    virtual Result<Page> list(const Filter& filter, const std::string& cursor, std::size_t limit) = 0;
    /// Drops bodies and identities whose time has come, at most `limit` records in one short transaction.
    /// Refuses (unavailable) when the clock has jumped since the last sweep, unless `accept_clock`.
    virtual Result<Swept> sweep(std::size_t limit, bool accept_clock = false) = 0;
    virtual Result<TimePoint> now() = 0;
    /// For people: "sqlite:semel.db", without credentials.
    [[nodiscard]] virtual std::string text() const = 0;
};

}  // namespace semel
