#include "judge.hpp"

#include <algorithm>

namespace semel::sim {
namespace {

const Holder* holder_of(const Command& command) {
    return std::visit(match{[](const Claim&) -> const Holder* { return nullptr; },
                            [](const Resolve&) -> const Holder* { return nullptr; },
                            [](const auto& c) -> const Holder* { return &c.holder; }},
                      command);
}

bool live(const Record& record, TimePoint now) { return record.state == State::running && record.lease_until > now; }

bool policy_allows(const Record& record, TimePoint now) {
    switch (record.policy.on_unknown) {
        case OnUnknown::refuse: return false;
        case OnUnknown::retry: return now < later(record.created, record.policy.dedup_window);
        case OnUnknown::resume:
        case OnUnknown::joined: return true;
    }
    return false;
}

/// A failure that promises that nothing happened.
bool says_nothing_happened(Code code) {
    return code == Code::unavailable || code == Code::invalid || code == Code::contended || code == Code::exhausted;
}

bool is_poison(const Command& command) {
    const auto* claim = std::get_if<Claim>(&command);
    return claim != nullptr && claim->correlation == "poison";
}

}  // namespace

// ---- decisions -------------------------------------------------------------------------------------------------

void Judge::decided(const Decided& what, TimePoint now, bool alone) {
    // In a group that fell, an answer says nothing about the record.
    if (!alone && std::holds_alternative<Withheld>(what.answer)) return;
    if (std::holds_alternative<Fenced>(what.answer)) stage_.count(Tally::fenced);
    if (std::holds_alternative<TooEarly>(what.answer)) stage_.count(Tally::too_early);
    if (const auto* claim = std::get_if<Claim>(&what.command)) return claim_decided(*claim, what, now);
    if (const auto* holder = holder_of(what.command)) return holder_decided(*holder, what);
    const auto& resolve = std::get<Resolve>(what.command);
    const Subject& subject = world_.subject(resolve.id);
    if (what.before && what.before->token != resolve.token_seen && !std::holds_alternative<Fenced>(what.answer))
        stage_.violated("I3 stale tokens are fenced", "{} answered somebody who saw another holder", subject.text());
    if (!what.wrote) return;
    if (!what.before || what.before->token != resolve.token_seen)
        return stage_.violated("I3 stale tokens change nothing", "{} was resolved by somebody who saw another holder",
                               subject.text());
    if (now < later(what.before->lease_until, what.before->policy.effect_deadline))
        stage_.violated("resolve waits for the last effect", "{} was resolved too early", subject.text());
}

void Judge::claim_decided(const Claim& claim, const Decided& what, TimePoint now) {
    const Subject& subject = world_.subject(claim.operation.id());
    const std::optional<Record>& before = what.before;
    if (before && before->fingerprint != claim.fingerprint && !std::holds_alternative<Mismatch>(what.answer))
        stage_.violated("I7 the fingerprint is compared on every path", "{} answered a claim with another one",
                        subject.text());
    if (!before && claim.key_time && claim.policy.retention.identity &&
        later(*claim.key_time, *claim.policy.retention.identity) <= now &&
        !std::holds_alternative<Expired>(what.answer))
        stage_.violated("an absent key older than its retention is Expired", "{} was not", subject.text());
    if (before && before->state == State::settled && before->fingerprint == claim.fingerprint &&
        !std::holds_alternative<Replay>(what.answer))
        stage_.violated("I2 settled is replayed", "{} did not answer Replay", subject.text());

    if (std::holds_alternative<Mismatch>(what.answer) && (!before || before->fingerprint == claim.fingerprint))
        stage_.violated("I7 Mismatch only for another fingerprint", "{}", subject.text());

    const auto* claimed = std::get_if<Claimed>(&what.answer);
    if (claimed == nullptr) return;
    if (!what.wrote) {
        // I6: the same claim again. Its holder must not have been heard of.
        if (!before || before->token != claimed->token || before->attempt != claim.attempt)
            stage_.violated("I6 a repeated claim gets its own grant", "{} got another one", subject.text());
        if (heard_.contains(claimed->token.value))
            stage_.violated("I6 a grant is not repeated once its holder was heard of", "{} token {}", subject.text(),
                            claimed->token.value);
        return;
    }
    if (before && live(*before, now))
        stage_.violated("I1 at most one live holder", "{} was granted within the lease of token {}", subject.text(),
                        before->token.value);
    if (before && !policy_allows(*before, now))
        stage_.violated("I12 only the operation's policy allows a takeover", "{} was taken over", subject.text());
    if (before && !claimed->doubt) stage_.violated("I11 a takeover carries doubt", "{} does not", subject.text());
    if (before && claim.in_transaction)
        stage_.violated("a caller's transaction takes nothing over", "{} was taken over by one", subject.text());
    if (now > claim.not_after) stage_.violated("I6 no grant after not_after", "{} was granted late", subject.text());
    if (claimed->token.value <= histories_[subject.id].token_max)
        stage_.violated("I3 tokens rise", "{} got token {} after {}", subject.text(), claimed->token.value,
                        histories_[subject.id].token_max);
}

void Judge::holder_decided(const Holder& holder, const Decided& what) {
    const Subject& subject = world_.subject(holder.id);
    const bool current = what.before && what.before->token == holder.token && what.before->attempt == holder.attempt;
    if (current && std::holds_alternative<Fenced>(what.answer))
        stage_.violated("I3 fenced means superseded", "{} fenced its holder", subject.text());
    if (current) return;
    if (what.wrote)
        stage_.violated("I3 stale tokens change nothing", "{} was changed by token {}", subject.text(),
                        holder.token.value);
    const bool released_before = !what.before && std::holds_alternative<Release>(what.command);
    if (!released_before && !std::holds_alternative<Fenced>(what.answer) &&
        !std::holds_alternative<Withheld>(what.answer))
        stage_.violated("I3 stale tokens are fenced", "{} answered token {} otherwise", subject.text(),
                        holder.token.value);
}

// ---- what became durable ---------------------------------------------------------------------------------------

void Judge::committed(const Decided& what, TimePoint now, bool echo) {
    const Subject& subject = world_.subject(id_of(what.command));
    const auto saved = std::exchange(saved_, std::nullopt);
    if (std::holds_alternative<SaveCheckpoint>(what.command) && std::holds_alternative<Ok>(what.answer))
        saved_ = subject.id;
    if (what.wrote && subject.parent != nullptr && subject.parent->kind == Kind::workflow &&
        std::holds_alternative<Claimed>(what.answer))
        step_granted(subject, std::get<Claimed>(what.answer).token, saved == subject.parent->id);
    if (const auto* holder = holder_of(what.command)) {
        if (what.before && what.before->token == holder->token && std::holds_alternative<Ok>(what.answer))
            heard_.insert(holder->token.value);
        if (std::holds_alternative<Settle>(what.command) && std::holds_alternative<Ok>(what.answer) && !echo)
            settles_done_.insert(holder->token.value);
    }
    if (!what.wrote) return;
    if (!what.next) return removed(subject, what, now);
    if (const auto* claim = std::get_if<Claim>(&what.command)) grant_committed(subject, *claim, *what.next, echo);
    History& history = histories_[subject.id];
    if (what.next->state == State::running) history.lease[what.next->token.value] = what.next->lease_until;
    if (what.next->state == State::settled)
        settled(subject, what);
    else
        stayed_open(subject, what);
}

void Judge::grant_committed(const Subject& subject, const Claim& claim, const Record& next, bool echo) {
    History& history = histories_[subject.id];
    const bool granted = next.attempt == claim.attempt && (next.state == State::running || claim.in_transaction);
    if (!granted) return;  // a claim that found the lease over and wrote down that it is unknown
    if (next.token.value <= history.token_max)
        stage_.violated("I3 tokens rise", "{} got token {} after {}", subject.text(), next.token.value,
                        history.token_max);
    if (!echo && answered_.contains(claim.attempt))
        stage_.violated("I6 no grant after the claim was answered", "{} token {}", subject.text(), next.token.value);
    history.token_max = next.token.value;
    history.open = true;
    history.granted.insert(next.token.value);
    history.fingerprint = next.fingerprint;
    if (!echo) attempts_[claim.attempt] = next.token;
    stage_.count(Tally::grants);
    if (next.tries > 1) stage_.count(Tally::takeovers);
}

void Judge::removed(const Subject& subject, const Decided& what, TimePoint now) {
    histories_[subject.id].open = false;
    if (!what.before) return;
    const Record& before = *what.before;
    if (before.state == State::settled) stage_.violated("I2 settled stays", "{} was removed", subject.text());
    const World::Effects& effects = world_.effects(subject);
    const bool began = effects.executed > 0 || effects.in_flight > 0;
    if (std::holds_alternative<Release>(what.command)) {
        stage_.count(Tally::releases);
        if (before.doubt)
            stage_.violated("I11 doubt is not forgotten", "{} was released from under it", subject.text());
        if (!before.checkpoints.empty())
            stage_.violated("I11 a step that began is not forgotten", "{} was released", subject.text());
        if (began) stage_.violated("released without doubt means nothing was sent", "{} was", subject.text());
        return;
    }
    if (!std::holds_alternative<Resolve>(what.command))
        stage_.violated("only release and resolve remove", "{} is gone", subject.text());
    stage_.count(Tally::resolved_did_not);
    if (began)
        stage_.violated("resolved as not happened", "{} did, or is under way at {}", subject.text(), micros(now));
}

void Judge::stayed_open(const Subject& subject, const Decided& what) {
    if (!what.before) return;
    const Record& before = *what.before;
    const Record& next = *what.next;
    const bool claims = std::holds_alternative<Claim>(what.command);
    if (before.state == State::settled) stage_.violated("I2 settled stays", "{} is open again", subject.text());
    if (before.doubt && !next.doubt) stage_.violated("I11 doubt is not forgotten", "{} has none", subject.text());
    if (before.state == State::unknown && next.state == State::running && !claims)
        stage_.violated("unknown becomes running only by a claim", "{} runs again", subject.text());
    if (before.policy != next.policy)
        stage_.violated("I12 the first claim fixes the policy", "{} has another", subject.text());
    if (before.fingerprint != next.fingerprint)
        stage_.violated("I7 the fingerprint stays", "{} has another", subject.text());
    if (before.created != next.created) stage_.violated("history stays", "{} was created again", subject.text());
    const bool kept =
        next.checkpoints.size() >= before.checkpoints.size() &&
        std::ranges::equal(before.checkpoints, std::span(next.checkpoints).first(before.checkpoints.size()));
    if (!kept) stage_.violated("a checkpoint's first write wins", "{} lost one", subject.text());
    if (std::holds_alternative<Renew>(what.command)) stage_.count(Tally::renewals);
    if (std::holds_alternative<Abandon>(what.command)) stage_.count(Tally::abandons);
    if (std::holds_alternative<SaveCheckpoint>(what.command)) stage_.count(Tally::checkpoints);
    if (std::holds_alternative<Settle>(what.command)) stage_.count(Tally::inconclusive);
    if (std::holds_alternative<Abandon>(what.command) && !next.doubt)
        stage_.violated("I11 an abandoned effect is in doubt", "{} is not", subject.text());
}

void Judge::settled(const Subject& subject, const Decided& what) {
    const Outcome& outcome = what.next->outcome;
    History& history = histories_[subject.id];
    const bool filled = what.before && what.before->unfilled;
    if (what.before && what.before->state == State::settled && !filled)
        stage_.violated("I2 a settled outcome never changes", "{} was settled again", subject.text());
    const auto* settle = std::get_if<Settle>(&what.command);
    if (settle != nullptr && what.before && what.before->doubt && !settle->conclusive)
        stage_.violated("I11 only a conclusive answer settles under doubt", "{} was settled", subject.text());
    if (std::holds_alternative<Resolve>(what.command)) stage_.count(Tally::resolved_happened);
    if (settle != nullptr && what.before && !live(*what.before, *what.next->settled_at) && !filled)
        stage_.count(Tally::settled_late);
    if (!history.outcome || filled) history.outcome = outcome;
    history.fingerprint = what.next->fingerprint;
    history.open = false;
    if (subject.kind == Kind::workflow) workflow_settled(subject, outcome);

    if (subject.kind != Kind::refuse && subject.kind != Kind::retry) return;
    const World::Effects& effects = world_.effects(subject);
    const bool done = effects.executed > 0;
    const bool true_when_done = done && outcome.status == status_done && outcome.body.starts_with(effects.receipt);
    const bool true_when_not = !done && effects.in_flight == 0 && outcome.status == status_declined;
    if (!true_when_done && !true_when_not)
        stage_.violated("what is settled is what happened", "{} settled with {} '{}', the provider has '{}'",
                        subject.text(), outcome.status, outcome.body, effects.receipt);
}

// ---- workflows -------------------------------------------------------------------------------------------------

bool Judge::done(const Subject& subject) {
    const auto& outcome = histories_[subject.id].outcome;
    return outcome && outcome->status < status_refused_from;
}

bool Judge::failed(const Subject& subject) {
    const auto& outcome = histories_[subject.id].outcome;
    return outcome && outcome->status >= status_refused_from;
}

void Judge::step_granted(const Subject& step, Token token, bool with_checkpoint) {
    const Subject& whole = *step.parent;
    if (with_checkpoint) under_guard_.insert(token.value);
    const auto at = std::ranges::find(whole.steps, &step);
    if (at != whole.steps.end()) {
        if (!std::all_of(whole.steps.begin(), at, [&](const Subject* before) { return done(*before); }))
            stage_.violated("steps are done one after another", "{} began too early", step.text());
        return;
    }
    const auto undone = static_cast<std::size_t>(std::ranges::find(whole.undos, &step) - whole.undos.begin());
    if (!done(*whole.steps[undone])) stage_.violated("only what was done is undone", "{} undoes nothing", step.text());
    if (std::ranges::none_of(whole.steps, [&](const Subject* each) { return failed(*each); }))
        stage_.violated("a workflow is undone because a step failed", "{}", step.text());
    if (std::ranges::any_of(whole.steps, [&](const Subject* each) { return histories_[each->id].open; }))
        stage_.violated("compensation waits for what began", "{} began too early", step.text());
    for (std::size_t later = undone + 1; later < whole.steps.size(); ++later)
        if (whole.undos[later] != nullptr && done(*whole.steps[later]) && !histories_[whole.undos[later]->id].outcome)
            stage_.violated("compensation in reverse order", "{} began before {} was over", step.text(),
                            whole.undos[later]->text());
}

void Judge::workflow_settled(const Subject& workflow, const Outcome& outcome) {
    const bool all_done = std::ranges::all_of(workflow.steps, [&](const Subject* each) { return done(*each); });
    stage_.count(all_done ? Tally::run_to_the_end : Tally::compensated);
    if (all_done != (outcome.status < status_refused_from))
        stage_.violated("a workflow ends as its steps did", "{} settled with {}", workflow.text(), outcome.status);
    if (all_done) return;
    if (std::ranges::none_of(workflow.steps, [&](const Subject* each) { return failed(*each); }))
        stage_.violated("a workflow ends as its steps did", "{} failed without a step", workflow.text());
    for (std::size_t i = 0; i < workflow.steps.size(); ++i)
        if (workflow.undos[i] != nullptr && done(*workflow.steps[i]) && !histories_[workflow.undos[i]->id].outcome)
            stage_.violated("what was done is undone", "{} is not", workflow.steps[i]->text());
}

void Judge::local_step(const Subject& workflow, Token token, const std::optional<Record>& record) {
    stage_.count(Tally::local_steps);
    if (!record || record->token != token || record->state != State::running)
        stage_.violated("a step begins only while its workflow is held", "{} token {}", workflow.text(), token.value);
}

void Judge::swept(const Record& before, const std::optional<Record>& next, TimePoint now) {
    const Subject& subject = world_.subject(before.id);
    History& history = histories_[subject.id];
    if (before.state != State::settled)
        stage_.violated("swept only if settled", "{} was {}", subject.text(), name(before.state));
    if (!next) {
        if (expires_at(before) > now)
            stage_.violated("swept only after its retention", "{} was swept early", subject.text());
        history.swept = true;
        history.outcome.reset();
        history.fingerprint.reset();
        stage_.count(Tally::swept_records);
        return;
    }
    const auto response = before.policy.retention.response;
    if (!response || later(*before.settled_at, *response) > now)
        stage_.violated("a body is kept for its retention", "{} lost it early", subject.text());
    if (next->state != State::settled || next->outcome.status != before.outcome.status ||
        next->fingerprint != before.fingerprint)
        stage_.violated("I2 a tombstone still answers", "{} forgot more than the body", subject.text());
    history.body_dropped = true;
    stage_.count(Tally::swept_bodies);
}

void Judge::owner_died(const Record& before, const std::optional<Record>& next) {
    const Subject& subject = world_.subject(before.id);
    if (before.state != State::running || !next || next->state != State::unknown || !next->doubt)
        stage_.violated("I5 a restart makes leases unknown", "{} became something else", subject.text());
    stage_.count(Tally::owner_deaths);
}

void Judge::effect_rows(const Subject& subject, std::size_t rows, const std::optional<Record>& record) {
    if (subject.kind != Kind::once && subject.kind != Kind::joined) return;
    if (rows > 1) stage_.violated("effects at most once", "{} has {} effect rows", subject.text(), rows);
    // A step that failed for good has settled without its writes.
    const bool refused = record && subject.parent != nullptr && record->outcome.status >= status_refused_from;
    const bool is_settled = (record && record->state == State::settled && !refused) || histories_[subject.id].swept;
    if (is_settled != (rows == 1))
        stage_.violated("an effect row if and only if settled", "{} has {} rows and is {}", subject.text(), rows,
                        record ? name(record->state) : "absent");
}

// ---- the committer ---------------------------------------------------------------------------------------------

void Judge::batch(ProcessId process, bool general, std::span<const Group> groups) {
    stage_.count(Tally::batches);
    std::set<OperationId>& out = out_[process];
    for (const Group& group : groups) {
        std::set<OperationId> own;
        for (const Command& command : group.commands) {
            stage_.count(Tally::commands);
            own.insert(id_of(command));
            if (const auto* release = std::get_if<Release>(&command)) released_for(release->holder.token);
            if (general && std::holds_alternative<Renew>(command))
                stage_.violated("I4 renewals never wait behind other work", "{}",
                                world_.subject(id_of(command)).text());
            const auto kept = std::ranges::find_if(unclaimed_, [&](const auto& each) {
                return each.second.process == process && each.second.id == id_of(command);
            });
            if (kept == unclaimed_.end() || !std::holds_alternative<Claim>(command)) continue;
            // Behind others that take long its release may have missed its time.
            if (stage_.steady() - kept->second.since > CommitterOptions{}.timeout)
                unclaimed_.erase(kept);
            else
                stage_.violated("I6 a grant nobody waits for is released first", "{} is claimed before",
                                world_.subject(id_of(command)).text());
        }
        for (const OperationId& id : own) {
            if (!out.insert(id).second)
                stage_.violated("one command per operation per batch", "{} is on its way twice",
                                world_.subject(id).text());
        }
    }
}

void Judge::batch_over(ProcessId process, std::span<const Group> groups) {
    for (const Group& group : groups)
        for (const Command& command : group.commands) out_[process].erase(id_of(command));
}

SubmissionId Judge::submitted(ProcessId process, std::span<const Command> commands, Steady deadline, Duration paused) {
    pending_[++last_submission_] = {process, {commands.begin(), commands.end()}, stage_.steady(), deadline, paused};
    for (const Command& command : commands)
        if (const auto* settle = std::get_if<Settle>(&command)) ++settles_said_[settle->holder.token.value];
    return last_submission_;
}

void Judge::completed(SubmissionId id, const GroupAnswer& answer, bool given_up, Duration paused) {
    const auto at = pending_.find(id);
    if (at == pending_.end())
        return stage_.violated("every command is completed exactly once", "submission {} a second time", id);
    const Pending pending = std::move(at->second);
    pending_.erase(at);
    // One after another of the same operation, each of which may take its own time to the end.
    constexpr Duration longest = seconds{30};
    if (stage_.steady() > pending.deadline + longest + (paused - pending.paused))
        stage_.violated("no caller waits forever", "submission {} was answered 30 s after its deadline", id);
    if (!answer) return check_failure(pending, answer.failure());
    if (pending.commands.size() != 1) return;
    if (const auto* claim = std::get_if<Claim>(&pending.commands.front()))
        check_claim_answer(*claim, answer->front(), pending, given_up);
}

/// STYLE, errors: the code says what the caller may conclude.
void Judge::check_failure(const Pending& pending, const Failure& failure) {
    const bool poison = std::ranges::any_of(pending.commands, is_poison);
    const Subject& subject = world_.subject(id_of(pending.commands.front()));
    if (failure.code == Code::invalid && !poison)
        stage_.violated("a poison command fails alone", "{} failed with it: {}", subject.text(), failure.message);
    const bool claims =
        std::ranges::any_of(pending.commands, [](const Command& c) { return std::holds_alternative<Claim>(c); });
    if (failure.code == Code::exhausted && !claims && failure.message != queue_full && full_until_ < pending.submitted)
        stage_.violated("I9 a store full for claims still settles", "{} was refused: {}", subject.text(),
                        failure.message);
    for (const Command& command : pending.commands) {
        if (const auto* claim = std::get_if<Claim>(&command)) {
            if (!says_nothing_happened(failure.code)) continue;
            if (attempts_.contains(claim->attempt))
                stage_.violated("unavailable means it did not happen", "{} was granted: {}", subject.text(),
                                failure.message);
            answered_.insert(claim->attempt);
        }
        if (const auto* settle = std::get_if<Settle>(&command)) {
            const std::uint64_t token = settle->holder.token.value;
            const bool said_once = settles_said_[token] == 1;
            if (says_nothing_happened(failure.code) && settles_done_.contains(token) && said_once)
                stage_.violated("unavailable means it did not happen", "{} was settled: {}", subject.text(),
                                failure.message);
        }
    }
}

void Judge::check_claim_answer(const Claim& claim, const Answer& answer, const Pending& pending, bool given_up) {
    const Subject& subject = world_.subject(claim.operation.id());
    answered_.insert(claim.attempt);
    const auto* claimed = std::get_if<Claimed>(&answer);
    if (claimed == nullptr) {
        const auto own = attempts_.find(claim.attempt);
        const bool denied = std::holds_alternative<Busy>(answer) || std::holds_alternative<Mismatch>(answer);
        // Its own grant may have run out and gone to somebody else meanwhile; if it is still the last one, it is a lie.
        if (denied && own != attempts_.end() && own->second.value == histories_[subject.id].token_max &&
            !heard_.contains(own->second.value))
            stage_.violated("I6 a claim is not refused because of itself", "{} token {}", subject.text(),
                            own->second.value);
        return;
    }
    if (!histories_[subject.id].granted.contains(claimed->token.value))
        stage_.violated("I10 a claim is durable before it is answered", "{} token {}", subject.text(),
                        claimed->token.value);
    if (given_up) {
        stage_.count(Tally::unclaimed);
        unclaimed_[claimed->token.value] = {pending.process, subject.id, stage_.steady()};
    }
}

void Judge::process_died(ProcessId process) {
    std::erase_if(pending_, [&](const auto& each) { return each.second.process == process; });
    std::erase_if(requests_, [&](const auto& each) { return each.second == process; });
    out_.erase(process);
    process_paused(process);
}

/// Its releases may have missed their time.
void Judge::process_paused(ProcessId process) {
    std::erase_if(unclaimed_, [&](const auto& each) { return each.second.process == process; });
}

// ---- holders and callers ---------------------------------------------------------------------------------------

void Judge::sends(const Subject& subject, const Token& token, TimePoint store_now) {
    History& history = histories_[subject.id];
    if (!history.granted.contains(token.value))
        stage_.violated("I10 a durable claim before every effect", "{} is sent under token {}", subject.text(),
                        token.value);
    if (subject.parent != nullptr && subject.parent->kind == Kind::workflow && !under_guard_.contains(token.value))
        stage_.violated("a step begins only while its workflow is held", "{} token {}", subject.text(), token.value);
    if (!clock_jumps_ && store_now >= history.lease[token.value])
        stage_.violated("I4 an effect begins inside the lease", "{} token {}", subject.text(), token.value);
}

void Judge::answered_stored(const Subject& subject, const Outcome& outcome) {
    stage_.count(Tally::stored);
    const History& history = histories_[subject.id];
    if (history.swept) return;
    if (!history.outcome || *history.outcome != outcome)
        stage_.violated("I10 a durable outcome before every answer 'stored'", "{} is not stored so", subject.text());
}

void Judge::answered_replay(const Subject& subject, const Fingerprint& asked, const Outcome& outcome) {
    stage_.count(Tally::replays);
    const History& history = histories_[subject.id];
    if (history.swept) return;
    if (!history.outcome || !history.fingerprint)
        return stage_.violated("a replay of what is durable", "{} was never settled", subject.text());
    if (asked != *history.fingerprint)
        stage_.violated("I7 a replay only for the same fingerprint", "{}", subject.text());
    const bool dropped = !outcome.kept && history.body_dropped && outcome.status == history.outcome->status;
    if (dropped)
        stage_.count(Tally::tombstone_replays);
    else if (outcome != *history.outcome)
        stage_.violated("I2 replays are byte-equal", "{}: '{}' instead of '{}'", subject.text(), outcome.body,
                        history.outcome->body);
}

// ---- the end ---------------------------------------------------------------------------------------------------

void Judge::nobody_waits() {
    if (!pending_.empty())
        stage_.violated("every command is completed exactly once", "{} of {} never",
                        world_.subject(id_of(pending_.begin()->second.commands.front())).text(), pending_.size());
    if (!requests_.empty()) stage_.violated("no caller waits forever", "{} requests still do", requests_.size());
    if (!unclaimed_.empty())
        stage_.violated("I6 a grant nobody waits for is released", "{} token {} was kept",
                        world_.subject(unclaimed_.begin()->second.id).text(), unclaimed_.begin()->first);
}

void Judge::all_ended(const std::map<OperationId, std::optional<Record>>& records) {
    for (const auto& subject : world_.subjects()) {
        const auto at = records.find(subject->id);
        const bool present = at != records.end() && at->second;
        const bool ended = present && at->second->state == State::settled;
        if (present && !ended)
            stage_.violated("with faults off nothing stays open", "{} is {}", subject->text(), name(at->second->state));
        const bool may_be_absent = subject->poison || subject->key_time || subject->parent != nullptr;
        if (!present && !may_be_absent)
            stage_.violated("with faults off everything is settled", "{} is absent", subject->text());
        const World::Effects& effects = world_.effects(*subject);
        const bool lost = !present && effects.executed > 0 && !histories_[subject->id].swept;
        if (lost) stage_.violated("nothing is lost", "{} happened and is not remembered", subject->text());
    }
}

}  // namespace semel::sim
