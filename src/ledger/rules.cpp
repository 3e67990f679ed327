// The rules of the ledger.
//
//             claim                        settle(outcome)
// (absent) ------------> running  ----------------------------------> settled --sweep--> (absent)
//     ^  release:         |    ^                                        ^      after retention
//     |  surely never     |    | claim again, only if the operation's   |
//     |  began            |    | policy says that is safe               | settle by the same holder,
//     +-------------------+    |                                        | or a person's resolve
//     ^                   |    |                                        |
//     |                   v    |                                        |
//     |   lease ran out, or the holder abandoned ----> unknown ---------+
//     +------------------ resolve: "it did not happen" --+
//
// I1  At most one live holder per operation. Of concurrent claims of one absent operation exactly one is Claimed.
// I2  A settled outcome never changes, and every replay returns it byte for byte. After response_retention the body
//     may be dropped: a tombstone that still answers "done, with status N".
// I3  Tokens come from one store-wide counter that only grows, across release and sweep too. A holder command whose
//     token is not the record's current one answers Fenced and changes nothing. Fenced means superseded, not late.
// I4  A lease is renewed while the effect runs, so its length is how fast a crash is noticed. A holder starts an effect
//     only while its own steady clock, started before the claim was sent, is safely inside the lease.
// I5  Leases are judged by one clock per store. On an embedded store a restart makes the dead process's leases unknown
//     at once, never simply claimable.
// I6  Every command is safe to repeat. A claim whose reply was lost is executed again with the same attempt id and gets
//     the same answer, until the holder has used its token. A claim carries a not_after.
// I7  The fingerprint (with its version) is compared on every path: settled, running and unknown alike.
// I8  What cannot be stored still settles, as a tombstone. It never runs again.
// I9  Nothing is dropped for want of room.
// I10 A claim is durable before its effect begins, an outcome before it is announced as stored.
// I11 Doubt is not forgotten. A claim taken over from unknown carries doubt: releasing it returns to unknown, and only a
//     conclusive answer settles it.
// I12 The policy of an operation is fixed by its first claim.
//
// I9 and I10 are kept by the stores and the committer, I4 by the holder; the others here.
//
// SEMEL_MUTATION(name, right, wrong) marks the places where a rule can be broken on purpose: the enumeration test is
// built once per mutation and has to fail. In the shipped build it is `right`.
#include "ledger/rules.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "ledger/mutation.hpp"

