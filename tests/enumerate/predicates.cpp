#include "predicates.hpp"

#include <algorithm>

namespace semel::enumerate {
namespace {

void demand(bool holds, std::string_view invariant, std::string_view what) {
    if (!holds) throw Violation{invariant, what};
}

template <class T>
bool is(const Step& step) {
    return std::holds_alternative<T>(step.decision.answer);
}

bool unchanged(const Step& step) { return step.decision.next == step.before.record; }
bool is_open(const std::optional<Record>& record) { return record && record->state != State::settled; }
bool is_settled(const std::optional<Record>& record) { return record && record->state == State::settled; }
bool is_tombstone(const Record& record) { return !record.operation; }

/// The command of a step that delivers a T.
template <class T>
const T* arrived(const Step& step) {
    const Arrive* move = std::get_if<Arrive>(&step.move);
    return move ? std::get_if<T>(&move->command) : nullptr;
}

const Holder* arrived_holder(const Step& step) {
    const Arrive* move = std::get_if<Arrive>(&step.move);
    return move ? holder_of(move->command) : nullptr;
}

bool is_current(const Record& record, const Holder& holder) {
    return record.token == holder.token && record.attempt == holder.attempt;
}

/// The key is so old that a settled record of it may have been swept.
bool key_outlived(const Claim& claim) {
    const auto& identity = claim.policy.retention.identity;
    return claim.key_time && identity && *claim.key_time + *identity <= now;
}

bool takeover_allowed(const Record& record, const Claim& claim) {
    if (claim.in_transaction) return false;  // it has no lease to hold it with
    switch (record.policy.on_unknown) {
        case OnUnknown::refuse: return false;
        case OnUnknown::retry: return now < record.created + record.policy.dedup_window;
        case OnUnknown::resume: return true;
        case OnUnknown::joined: return true;
    }
    return false;
}

bool lease_is_live(const Record& record) { return record.state == State::running && now < record.lease_until; }

// ---- I1: at most one live holder --------------------------------------------------------------------------------

void check_one_live_holder(const Step& step) {
    const Outside& outside = step.after.outside;
    const auto live = std::ranges::count_if(outside.grants, &Grant::live);
    demand(live <= 1, "I1", "two holders live at once");
    if (live == 0) return;
    const auto& record = step.after.record;
    demand(outside.grants[0].live(), "I1", "a superseded holder is live");
    const Token newest = is_grant(step) ? fresh_token(step.before) : token_of(0);
    demand(record && record->state == State::running && record->token == newest, "I1",
           "a live holder does not hold the record");
    demand(ticks_until(record->lease_until) >= outside.grants[0].lease, "I4",
           "a holder believes in more lease than it has");
}

/// Of claims of one absent operation the first is granted, the others are not.
void check_absent_is_claimed(const Step& step, const Claim& claim) {
    if (step.before.record) return;
    if (key_outlived(claim)) {
        demand(is<Expired>(step) && unchanged(step), "section 2", "a key that outlived its retention is not Expired");
    } else if (claim.not_after < now) {
        demand(is<Late>(step) && unchanged(step), "I6", "granted after not_after");
    } else {
        demand(is<Claimed>(step) && step.decision.next, "I1", "an absent operation was not granted");
        demand(!std::get<Claimed>(step.decision.answer).doubt, "I11", "doubt about what was absent");
    }
}

// ---- I2, I8: a settled outcome never changes, and never runs again ------------------------------------------------

bool may_drop_body(const Step& step) {
    const auto& response = step.before.record->policy.retention.response;
    return std::holds_alternative<Sweep>(step.move) && response && *step.before.record->settled_at + *response <= now;
}

bool fills(const Step& step) {
    const Settle* settle = arrived<Settle>(step);
    return settle && step.before.record->unfilled && is_current(*step.before.record, settle->holder);
}

void check_settled_is_final(const Step& step) {
    if (!is_settled(step.before.record) || std::holds_alternative<PassTime>(step.move)) return;
    const Record& before = *step.before.record;
    const auto& after = step.decision.next;
    if (!after) return;  // check_sweep
    demand(after->state == State::settled, before.outcome.kept ? "I2" : "I8", "settled, and open again");
    demand(after->settled_at == before.settled_at, "I2", "the time of a settled outcome changed");
    if (fills(step))
        return demand(!after->unfilled && after->outcome == arrived<Settle>(step)->outcome, "I2", "filled wrongly");
    demand(after->outcome.status == before.outcome.status, "I2", "the status of a settled outcome changed");
    if (may_drop_body(step)) {
        demand(after->outcome == Outcome::tombstone(before.outcome.status), "I2", "the body outlived its retention");
        return;
    }
    demand(after->outcome == before.outcome, "I2", "the bytes of a settled outcome changed");
}

void check_replay(const Step& step, const Claim& claim) {
    const auto& record = step.before.record;
    if (!is_settled(record) || record->fingerprint != claim.fingerprint) return;
    const Replay* replay = std::get_if<Replay>(&step.decision.answer);
    demand(replay && unchanged(step), record->outcome.kept ? "I2" : "I8", "settled, and not replayed");
    demand(replay->outcome == record->outcome && replay->settled_at == record->settled_at, "I2", "a replay differs");
}

// ---- I3: tokens rise, and only the current one counts -------------------------------------------------------------

void check_token_of_grant(const Step& step) {
    if (!is_grant(step)) return;
    const Token token = std::get<Claimed>(step.decision.answer).token;
    demand(token > token_of(0), "I3", "a granted token is not larger than all before");
    demand(token == fresh_token(step.before) && step.decision.next->token == token, "I3",
           "a token not from the counter");
}

void check_fencing(const Step& step, const Holder& holder) {
    const auto& record = step.before.record;
    if (!record) {
        const bool said_before = arrived<Release>(step) && is<Ok>(step);
        return demand((is<Fenced>(step) || said_before) && unchanged(step), "I3",
                      "a holder's command on nothing did something");
    }
    if (!is_current(*record, holder))
        return demand(is<Fenced>(step) && unchanged(step), "I3", "another token or attempt was not fenced");
    // A tombstone has forgotten its attempt: to it every holder is superseded.
    if (!is_tombstone(*record)) demand(!is<Fenced>(step), "I3", "fenced though nobody took over");
}

/// What only a new claim may change, and what nothing may.
void check_identity_is_kept(const Step& step) {
    const auto& before = step.before.record;
    const auto& after = step.decision.next;
    if (!before || !after || is_tombstone(*after)) return;
    demand(after->id == before->id && after->operation == before->operation && after->key_time == before->key_time &&
               after->correlation == before->correlation && after->created == before->created,
           "I7", "the identity of a record changed");
    demand(after->fingerprint == before->fingerprint, "I7", "the fingerprint of a record changed");
    demand(after->policy == before->policy, "I12", "the policy of an operation changed");
    if (is_grant(step)) return;
    demand(after->token == before->token && after->attempt == before->attempt && after->owner == before->owner &&
               after->tries == before->tries,
           "I3", "the holder of a record changed without a grant");
}

// ---- I5: a restart makes leases unknown -----------------------------------------------------------------------------

void check_restart(const Step& step, const Restart& move) {
    const auto& before = step.before.record;
    const auto& after = step.decision.next;
    demand(before.has_value() == after.has_value(), "I5", "a restart made an operation absent");
    const bool was_running = before && before->state == State::running;
    if (move.again || !was_running)
        return demand(unchanged(step), "I5", "a restart changed what its process did not hold");
    demand(after->state == State::unknown && after->doubt, "I5", "a restart left a dead process's lease in force");
}

// ---- I6: every command is safe to repeat -----------------------------------------------------------------------------

void check_pure(const Step& step) {
    const Step again = make(step.before, step.move);
    demand(again.decision.answer == step.decision.answer && again.decision.next == step.decision.next, "I6",
           "the same question, another decision");
    demand(step.decision.changed || unchanged(step), "I6", "a change that is not announced is not stored");
}

void check_repeat(const Step& step) {
    const Decision second = repeat(step);
    // Claimed and settled in one commit: the reply that was lost is replayed.
    const bool settled_at_once = is_grant(step) && is_settled(step.decision.next);
    if (settled_at_once)
        demand(std::holds_alternative<Replay>(second.answer), "I8", "claimed in a transaction, and claimed again");
    else
        demand(second.answer == step.decision.answer, "I6", "a repeated command was answered differently");
    demand(second.next == step.decision.next, "I6", "a repeated command changed something");
}

void check_claimed_again(const Step& step, const Claim& claim) {
    if (!is<Claimed>(step) || is_grant(step)) return;
    const auto& record = step.before.record;
    demand(record && lease_is_live(*record) && record->attempt == claim.attempt, "I1",
           "another one's claim was repeated");
    demand(!step.before.outside.grants[0].used, "I6", "a claim granted again after its holder used the token");
    demand(std::get<Claimed>(step.decision.answer).token == record->token, "I6", "a repeated claim got another token");
}

void check_not_after(const Step& step, const Claim& claim) {
    if (is_grant(step)) demand(now <= claim.not_after, "I6", "granted after not_after");
}

void check_checkpoints(const Step& step) {
    const SaveCheckpoint* save = arrived<SaveCheckpoint>(step);
    if (!is_open(step.before.record) || !is_open(step.decision.next)) return;
    const auto& before = step.before.record->checkpoints;
    const auto& after = step.decision.next->checkpoints;
    const bool first = save && before.empty() && is_current(*step.before.record, save->holder);
    demand(first ? after == std::vector{save->checkpoint} : after == before, "I6",
           "a checkpoint's first write did not win");
    if (save && is<Ok>(step))
        demand(std::get<Ok>(step.decision.answer).checkpoint == after.at(0), "I6",
               "told another checkpoint than is stored");
}

// ---- I4: the lease -----------------------------------------------------------------------------------------------------

void check_lease(const Step& step) {
    const auto& record = step.decision.next;
    if (!is_open(record)) return;
    const TimePoint full = now + record->policy.lease;
    if (is_grant(step)) demand(record->lease_until == full, "I4", "a grant without its full lease");
    if (!arrived<Renew>(step) || !is<Ok>(step)) return;
    demand(record->lease_until >= step.before.record->lease_until, "I4", "a renewal shortened the lease");
    if (record->state == State::running) demand(record->lease_until == full, "I4", "a renewal did not renew");
}

// ---- I7: the fingerprint ---------------------------------------------------------------------------------------------------

void check_fingerprint(const Step& step, const Claim& claim) {
    const auto& record = step.before.record;
    const bool differs = record && record->fingerprint != claim.fingerprint;
    if (differs) return demand(is<Mismatch>(step) && unchanged(step), "I7", "another fingerprint was not a Mismatch");
    demand(!is<Mismatch>(step), "I7", "a Mismatch of equal fingerprints");
}

// ---- I11: doubt ------------------------------------------------------------------------------------------------------------

void check_doubt(const Step& step) {
    const auto& before = step.before.record;
    const auto& after = step.decision.next;
    const Resolve* resolve = arrived<Resolve>(step);
    if (is_open(before) && before->doubt) {
        if (!after) return demand(resolve && !resolve->outcome, "I11", "doubt was forgotten: absent");
        if (is_open(after)) return demand(after->doubt, "I11", "doubt was forgotten");
        const Settle* settle = arrived<Settle>(step);
        demand(resolve || (settle && settle->conclusive), "I11",
               "doubt ended by an answer that says nothing of the earlier try");
    }
    if (is_open(before) && is_grant(step))
        demand(after->doubt && std::get<Claimed>(step.decision.answer).doubt, "I11", "taken over without doubt");
    const Abandon* abandon = arrived<Abandon>(step);
    if (abandon && is_open(before) && is_current(*before, abandon->holder))
        demand(after && after->state == State::unknown && after->doubt, "I11", "abandoned without doubt");
}

/// An open operation becomes absent only if surely nothing began, or a person says so.
void check_absent_means_nothing_began(const Step& step) {
    if (!is_open(step.before.record) || step.decision.next) return;
    if (arrived<Resolve>(step)) return;
    demand(arrived<Release>(step), "I9", "an open operation was dropped");
    demand(!step.before.outside.begun, "I11", "released, though an effect has begun");
    demand(step.before.record->checkpoints.empty(), "I11", "released, though a step was done");
}

/// The other way round: where surely nothing began, a release makes it absent. A request says nothing of a beginning.
void check_release(const Step& step) {
    const Release* release = arrived<Release>(step);
    const auto& before = step.before.record;
    if (!release || !is_open(before) || !is_current(*before, release->holder)) return;
    if (!before->doubt && before->checkpoints.empty())
        demand(!step.decision.next, "I11", "released before anything began, and not absent");
}

// ---- section 3: under doubt the first request is repeated ------------------------------------------------------------

/// A record has the request of its first claim while it is open, whatever others bring, and not a moment longer; who
/// takes it over is given those bytes.
void check_request(const Step& step) {
    const auto& before = step.before.record;
    const auto& after = step.decision.next;
    if (is_settled(after)) demand(after->request.empty(), "section 3", "settled, and the request is still kept");
    if (is_open(before) && is_open(after))
        demand(after->request == before->request, "section 3", "the request of an open operation changed");
    const Claim* claim = arrived<Claim>(step);
    const Claimed* answer = std::get_if<Claimed>(&step.decision.answer);
    if (!claim || !answer) return;
    if (!before && is_open(after))
        demand(after->request == claim->request, "section 3", "the first claim's request is not kept");
    if (before && answer->doubt)
        demand(answer->request == before->request, "section 3", "taken over with another request than the first");
}

// ---- I12: the policy -------------------------------------------------------------------------------------------------------

void check_takeover(const Step& step, const Claim& claim) {
    const auto& before = step.before.record;
    if (!is_open(before) || before->fingerprint != claim.fingerprint) return;
    if (lease_is_live(*before)) {
        demand(!is_grant(step), "I1", "taken over from a live holder");
        const bool own = before->attempt == claim.attempt && !step.before.outside.grants[0].used;
        return demand(own ? is<Claimed>(step) : is<Busy>(step), "I1", "a live lease is not Busy to others");
    }
    if (!takeover_allowed(*before, claim)) {
        demand(!is<Claimed>(step), "I12", "repeated though the policy does not allow it");
        demand(is<Unknown>(step) && is_open(step.decision.next) && step.decision.next->state == State::unknown, "I12",
               "an outcome nobody knows was not told as Unknown");
        return demand(
            std::get<Unknown>(step.decision.answer).since == before->unknown_since.value_or(before->lease_until), "I12",
            "unknown since another time");
    }
    if (claim.not_after >= now) demand(is<Claimed>(step), "I12", "not repeated though the policy allows it");
}

void check_unknown_stays(const Step& step) {
    const auto& before = step.before.record;
    const auto& after = step.decision.next;
    if (!before || !after || before->state != State::unknown || after->state != State::running) return;
    demand(is_grant(step), "I12", "unknown became running without a new grant");
}

/// For refuse, and inside a caller's transaction, an effect begins at most once in the life of an operation.
void check_effects(const Step& step) {
    if (is_grant(step))
        demand(!step.before.outside.ended, "section 2", "granted again though its key was settled once");
    if (!begins_effect(step)) return;
    const auto& record = step.after.record;
    demand(record.has_value(), "I10", "an effect began without a claim");
    if (record->policy.on_unknown == OnUnknown::refuse)
        demand(!step.before.outside.begun, "I12", "the effect of a refused operation began twice");
    const Claim* claim = arrived<Claim>(step);
    if (claim && !step.before.record)
        demand(is_settled(record), "I8", "a claim in a transaction is not settled with it");
}

// ---- a person's decision and the sweep --------------------------------------------------------------------------------------

void check_resolve(const Step& step, const Resolve& resolve) {
    const auto& before = step.before.record;
    if (!before) return demand(unchanged(step), "I11", "a resolve made a record");
    if (before->token != resolve.token_seen)
        return demand(is<Fenced>(step) && unchanged(step), "I3", "resolved another try than the one seen");
    if (before->state == State::settled) return demand(unchanged(step), "I2", "a resolve changed what was settled");
    if (now < before->lease_until + before->policy.effect_deadline)
        return demand(is<TooEarly>(step) && unchanged(step), "I5", "resolved while the last effect may still run");
    const auto& after = step.decision.next;
    demand(is<Ok>(step) && after.has_value() == resolve.outcome.has_value(), "I11",
           "a person's verdict was not followed");
    if (after)
        demand(is_settled(after) && after->outcome == *resolve.outcome && after->resolved_by == resolve.who, "I11",
               "a person's verdict was not recorded");
}

void check_sweep(const Step& step) {
    const auto& before = step.before.record;
    const auto& after = step.decision.next;
    if (is_settled(before) && !after) {
        demand(std::holds_alternative<Sweep>(step.move), "I2", "a settled operation was forgotten");
        const auto& identity = before->policy.retention.identity;
        const TimePoint from = std::max(*before->settled_at, before->key_time.value_or(*before->settled_at));
        demand(identity && from + *identity <= now, "I2", "swept before its retention ended");
    }
    if (!std::holds_alternative<Sweep>(step.move)) return;
    if (!is_settled(before)) return demand(unchanged(step), "I9", "a sweep touched what is not settled");
    if (!after) return;
    demand(after->fingerprint == before->fingerprint && after->token == before->token && after->id == before->id, "I7",
           "a tombstone lost its identity");
    demand(after->policy.retention == before->policy.retention, "I12", "a tombstone lives for another time");
    demand(expires_at(*after) == expires_at(*before), "I2", "a tombstone lives for another time");
}

/// Parts of a record that belong together.
void check_shape(const Step& step) {
    const auto& record = step.decision.next;
    if (!record) return;
    demand(record->settled_at.has_value() == is_settled(record), "I2",
           "settled without a time, or the other way round");
    demand(record->unknown_since.has_value() == (record->state == State::unknown), "I12", "unknown without a time");
    demand(!record->unfilled || is_settled(record), "I8", "a claim in a transaction is open");
    const Ok* ok = std::get_if<Ok>(&step.decision.answer);
    if (ok && ok->state) demand(ok->state == record->state, "I6", "told another state than is stored");
}

void check_claim(const Step& step, const Claim& claim) {
    check_fingerprint(step, claim);
    check_absent_is_claimed(step, claim);
    check_replay(step, claim);
    check_not_after(step, claim);
    check_claimed_again(step, claim);
    check_takeover(step, claim);
}

}  // namespace

void check(const Step& step) {
    if (const Claim* claim = arrived<Claim>(step)) check_claim(step, *claim);
    if (const Holder* holder = arrived_holder(step)) check_fencing(step, *holder);
    if (const Resolve* resolve = arrived<Resolve>(step)) check_resolve(step, *resolve);
    if (const Restart* restart = std::get_if<Restart>(&step.move)) check_restart(step, *restart);
    check_token_of_grant(step);
    check_sweep(step);
    check_settled_is_final(step);
    check_identity_is_kept(step);
    check_doubt(step);
    check_absent_means_nothing_began(step);
    check_release(step);
    check_request(step);
    check_unknown_stays(step);
    check_checkpoints(step);
    check_lease(step);
    check_effects(step);
    check_one_live_holder(step);
    check_shape(step);
    check_repeat(step);
    check_pure(step);
}

}  // namespace semel::enumerate
