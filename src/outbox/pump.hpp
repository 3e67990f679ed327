// The pump: staged events out of the database, into a broker, in order.
//
//     staged ──turn──> in hand ──publish──> on its way ──receipt──> confirmed ──turn──> removed
//        ^               |                   |  ^                    |
//        +───────────────+───────────────────+  +── (again) ─────────+   crash, lost broker, lost lease: it is still there
//        +──── retry_at ──── stuck <── refused
//
// What a crash leaves:
//   after a read, before the event was handed over   the row: it is published by whoever comes next
//   handed over, no receipt                          the row: published again, with the same id
//   confirmed, and no turn asked to remove it        the row: published again, with the same id
//   confirmed, the turn that removes it unanswered   the row, or nothing: the database knows
//   removed                                          nothing
//
// Nothing is remembered of what was read: what is in the table is what is left to do. So an event that commits late, with a
// lower sequence than those published before it, is not skipped.
//
// One thread, and the database works beside it: a turn (remove, note, read) is begun, and what is in hand is published while it
// is on its way. It reads shards of which nothing waits in hand, each from its first row on, so that reading ahead is nothing
// but working on the shards by halves; what was read long ago is let go and read again. Between the beginning of a turn and
// its answer the world goes on:
//   confirmed meanwhile     the answer may have the row: it is not taken, and a later turn removes it
//   refused meanwhile       the answer may have the row and its key's next ones: none is taken; the next turn notes it
//   still on its way        the answer has the row and its key's next ones: these wait for the receipt, as ever
//   the broker was lost     the answer has all that is left of its shards, from the first on: as good as any other
//   the lease ran out       nothing of it is handed over
//   no answer, or a failure what was to be removed and noted is asked for again, with more
//
// Order: of one key the rows of the table are its events in the order of commits (sql/postgres/004_outbox.sql), without a
// first part that has been published. A relay hands them over from the first one on, each after the receipt of the one before
// it, or all of one topic to a publisher that keeps their order. So the first occurrences of a key's events at the broker are in order
// whoever publishes: also when a relay that slept through its lease wakes up, and two work on one shard. The lease shares the
// work; neither order nor safety rests on it, and a row may be removed by anyone who has its receipt.
//
// A refused event stops its key: those behind it are not read until it has been published, or dropped by a person.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.hpp"
#include "outbox/publisher.hpp"
#include "semel/outbox.hpp"

namespace semel::outbox {

struct PumpOptions {
    Duration lease = std::chrono::seconds{10};       ///< how soon others take a dead relay's work over
    std::size_t batch = 4000;                        ///< events read at once, of all shards; of each at least one
    Duration poll = std::chrono::seconds{1};         ///< how often to look without having been told
    Duration retry_first = std::chrono::seconds{1};  ///< for a refused event; doubles
    Duration retry_max = std::chrono::minutes{5};
    Duration alarm = std::chrono::seconds{30};  ///< an event or a staging transaction older than this is told of
};

struct PumpState {
    std::uint64_t published = 0;   ///< confirmed
    std::uint64_t duplicates = 0;  ///< of those: the broker had them before
    std::uint64_t refused = 0;
    std::uint64_t restarts = 0;  ///< the broker failed, and everything without a receipt began again
    std::size_t on_their_way = 0;
    std::size_t shards = 0;
    std::size_t relays = 0;
    std::uint64_t stuck = 0;
    double oldest_seconds = 0;   ///< age of the oldest event that is not published
    double held_up_seconds = 0;  ///< of the oldest transaction that staged and has not ended
    std::string broker_down{};   ///< why nothing is published at present; empty: it is
    std::string store_down{};
};

/// "info", "warning" or "error", and a text for people.
using Say = std::function<void(std::string_view level, std::string_view text)>;

class Pump {
public:
    Pump(OutboxTable& table, Publisher& publisher, PumpOptions options, Say say, const Clock& clock = system_clock());

