// The stage of one simulation: time that moves from event to event, chance from one seed, faults drawn from it and
// counted, and a trace whose hash tells whether two runs were the same.
#pragma once

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/random.hpp"
#include "semel/time.hpp"

namespace semel::sim {

using Steady = std::chrono::steady_clock::time_point;
using What = std::move_only_function<void()>;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// An invariant did not hold.
class Violation : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

enum class Fault : std::size_t {
    crash,              ///< of an instance, between any two events
    reply_lost_done,    ///< COMMIT was done, its reply lost
    reply_lost_undone,  ///< rolled back, but the client cannot know
    commit_late,        ///< a transaction whose client is gone holds its locks and commits seconds later
    rollback_late,      ///< the same, but it rolls back
    connection_lost,    ///< before COMMIT was sent
    executed_twice,     ///< the network delivers a batch a second time, later
    network_slow,       ///< a batch takes seconds to arrive
    instance_paused,    ///< longer than a lease
    holder_paused,      ///< longer than a lease
    row_locked,         ///< a batch met somebody else's lock
    poison,             ///< a command that fails its transaction
    outage,             ///< the store is unavailable for a while
    store_full_claims,  ///< no room for claims, enough to settle (I9)
    store_full,         ///< no room at all
    clock_jump,         ///< of the store
    gave_up,            ///< a caller stopped waiting early
    bit_rot,            ///< a stored row is damaged for a while
    effect_reply_lost,  ///< the provider did it, or not, and nobody knows
    effect_sent_twice,  ///< the network delivers a request to a deduplicating provider twice
    effect_not_begun,   ///< the provider could not be reached: the claim is released
    outcome_forgotten,  ///< a caller's transaction commits without giving its outcome
    broker_lost,        ///< the connection to the broker, with what is on its way
    broker_outage,      ///< nobody can publish for a while
    receipt_lost,       ///< the broker has the event, and nobody is told
    event_refused,      ///< the broker does not take an event, for a while
    count,
};
inline constexpr std::size_t fault_count = static_cast<std::size_t>(Fault::count);
std::string_view name(Fault fault);

/// What a run came to, added up over the runs.
enum class Tally : std::size_t {
    events,
    operations,
    requests,
    batches,
    commands,
    splits,
    repeats,
    grants,
    takeovers,
    effects,
    deduplicated,
    stored,
    replays,
    tombstone_replays,
    busy,
    mismatches,
    unknowns,
    expired,
    fenced,
    settled_late,  ///< by a holder whose lease had run out
    renewals,
    releases,
    unclaimed,  ///< grants released because the caller had given up
    abandons,
    inconclusive,
    too_early,
    resolved_happened,
    resolved_did_not,
    checkpoints,
    workflows,
    joined,
    in_transaction,
    swept_bodies,
    swept_records,
    owner_deaths,     ///< operations that a restart made unknown
    corrupt_refused,  ///< commands refused because their row was damaged
    intents,          ///< performed by the intent's machine
    lookups,          ///< of unknown outcomes, by it
    completed,        ///< workflows that were carried on without a client
    run_to_the_end,   ///< workflows, by the engine
    compensated,      ///< the same, undone
    local_steps,      ///< committed
    staged,           ///< events, committed
    published,        ///< that arrived at the broker
    published_again,  ///< copies of them
    stuck,            ///< refusals that were noted
    count,
};
inline constexpr std::size_t tally_count = static_cast<std::size_t>(Tally::count);
std::string_view name(Tally tally);

struct Counts {
    std::array<std::uint64_t, fault_count> faults{};
    std::array<std::uint64_t, tally_count> tallies{};
    void add(const Counts& other);
};

class Stage {
public:
    /// `only`: judge this invariant and no other; empty: all of them.
    Stage(std::uint64_t seed, bool print, std::string only);

    // ---- time: one true clock; the store's is it plus an offset
    [[nodiscard]] Duration now() const { return now_; }
    [[nodiscard]] Steady steady() const { return Steady{now_}; }
    void after(Duration delay, What what);
    /// Runs the next event. False: there is none.
    bool step();
    [[nodiscard]] bool idle() const { return queue_.empty(); }
    /// Drops what is still to come.
    void clear() { queue_.clear(); }

    // ---- chance
    Random& random() { return random_; }
    std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
    bool chance(double probability);
    Duration between(Duration least, Duration most);

    // ---- faults
    /// Whether a fault strikes here, at the rate drawn for this seed; never when it is calm. Counted.
    bool strikes(Fault fault);
    /// A fault that came about by itself.
    void count(Fault fault) { ++counts_.faults[static_cast<std::size_t>(fault)]; }
    void count(Tally tally, std::uint64_t by = 1) { counts_.tallies[static_cast<std::size_t>(tally)] += by; }
    void calm_down() { calm_ = true; }
    [[nodiscard]] bool calm() const { return calm_; }
    [[nodiscard]] double rate(Fault fault) const { return rates_[static_cast<std::size_t>(fault)]; }
    [[nodiscard]] const Counts& counts() const { return counts_; }

    // ---- what happened
    template <class... Args>
    void trace(fmt::format_string<Args...> text, Args&&... args) {
        write(fmt::format(text, std::forward<Args>(args)...));
    }
    [[nodiscard]] std::uint64_t trace_hash() const { return hash_; }
    /// Throws Violation, unless another invariant is the only one that is judged.
    template <class... Args>
    void violated(std::string_view invariant, fmt::format_string<Args...> text, Args&&... args) {
        fail(invariant, fmt::format(text, std::forward<Args>(args)...));
    }

private:
    void write(const std::string& line);
    void fail(std::string_view invariant, const std::string& detail);

    std::uint64_t seed_;
    bool print_;
    std::string only_;
    std::string violation_;  // thrown again if somebody caught it
    bool calm_ = false;
    SeededRandom random_;
    Duration now_ = seconds{1000};
    std::uint64_t events_ = 0;
    std::map<std::pair<Duration, std::uint64_t>, What> queue_;
    std::array<double, fault_count> rates_{};
    Counts counts_;
    std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace semel::sim
