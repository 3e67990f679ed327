// The ledger's commands and answers: what can be asked of an operation, and everything that can be said back.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "semel/operation.hpp"
#include "semel/record.hpp"

namespace semel {

// ---- answers to claim ------------------------------------------------------------------------------------------

/// Yours: perform the effect, then settle. Durable before anyone sees it (I10).
struct Claimed {
    Token token{};
    Attempt attempt{};
    bool doubt = false;  ///< an earlier holder may have begun: only a conclusive answer settles (I11)
    TimePoint lease_until{};
    std::uint32_t tries = 1;
    std::vector<Checkpoint> checkpoints{};
    std::string request{};  ///< under doubt: what the first claim brought, byte for byte; empty: nothing, or no doubt
    bool operator==(const Claimed&) const = default;
};
/// Done before: this is what was answered then, byte for byte (I2).
struct Replay {
    Outcome outcome{};
    TimePoint settled_at{};
    bool operator==(const Replay&) const = default;
};
/// Somebody holds a live lease.
struct Busy {
    Duration retry_after{0};
    bool operator==(const Busy&) const = default;
};
/// Same key, other fingerprint: a caller's bug (I7).
struct Mismatch {
    bool operator==(const Mismatch&) const = default;
};
/// The last holder vanished in mid-effect and repeating is not declared safe.
struct Unknown {
    TimePoint since{};
    bool operator==(const Unknown&) const = default;
};
/// Absent, and the key's own time says that its record may already have been swept.
struct Expired {
    bool operator==(const Expired&) const = default;
};
using ClaimAnswer = std::variant<Claimed, Replay, Busy, Mismatch, Unknown, Expired>;

// ---- answers to the holder and to people -----------------------------------------------------------------------

/// Done, or done before by the very same command.
struct Ok {
    std::optional<State> state{};            ///< after the command; empty: absent
    TimePoint lease_until{};                 ///< of running and unknown
    std::optional<Checkpoint> checkpoint{};  ///< what is stored under the name (first write wins)
    bool operator==(const Ok&) const = default;
};
/// Settled already, with this outcome.
struct Settled {
    Outcome outcome{};
    bool operator==(const Settled&) const = default;
};
/// Superseded: the token is not the current one. Nothing changed (I3).
struct Fenced {
    bool operator==(const Fenced&) const = default;
};
/// A resolve before the last effect can have ended (lease + effect deadline).
struct TooEarly {
    TimePoint not_before{};
    bool operator==(const TooEarly&) const = default;
};
using HolderAnswer = std::variant<Ok, Settled, Fenced, TooEarly>;

// ---- commands --------------------------------------------------------------------------------------------------

struct Claim {
    Operation operation;
    Fingerprint fingerprint{};
    Attempt attempt{};
    Policy policy{};                      ///< fixed by the first claim (I12)
    std::optional<TimePoint> key_time{};  ///< of time-ordered keys: lets an absent one be Expired
    std::string correlation{};
    /// What the effect is asked for with, for whoever takes the operation over: kept from the first claim until it is
    /// settled, and shown to nobody. Opaque, at most Record::request_bytes_max. It is no step: nothing began with it.
    std::string request{};
    TimePoint not_after = never;  ///< no new grant later than this (I6)
    bool in_transaction = false;  ///< claim, effect and outcome commit together: no lease, settled at once
};

/// Who holds it: from Claimed.
struct Holder {
    OperationId id{};
    Token token{};
    Attempt attempt{};
};

struct Renew {
    Holder holder{};
};
struct SaveCheckpoint {
    Holder holder{};
    Checkpoint checkpoint{};
};
struct Settle {
    Holder holder{};
    Outcome outcome{};
    bool conclusive = true;  ///< false: under doubt this answer does not say what the earlier try came to
};
struct Release {
    Holder holder{};
};
struct Abandon {
    Holder holder{};
};
/// A person's decision on an unknown outcome. `outcome` empty: "it did not happen".
struct Resolve {
    OperationId id{};
    Token token_seen{};
    std::optional<Outcome> outcome{};
    std::string who{};
    std::string why{};
};
using Command = std::variant<Claim, Renew, SaveCheckpoint, Settle, Release, Abandon, Resolve>;

/// A claim that came after its not_after and would have been granted. The committer makes a failure of it.
struct Late {
    bool operator==(const Late&) const = default;
};
/// Part of a group of which another command was refused: nothing was done.
struct Withheld {
    bool operator==(const Withheld&) const = default;
};
using Answer =
    std::variant<Claimed, Replay, Busy, Mismatch, Unknown, Expired, Ok, Settled, Fenced, TooEarly, Late, Withheld>;

OperationId id_of(const Command& command);

/// Overload set for std::visit, so that every case is spelled out.
template <class... Cases>
struct match : Cases... {
    using Cases::operator()...;
};
template <class... Cases>
match(Cases...) -> match<Cases...>;

}  // namespace semel
