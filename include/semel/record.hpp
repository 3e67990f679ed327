// What the ledger remembers about one operation, and the policy its first claim fixed (I12).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "semel/operation.hpp"

namespace semel {

enum class State : std::uint8_t { running = 1, unknown = 2, settled = 3 };
std::string_view name(State state);

/// What a claim may do when the last holder vanished in mid-effect.
enum class OnUnknown : std::uint8_t {
    refuse = 0,  ///< nothing: a person decides
    retry = 1,   ///< repeat: the other side deduplicates by our key, within dedup_window of the first claim
    resume = 2,  ///< continue a workflow: its steps are operations of their own
    joined = 3,  ///< repeat: the application settles under the token in its own transaction
};
std::string_view name(OnUnknown policy);

struct Policy {
    OnUnknown on_unknown = OnUnknown::refuse;
    Duration dedup_window{0};                             ///< of `retry`; afterwards it is `refuse`
    Duration lease = std::chrono::seconds{30};            ///< how fast a crash is noticed
    Duration effect_deadline = std::chrono::seconds{30};  ///< how long an effect may outlive its lease
    Retention retention{};
    bool operator==(const Policy&) const = default;
};

struct Checkpoint {
    std::string name{};
    std::string value{};
    bool operator==(const Checkpoint&) const = default;
};

enum class Transition : std::uint8_t {
    claimed = 1,
    taken_over = 2,
    lease_lost = 3,
    abandoned = 4,
    owner_died = 5,
    settled = 6,
    resolved = 7,
};
std::string_view name(Transition what);

struct HistoryEntry {
    Transition what;
    TimePoint at{};
    Token token{};
    bool operator==(const HistoryEntry&) const = default;
};

struct Record {
    static constexpr std::size_t checkpoints_max = 256;
    static constexpr std::size_t history_max = 8;
    static constexpr std::size_t request_bytes_max = 64U << 10;

    // Identity. Scope and key are dropped together with the stored answer when response_retention ends.
    OperationId id{};
    std::optional<Operation> operation{};
    std::optional<TimePoint> key_time{};
    Fingerprint fingerprint{};
    std::string correlation{};

    // State.
    State state = State::running;
    bool doubt = false;     ///< an earlier holder may have begun (I11)
    bool touched = false;   ///< the holder has used its token: a repeated claim is not granted again (I6)
    bool unfilled = false;  ///< settled inside a caller's transaction that has not given its outcome
    Token token{};
    Attempt attempt{};
    Epoch owner{};
    TimePoint lease_until{};

    Policy policy{};
    std::string request{};  ///< of the first claim, while the operation is open

    // History.
    TimePoint created{};
    std::uint32_t tries = 1;
    std::optional<TimePoint> unknown_since{};
    std::string resolved_by{};
    std::string resolved_why{};
    std::vector<HistoryEntry> history{};  ///< the last few, oldest first

    // Result.
    Outcome outcome{};  ///< meaningful when settled
    std::optional<TimePoint> settled_at{};
    std::vector<Checkpoint> checkpoints{};  ///< first write wins

    bool operator==(const Record&) const = default;
};

/// When the identity of a settled record ends: max(settled, key time) + retention; `never` if permanent.
TimePoint expires_at(const Record& record);

/// When a store has to look at the record again without being asked: the lease's end, the body's end, the identity's
/// end; `never` for unknown; nothing for a record that only waits to be asked.
std::optional<TimePoint> due_at(const Record& record);

}  // namespace semel