    /// Until it is asked to stop; then what is on its way is waited for, and the lease given up.
    void run(const std::stop_token& stop);
    [[nodiscard]] PumpState state() const;  ///< thread safe

private:
    using Steady = Clock::Steady;
    enum class Went : std::uint8_t { on, idle, wrong };
    /// What may fail on the database while the others work.
    enum class Part : std::uint8_t { turn, hold, bell, look };

    void hold();
    Went round();
    [[nodiscard]] bool due() const;
    void begin_turn();
    bool hear(Result<std::vector<OutboxRow>> read);
    void finish_turn();
    void look_at(const std::vector<OutboxReading>& wanted, const std::vector<OutboxRow>& read);
    [[nodiscard]] std::vector<OutboxReading> shares() const;
    [[nodiscard]] bool may_follow(const OutboxRow& row) const;
    void take(OutboxRow row);
    bool send_ready();
    [[nodiscard]] Duration patience() const;
    bool collect(Duration wait);
    bool settle(const Receipt& receipt);
    void broker_failed(const Failure& failure);
    void store_failed(Part part, const Failure& failure);
    void store_answered(Part part);
    [[nodiscard]] Duration& store_pause(Part part) { return store_pauses_[static_cast<std::size_t>(part)]; }
    void forget_unsent(Steady read_by = Steady::max());
    void forget(const OutboxPlace& place);
    void drain(Duration most);
    void sleep(const std::stop_token& stop, Duration time);
    void listen(const std::stop_token& stop);
    void look_after();
    template <class Change>
    void note(Change change);

    OutboxTable& table_;
    Publisher& publisher_;
    PumpOptions options_;
    Say say_;
    const Clock& clock_;

    std::vector<std::int16_t> shards_;
    Steady held_until_{};
    Steady hold_next_{};
    std::size_t batch_;  // less than it may be after a turn that failed: it may have been too much

    struct Shard {
        std::size_t rows = 0;  // in hand
        Steady read_at{};
        bool full = false;   // had as much as was asked for
        bool quiet = false;  // had nothing
    };
    std::map<std::int16_t, Shard> by_shard_;

    /// A turn that has no answer yet.
    struct Asked {
        std::vector<OutboxReading> wanted{};
        std::size_t done = 0;     // of confirmed_, from the first one on
        std::size_t refused = 0;  // of refused_, likewise
        Steady at{};
    };
    std::optional<Asked> asked_;
    std::uint64_t turns_ = 0;  // asked for

    struct PlaceHash {
        std::size_t operator()(const OutboxPlace& place) const {
            return static_cast<std::size_t>(place.sequence) * 31 + static_cast<std::size_t>(place.shard);
        }
    };
    struct InHand {
        OutboxRow row{};
        bool on_its_way = false;
    };
    std::unordered_map<OutboxPlace, InHand, PlaceHash> rows_;          // read: ready, waiting or on their way
    std::deque<OutboxPlace> ready_;                                    // to be handed over
    std::unordered_map<std::string, std::deque<OutboxPlace>> behind_;  // by key: wait for the one before
    std::unordered_set<std::string> busy_;                             // keys with an event ready or on its way
    std::size_t on_their_way_ = 0;
    struct Going {
        std::string topic{};
        std::size_t count = 0;
    };
    std::unordered_map<std::string, Going> going_;  // by key: those on their way
    struct Stopped {
        std::int16_t shard = 0;
        std::uint64_t turn = 0;  // the last one that had been asked for
    };
    std::unordered_map<std::string, Stopped> stopped_;  // keys that wait until their shard is read anew
    std::vector<OutboxPlace> confirmed_;                // and not known to be removed
    std::vector<OutboxRefusal> refused_;                // and not known to be noted
    std::map<OutboxPlace, std::uint64_t> tries_;

    bool bell_ = true;
    Steady bell_since_{};
    Duration broker_pause_{};
    std::array<Duration, 4> store_pauses_{};  // by Part; zero: it answers
    Steady look_next_{};
    Steady told_{};

    mutable std::mutex mutex_;
    PumpState state_;  // guarded by mutex_
};

}  // namespace semel::outbox
