// The world the walk moves in: one operation's record, who was granted it, and what really happened outside.
//
// A world is kept in a canonical form, so that the reachable ones are finitely many although time, tokens and attempts are
// not bounded:
//   - now is always the same point: time passes by making everything recorded one tick older, and what is older than any
//     rule looks back is all alike;
//   - tokens count back from the last one granted; attempts are numbered in the order of their last grant;
//   - of the past grants the last `grants_max` are remembered: the holders whose delayed commands may still arrive;
//   - what no rule reads is fixed (history, tries, when it became unknown): `check` looks at those on every edge instead.
// The three claimants are whoever has these attempts, and a stranger with a new one. The two fingerprints can be exchanged,
// so the record's own is always fingerprints[0].
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "semel/ledger.hpp"
#include "semel/record.hpp"

namespace semel::enumerate {

inline constexpr Duration tick = std::chrono::seconds{1};
inline constexpr TimePoint now = time_from_micros(1'000'000'000);
constexpr TimePoint in_ticks(int ticks) { return now + ticks * tick; }
constexpr int ticks_until(TimePoint at) { return static_cast<int>((at - now) / tick); }

// Every span a rule looks at has an inside, an edge and an outside, and they nest as they do in real use.
inline constexpr int lease_ticks = 2;
inline constexpr int deadline_ticks = 1;
inline constexpr int dedup_ticks = 5;
inline constexpr int response_ticks = 2;
inline constexpr int identity_ticks = 4;

inline constexpr Epoch epoch_now{10};
inline constexpr Epoch epoch_before{9};

/// What is the same throughout one walk: the route's retention and the kind of its keys.
struct Setting {
    std::string_view name;
    std::optional<int> identity;  ///< ticks; empty: permanent
    std::optional<int> response;
    std::optional<int> key_time;  ///< ticks from the first moment; empty: keys carry no time
};

/// What a holder is up to, outside the ledger.
enum class Stage : std::uint8_t {
    waiting,     ///< granted, has not begun its effect; may while it believes in its lease (I4)
    performing,  ///< has begun
    withdrawn,   ///< never began and never will: it said so, or died
    finished,    ///< began, and is done with it: it said so, or died
};

struct Grant {
    std::uint8_t attempt = 0;
    Stage stage = Stage::finished;
    std::uint8_t lease = 0;  ///< ticks left, by what the ledger told the holder
    bool used = false;       ///< a renew or checkpoint of it was answered
    bool operator==(const Grant&) const = default;

    /// Believes to be the holder and acts on it.
    [[nodiscard]] bool live() const { return lease > 0 && (stage == Stage::waiting || stage == Stage::performing); }
};

/// What is true outside the ledger, whether the ledger knows it or not.
struct Outside {
    static constexpr std::size_t grants_max = 3;

    std::array<Grant, grants_max> grants;  ///< the last ones, newest first
    std::uint8_t granted = 0;              ///< how many of `grants` there are
    int age = 0;                           ///< ticks since the first moment (followed only where keys carry time)
    bool begun = false;                    ///< an effect has begun since the operation was last absent
    bool ended = false;                    ///< was settled once (followed only where keys carry time)
    bool operator==(const Outside&) const = default;
};

struct World {
    const Setting* setting = nullptr;
    std::optional<Record> record;
    Outside outside;
};

/// Before the first claim.
World first_world(const Setting& setting);

/// A world in canonical form, and back.
using Packed = std::uint64_t;
Packed pack(const World& world);
World unpack(Packed packed, const Setting& setting);

/// Whether the canonical form keeps of this world all that rules and predicates read.
bool survives_packing(const World& world);

/// The token of grants[i]; every token ever granted is at most token_of(0).
constexpr Token token_of(std::size_t i) { return {100 - i}; }

/// The store's counter: what the next grant will get (I3).
Token fresh_token(const World& world);

Attempt attempt_of(std::uint8_t number);
inline constexpr std::uint8_t stranger = 9;  ///< an attempt the record has not seen

const Operation& operation();
const OperationId& operation_id();
extern const std::array<Fingerprint, 3> fingerprints;  ///< the record's, another one, the same by other rules (version)
std::optional<TimePoint> key_time(const World& world);

Policy policy_of(OnUnknown on_unknown, const Setting& setting);

inline const Outcome paid{200, "paid", true};
inline const Outcome declined{402, "declined", true};
inline const Outcome not_kept = Outcome::tombstone(507);

/// The checkpoint the walk saves, with one of two values.
Checkpoint checkpoint(std::size_t value);

/// What a claim may bring to be asked again: the first claim's, and that of those that come later.
inline const std::array<std::string, 2> requests{"asked first", "asked later"};

/// One line for people.
std::string text(const World& world);

}  // namespace semel::enumerate
