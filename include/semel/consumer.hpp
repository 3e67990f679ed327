// A consumer: takes messages from a source and applies each once.
//
//     begin; claim (group, source, id); the handler's writes; outcome; commit; then acknowledge
//
// Many messages share a transaction. What each crash leaves: before the commit nothing, and the broker delivers again; after
// it everything, and the broker's next delivery finds the claim and is acknowledged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "semel/envelope.hpp"
#include "semel/inbox.hpp"
#include "semel/message_key.hpp"
#include "semel/source.hpp"

namespace semel {

class Committer;
class Loop;

enum class DeliveryMode : std::uint8_t {
    effectively_once,  ///< claimed in the transaction of the effect: applied once, however often it is delivered
    at_least_once,     ///< no ledger: a redelivery is applied again
    at_most_once,      ///< acknowledged first, no ledger: a crash loses the message. For telemetry.
};
std::string_view name(DeliveryMode mode);

/// What to do with an event that is not the next of its aggregate. The aggregate is the event's subject or, without one, the
/// message's ordering key; its sequence is an integer in an extension of the event.
enum class OrderGuard : std::uint8_t {
    off,      ///< apply in the order of arrival
    latest,   ///< events carry full state: one that is older than the last applied changes nothing (`stale`)
    gapless,  ///< events carry changes: one that comes too early is held until the ones before it have come
};
std::string_view name(OrderGuard guard);

struct RetryOptions {
    std::uint32_t tries_max = 10;  ///< in all; then the dead letters
    Duration first = std::chrono::seconds{1};
    Duration max = std::chrono::minutes{5};
    /// Messages with the same ordering key wait behind one that failed. Off: they pass it.
    bool hold_order = true;
    bool operator==(const RetryOptions&) const = default;
};

/// What settled operations of messages say, as their status.
namespace message_status {
inline constexpr std::int32_t handled = 0;
inline constexpr std::int32_t stale = 1;  ///< an older state than what was applied before: nothing was changed
inline constexpr std::int32_t dead = 2;   ///< in the dead letters
}  // namespace message_status

struct ConsumerOptions {
    std::string name{};    ///< the group: part of the identity of everything it has done; never reuse, never rename
    std::string tenant{};  ///< may be empty
    EnvelopeOptions envelope{};
    MessageKeyOptions key{};
    DeliveryMode mode = DeliveryMode::effectively_once;
    Retention retention{};
    RetryOptions retries{};
    OrderGuard order = OrderGuard::off;
    std::string sequence_extension = "sequence";
    /// Of `gapless`: the sequence of an aggregate's first event. Empty: whichever is met first, for consumers that begin in
    /// the middle of history.
    std::optional<std::int64_t> sequence_first = 1;
    std::size_t batch_max = 256;    ///< messages in one transaction, at most 1024
    std::size_t batches_ahead = 2;  ///< fetched while one is worked on
    /// Messages between two savepoints while all goes well, and 8 for a while after a failure: as many are run again when one
    /// fails that has written.
    std::size_t marks_every = 256;
    Duration lease = std::chrono::seconds{30};          ///< of handlers with steps
    Duration progress_every = std::chrono::seconds{5};  ///< how often progress is noted for the sweep
    /// Told of what a person should know: failures of the broker and the database, messages that fail or die. Called by
    /// several threads; must not throw.
    std::function<void(std::string_view)> log{};
    /// For tests: called at named points ("claimed", "handled", "committed", "acknowledged"; with steps also "step"), by
    /// several threads.
    std::function<void(std::string_view)> at{};
};

/// One message in the handler's hands.
struct Work {
    const Event& event;
    const Message& message;
    const Operation& operation;
    Transaction transaction{};
    std::uint32_t tries = 1;  ///< this one included
    /// What later deliveries are told was the outcome. Optional; kept for the response retention.
    Outcome outcome = Outcome::tombstone(message_status::handled);
};

/// Thrown by a handler for a message that no further try can help: it goes to the dead letters at once.
class Reject : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Writes in work.transaction, and nowhere else: it may be run again for the same message, and only one run is committed.
/// Must not begin, commit or roll back, nor wait for others. Whatever it throws fails this message alone: nothing it wrote
/// remains, and it is tried again later.
using Handler = std::function<void(Work&)>;

/// A message whose handling is done in steps, each in a transaction of its own.
class Steps {
public:
    virtual ~Steps() = default;
    [[nodiscard]] virtual const Event& event() const = 0;
    [[nodiscard]] virtual const Message& message() const = 0;
    [[nodiscard]] virtual const Operation& operation() const = 0;
    [[nodiscard]] virtual std::uint32_t tries() const = 0;

    /// Runs `effect` and keeps what it returned, in one transaction; if that was done before, in this run or an earlier one,
    /// returns what is kept. Names are unique within a message. Throws what `effect` throws, and when the step could not be
    /// done: let it pass.
    virtual std::string step(std::string_view name, const std::function<std::string(Transaction)>& effect) = 0;
};
using StepHandler = std::function<void(Steps&)>;

/// How many messages came to what, since the start.
struct ConsumerCounts {
    std::uint64_t received = 0;
    std::uint64_t applied = 0;
    std::uint64_t duplicates = 0;  ///< absorbed: done before, or a copy of another message of the same batch
    std::uint64_t stale = 0;
    std::uint64_t held = 0;    ///< waiting for the gap before them
    std::uint64_t behind = 0;  ///< waiting behind one that failed
    std::uint64_t failed = 0;  ///< tries that failed
    std::uint64_t dead = 0;
    std::uint64_t lost = 0;     ///< the broker no longer has them; at most once: nobody knows whether they were applied
    std::uint64_t batches = 0;  ///< transactions committed
};

/// Start it from any thread; `run` blocks. It opens nothing: source and inbox are the caller's, and used only inside `run`.
class Consumer {
public:
    /// `invalid` names the option that is wrong.
    static Result<std::unique_ptr<Consumer>> make(ConsumerOptions options, std::unique_ptr<Source> source,
                                                  std::unique_ptr<Inbox> inbox, Handler handler);
    /// With a lane for each inbox, at least one and all of one database: as many transactions at once, so that one batch is
    /// handled while another is claimed or committed. Messages with the same ordering key go to the same lane, in their
    /// order. Each lane has a thread and a copy of `handler`: what the copies refer to is used by all of them at once. For
    /// PostgreSQL, where a handler mostly waits for answers (docs/speed.md); SQLite has one writer, and further lanes only
    /// wait for it.
    static Result<std::unique_ptr<Consumer>> make(ConsumerOptions options, std::unique_ptr<Source> source,
                                                  std::vector<std::unique_ptr<Inbox>> inboxes, Handler handler);
    /// With steps: each message holds a lease in the ledger, and is not batched. `committer` is of the same database.
    static Result<std::unique_ptr<Consumer>> make(ConsumerOptions options, std::unique_ptr<Source> source,
                                                  std::unique_ptr<Inbox> inbox, StepHandler handler,
                                                  Committer& committer);
    ~Consumer();

    /// Until `stop` is asked for or the source says that it never will deliver (`invalid`). In-flight work is finished or
    /// rolled back; what was committed is acknowledged.
    Status run(const std::stop_token& stop);
    /// Thread safe.
    [[nodiscard]] ConsumerCounts counts() const;

private:
    explicit Consumer(std::unique_ptr<Loop> loop);
    std::unique_ptr<Loop> loop_;
};

}  // namespace semel