namespace semel {
namespace {

void remember(Record& record, Transition what, TimePoint at) {
    if (record.history.size() == Record::history_max) record.history.erase(record.history.begin() + 1);
    record.history.push_back({what, at, record.token});
}

Decision keep(std::optional<Record> record, Answer answer) { return {std::move(answer), std::move(record), false}; }
Decision change(Record record, Answer answer) { return {std::move(answer), std::move(record), true}; }
Decision remove(Answer answer) { return {std::move(answer), std::nullopt, true}; }

bool lease_over(const Record& record, TimePoint now) { return record.lease_until <= now; }

void make_unknown(Record& record, Transition why, TimePoint since, TimePoint now) {
    record.state = State::unknown;
    record.unknown_since = since;
    remember(record, why, now);
}

void make_settled(Record& record, Outcome outcome, TimePoint now) {
    record.state = State::settled;
    record.outcome = std::move(outcome);
    record.settled_at = now;
    record.lease_until = {};
    record.doubt = false;
    record.unknown_since.reset();
    record.checkpoints.clear();
    if (SEMEL_MUTATION(request_outlives_settle, true, false)) record.request.clear();
    remember(record, Transition::settled, now);
}

/// The request goes with doubt: the first holder knows what it asks for, who takes over repeats what was asked before.
Claimed claimed(const Record& record) {
    return {record.token,
            record.attempt,
            record.doubt,
            record.lease_until,
            record.tries,
            record.checkpoints,
            record.doubt ? record.request : std::string{}};
}

Ok ok(const Record& record) { return {record.state, record.lease_until, std::nullopt}; }

// ---- claim -----------------------------------------------------------------------------------------------------

/// Absent, and its record may already have been swept: a record lives until max(settled, key time) + retention.
bool may_have_been_swept(const Claim& claim, TimePoint now) {
    return claim.key_time && claim.policy.retention.identity &&
           later(*claim.key_time, *claim.policy.retention.identity) <= now;
}

/// I6: nobody waits for it any more.
bool too_late(const Claim& claim, TimePoint now) {
    return SEMEL_MUTATION(not_after_ignored, now > claim.not_after, false);
}

Decision claim_absent(const Claim& claim, const Moment& moment) {
    if (SEMEL_MUTATION(expired_ignored, may_have_been_swept(claim, moment.now), false))
        return keep(std::nullopt, Expired{});
    if (too_late(claim, moment.now)) return keep(std::nullopt, Late{});

    Record record{.id = claim.operation.id(),
                  .operation = claim.operation,
                  .key_time = claim.key_time,
                  .fingerprint = claim.fingerprint,
                  .correlation = claim.correlation,
                  .token = moment.fresh,
                  .attempt = claim.attempt,
                  .owner = moment.owner,
                  .lease_until = later(moment.now, claim.policy.lease),
                  .policy = claim.policy,
                  .request = SEMEL_MUTATION(request_not_kept, claim.request, std::string{}),
                  .created = moment.now,
                  .unknown_since = {},
                  .resolved_by = {},
                  .resolved_why = {},
                  .history = {},
                  .outcome = {},
                  .settled_at = {},
                  .checkpoints = {}};
    remember(record, Transition::claimed, moment.now);
    const Claimed answer = claimed(record);
    if (SEMEL_MUTATION(claim_in_transaction_left_open, claim.in_transaction, false)) {
        // Settled from the start: a transaction that commits without giving its outcome still never runs twice.
        make_settled(record, Outcome::tombstone(0), moment.now);
        record.unfilled = true;
    }
    return change(std::move(record), answer);
}

bool policy_allows_takeover(const Record& record, TimePoint now) {
    switch (SEMEL_MUTATION(refuse_is_retried, record.policy.on_unknown, OnUnknown::resume)) {
        case OnUnknown::refuse: return false;
        // I12: the other side forgets our key when its window ends, counted from the first send.
        case OnUnknown::retry:
            return SEMEL_MUTATION(dedup_window_ignored, now < later(record.created, record.policy.dedup_window), true);
        case OnUnknown::resume: return true;
        case OnUnknown::joined: return true;
    }
    return false;
}

Decision take_over(Record record, const Claim& claim, const Moment& moment) {
    // A claim inside a caller's transaction has no lease to take over: a person decides, or the next leased claim.
    if (SEMEL_MUTATION(transaction_takes_over, claim.in_transaction, false) ||
        !policy_allows_takeover(record, moment.now)) {
        const Unknown answer{record.unknown_since.value_or(record.lease_until)};
        if (record.state == State::unknown) return keep(std::move(record), answer);
        // Told once, it stays so: from here on only settle, resolve or a takeover ends it.
        make_unknown(record, Transition::lease_lost, record.lease_until, moment.now);
        return change(std::move(record), answer);
    }
    if (too_late(claim, moment.now)) return keep(std::move(record), Late{});

    if (record.state == State::running) remember(record, Transition::lease_lost, moment.now);
    record.state = State::running;
    record.doubt = SEMEL_MUTATION(doubt_not_set_on_takeover, true, false);  // I11
    record.touched = false;
    record.unknown_since.reset();
    record.token = SEMEL_MUTATION(token_kept_on_takeover, moment.fresh, record.token);  // I3
    record.attempt = claim.attempt;
    record.owner = moment.owner;
    record.lease_until = later(moment.now, record.policy.lease);
    record.policy = SEMEL_MUTATION(policy_follows_claim, record.policy, claim.policy);  // I12
    if (SEMEL_MUTATION(request_follows_claim, false, true)) record.request = claim.request;
    ++record.tries;
    remember(record, Transition::taken_over, moment.now);
    const Claimed answer = claimed(record);
    return change(std::move(record), answer);
}

bool is_mismatch(const Record& record, const Fingerprint& fingerprint) {
    const bool compare = SEMEL_MUTATION(fingerprint_ignored_while_running, true, record.state != State::running) &&
                         SEMEL_MUTATION(fingerprint_ignored_when_unknown, true, record.state != State::unknown) &&
                         SEMEL_MUTATION(fingerprint_ignored_when_settled, true, record.state != State::settled);
    return compare && SEMEL_MUTATION(fingerprint_version_ignored, record.fingerprint != fingerprint,
                                     record.fingerprint.bytes != fingerprint.bytes);
}

Decision decide_claim(std::optional<Record> held, const Claim& claim, const Moment& moment) {
    if (!held) return claim_absent(claim, moment);
    Record& record = *held;

    // I7: first of all, on every path.
    if (is_mismatch(record, claim.fingerprint)) return keep(std::move(held), Mismatch{});

    switch (record.state) {
        case State::settled: {
            // I8: without a body it is done all the same.
            if (SEMEL_MUTATION(tombstone_is_claimed, false, !record.outcome.kept)) return claim_absent(claim, moment);
            const Replay answer{record.outcome, *record.settled_at};
            return keep(std::move(held), answer);
        }
        case State::running:
            if (lease_over(record, moment.now)) return take_over(std::move(record), claim, moment);
            // I6: our own claim whose reply was lost, unless its holder has been heard of since.
            if (record.attempt == claim.attempt && SEMEL_MUTATION(claim_granted_after_touch, !record.touched, true)) {
                const Claimed answer = claimed(record);
                return keep(std::move(held), answer);
            }
            if (SEMEL_MUTATION(second_holder_granted, false, record.policy.on_unknown == OnUnknown::retry))
                return take_over(std::move(record), claim, moment);
            return {Busy{record.lease_until - moment.now}, std::move(held), false};
        case State::unknown: return take_over(std::move(record), claim, moment);
    }
    SEMEL_ASSERT(false, "a record has one of three states");
}

// ---- the holder's commands -------------------------------------------------------------------------------------

bool is_current(const Record& record, const Holder& holder) {
    return SEMEL_MUTATION(token_not_compared, record.token == holder.token, true) &&
           SEMEL_MUTATION(attempt_not_compared, record.attempt == holder.attempt, true);
}

Decision renew(Record record, const Moment& moment) {
    if (record.state == State::settled) return keep(record, Settled{record.outcome});
    // Once somebody was told "unknown" a renewal does not take it back.
    if (SEMEL_MUTATION(renew_revives_unknown, record.state == State::unknown, false)) return keep(record, ok(record));
    record.state = State::running;
    record.touched = SEMEL_MUTATION(renew_does_not_touch, true, record.touched);
    record.lease_until =
        SEMEL_MUTATION(renew_does_not_extend, std::max(record.lease_until, later(moment.now, record.policy.lease)),
                       record.lease_until);  // I4
    const Ok answer = ok(record);
    return change(std::move(record), answer);
}

Decision save_checkpoint(Record record, const SaveCheckpoint& command) {
    if (record.state == State::settled) return keep(record, Settled{record.outcome});
    const auto same_name = [&](const Checkpoint& c) { return c.name == command.checkpoint.name; };
    Ok answer = ok(record);
    auto found = std::ranges::find_if(record.checkpoints, same_name);
    if (found != record.checkpoints.end()) {
        if (SEMEL_MUTATION(checkpoint_overwritten, false, true)) found->value = command.checkpoint.value;
        answer.checkpoint = *found;
        // I6: found, not written, is a use of the token as well.
        if (SEMEL_MUTATION(checkpoint_found_does_not_touch, record.touched, true))
            return keep(std::move(record), answer);
        record.touched = true;
        return change(std::move(record), answer);
    }
    answer.checkpoint = command.checkpoint;
    record.touched = true;
    record.checkpoints.push_back(command.checkpoint);
    return change(std::move(record), answer);
}

Decision settle(Record record, const Settle& command, const Moment& moment) {
    if (record.state == State::settled) {
        if (record.unfilled || SEMEL_MUTATION(outcome_overwritten, false, true)) {
            record.unfilled = false;
            record.outcome = command.outcome;
            const Ok answer = ok(record);
            return change(std::move(record), answer);
        }
        if (record.outcome == command.outcome) return keep(record, ok(record));
        return keep(record, Settled{record.outcome});
    }
    // I3: late is not superseded.
    if (SEMEL_MUTATION(late_settle_is_fenced, false, lease_over(record, moment.now))) return keep(record, Fenced{});
    // I11: under doubt an inconclusive answer says nothing about what the earlier try came to.
    if (SEMEL_MUTATION(inconclusive_settles, record.doubt && !command.conclusive, false)) {
        if (record.state == State::unknown) return keep(record, ok(record));
        make_unknown(record, Transition::abandoned, moment.now, moment.now);
        const Ok answer = ok(record);
        return change(std::move(record), answer);
    }
    make_settled(record, command.outcome, moment.now);
    const Ok answer = ok(record);
    return change(std::move(record), answer);
}

Decision release(Record record, const Moment& moment) {
    if (record.state == State::settled) return keep(record, Settled{record.outcome});
    // I11: an earlier holder, or an earlier step, may have begun.
    const bool began = SEMEL_MUTATION(doubt_forgotten_on_release, record.doubt, false) ||
                       SEMEL_MUTATION(checkpoints_forgotten_on_release, !record.checkpoints.empty(), false) ||
                       // What is to be asked has not been asked yet.
                       SEMEL_MUTATION(request_is_a_step, false, !record.request.empty());
    if (!began) return remove(Ok{});
    if (record.state == State::unknown) return keep(record, ok(record));
    make_unknown(record, Transition::abandoned, moment.now, moment.now);
    const Ok answer = ok(record);
    return change(std::move(record), answer);
}

Decision abandon(Record record, const Moment& moment) {
    if (record.state == State::settled) return keep(record, Settled{record.outcome});
    if (record.state == State::unknown && record.doubt) return keep(record, ok(record));
    record.doubt = SEMEL_MUTATION(doubt_not_set_on_abandon, true, record.doubt);
    if (record.state == State::running) make_unknown(record, Transition::abandoned, moment.now, moment.now);
    const Ok answer = ok(record);
    return change(std::move(record), answer);
}

template <class Apply>
Decision by_holder(std::optional<Record> record, const Holder& holder, Apply apply) {
    if (!record || !is_current(*record, holder)) return keep(std::move(record), Fenced{});  // I3
    return apply(std::move(*record));
}

// ---- a person's decision ---------------------------------------------------------------------------------------

Decision decide_resolve(std::optional<Record> held, const Resolve& command, const Moment& moment) {
    // "It did not happen" said twice: the first time removed the record.
    if (!held) return command.outcome ? keep(std::nullopt, Fenced{}) : keep(std::nullopt, Ok{});
    Record& record = *held;
    if (SEMEL_MUTATION(resolve_of_another_token, record.token != command.token_seen, false))
        return keep(std::move(held), Fenced{});
    if (record.state == State::settled) {
        if (command.outcome && *command.outcome == record.outcome) return keep(record, ok(record));
        return keep(record, Settled{record.outcome});
    }
    // The last holder's call may still be running out there.
    const TimePoint not_before = later(record.lease_until, record.policy.effect_deadline);
    if (SEMEL_MUTATION(resolve_too_early, moment.now < not_before, false))
        return keep(std::move(held), TooEarly{not_before});
    if (!command.outcome) return remove(Ok{});
    record.resolved_by = command.who;
    record.resolved_why = command.why;
    remember(record, Transition::resolved, moment.now);
    make_settled(record, *command.outcome, moment.now);
    const Ok answer = ok(record);
    return change(std::move(record), answer);
}

}  // namespace

Decision decide(std::optional<Record> record, const Command& command, const Moment& moment) {
    return std::visit(
        match{
            [&](const Claim& c) { return decide_claim(std::move(record), c, moment); },
            [&](const Renew& c) {
                return by_holder(std::move(record), c.holder, [&](Record r) { return renew(std::move(r), moment); });
            },
            [&](const SaveCheckpoint& c) {
                return by_holder(std::move(record), c.holder,
                                 [&](Record r) { return save_checkpoint(std::move(r), c); });
            },
            [&](const Settle& c) {
                return by_holder(std::move(record), c.holder,
                                 [&](Record r) { return settle(std::move(r), c, moment); });
            },
            [&](const Release& c) {
                // Said twice: the first time removed the record.
                if (!record) return keep(std::nullopt, Ok{});
                return by_holder(std::move(record), c.holder, [&](Record r) { return release(std::move(r), moment); });
            },
            [&](const Abandon& c) {
                return by_holder(std::move(record), c.holder, [&](Record r) { return abandon(std::move(r), moment); });
            },
            [&](const Resolve& c) { return decide_resolve(std::move(record), c, moment); }},
        command);
}

Decision expire_owner(std::optional<Record> record, Epoch dead, TimePoint now) {
    if (!record || record->state != State::running) return keep(std::move(record), Ok{});
    if (SEMEL_MUTATION(restart_takes_the_living, record->owner > dead, false)) return keep(std::move(record), Ok{});
    if (SEMEL_MUTATION(restart_makes_claimable, false, true)) return remove(Ok{});
    // I5: its last call may still be running out there.
    record->doubt = SEMEL_MUTATION(doubt_not_set_on_restart, true, record->doubt);
    make_unknown(*record, Transition::owner_died, now, now);
    return change(std::move(*record), Ok{});
}

namespace {

/// How long an identity that may not be forgotten yet is left alone before it is looked at again.
constexpr Duration held_back_for = std::chrono::minutes{10};

}  // namespace

Decision sweep(std::optional<Record> record, TimePoint now, TimePoint progress) {
    const auto sweepable = [](State state) {
        return state == State::settled || SEMEL_MUTATION(sweep_takes_unknown, false, state == State::unknown);
    };
    if (!record || !sweepable(record->state)) return keep(std::move(record), Ok{});
    if (SEMEL_MUTATION(swept_before_retention, expires_at(*record) <= now, true)) {
        if (*record->settled_at < progress) return remove(Ok{});
        // Its message was applied and perhaps not acknowledged: the retention is as long as that lasts.
        const TimePoint from = std::max(*record->settled_at, record->key_time.value_or(*record->settled_at));
        record->policy.retention.identity = now + held_back_for - from;
        return change(std::move(*record), Ok{});
    }
    const auto response = record->policy.retention.response;
    const bool holds_answer = record->outcome.kept || record->operation.has_value();
    const bool kept_longer =
        !response || SEMEL_MUTATION(body_dropped_early, later(*record->settled_at, *response) > now, false);
    if (kept_longer || !holds_answer) return keep(std::move(record), Ok{});

    // What remains is a tombstone: done, with status N, and the identity's end.
    const Record& full = *record;
    Record tombstone{.id = full.id,
                     .operation = {},
                     .key_time = full.policy.retention.identity ? full.key_time : std::nullopt,
                     .fingerprint = full.fingerprint,
                     .correlation = {},
                     .state = State::settled,
                     .token = full.token,
                     .attempt = {},
                     .owner = {},
                     .lease_until = {},
                     .policy = {},
                     .request = {},
                     .created = {},
                     .unknown_since = {},
                     .resolved_by = {},
                     .resolved_why = {},
                     .history = {},
                     .outcome = Outcome::tombstone(SEMEL_MUTATION(status_dropped_with_body, full.outcome.status, 0)),
                     .settled_at = full.settled_at,
                     .checkpoints = {}};
    tombstone.policy.retention = full.policy.retention;
    if (SEMEL_MUTATION(tombstone_runs_again, false, true)) return remove(Ok{});
    return change(std::move(tombstone), Ok{});
}

bool stands(const Answer& answer) {
    return std::holds_alternative<Claimed>(answer) || std::holds_alternative<Replay>(answer) ||
           std::holds_alternative<Ok>(answer);
}

}  // namespace semel
