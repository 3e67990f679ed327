// decide: the one pure function that holds the rules of the ledger. No I/O, no clock, no threads.
#pragma once

#include <optional>

#include "semel/ledger.hpp"
#include "semel/record.hpp"

namespace semel {

/// What the world looks like at the moment of the decision.
struct Moment {
    TimePoint now;  ///< the store's clock, read after the record was locked
    Token fresh;    ///< larger than every token the store has given out; used if the decision grants a claim
    Epoch owner;    ///< who asks, on an embedded store
};

struct Decision {
    Answer answer;
    std::optional<Record> next;  ///< what the store must hold afterwards; empty: absent
    bool changed = false;        ///< next differs from what was there
};

/// Answers one command on one record (or none) and says what must be remembered. Deterministic and total.
Decision decide(std::optional<Record> record, const Command& command, const Moment& moment);

/// The store's own command: the process that ran as `dead` or earlier is gone (I5).
Decision expire_owner(std::optional<Record> record, Epoch dead, TimePoint now);

/// The store's own command: forget what may be forgotten at `now`. Never touches what is running or unknown, and forgets no
/// identity that was settled at `progress` or later: a broker could still deliver that message again.
Decision sweep(std::optional<Record> record, TimePoint now, TimePoint progress = never);

/// Whether a group that contains this answer may stand.
bool stands(const Answer& answer);

}  // namespace semel
