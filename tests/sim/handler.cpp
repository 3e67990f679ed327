#include "handler.hpp"

#include "ledger/mint.hpp"
#include "ledger/mutation.hpp"
#include "semel/keys.hpp"

namespace semel::sim {
namespace {

constexpr int tries_max = 6;
constexpr std::string_view declined = "declined";  // as a step's recovery point

Duration a_while(Stage& stage) { return stage.between(milliseconds{50}, milliseconds{1500}); }

}  // namespace

std::string_view name(Told told) {
    constexpr std::string_view names[] = {"stored",  "replay",      "mismatch", "expired", "busy",
                                          "unknown", "unavailable", "corrupt",  "refused"};
    return names[static_cast<std::size_t>(told)];
}

Handler::Handler(std::shared_ptr<Instance> instance, World& world, Judge& judge, Request request, Tell tell)
    : instance_(std::move(instance)),
      stage_(instance_->stage()),
      world_(world),
      judge_(judge),
      request_(std::move(request)),
      tell_(std::move(tell)) {}

void Handler::start() {
    judge_.request_begins(instance_->process(), request_.number);
    stage_.count(Tally::requests);
    const bool in_transaction =
        request_.subject->kind == Kind::once || (request_.subject->kind == Kind::joined && stage_.chance(0.2));
    if (in_transaction)
        once();
    else
        claim();
}

/// The end of the request. What the holder still has to say goes on.
void Handler::tell(Told told) {
    auto say = std::exchange(tell_, nullptr);
    if (!say) return;
    stage_.trace("request {} {} -> {}", request_.number, request_.subject->text(), name(told));
    judge_.request_ends(request_.number);
    say(told);
}

/// Later, when this request is not asleep.
void Handler::post(Duration delay, What what) {
    instance_->post(delay, [self = shared_from_this(), what = std::move(what)]() mutable {
        if (self->stage_.now() < self->paused_until_)
            return self->post(self->paused_until_ - self->stage_.now(), std::move(what));
        what();
    });
}

/// As the blocking face does: stop waiting when the time is up.
void Handler::ask(std::vector<Command> commands, Duration wait, Answered done) {
    const bool claims = std::holds_alternative<Claim>(commands.back());
    auto waiting = std::make_shared<Waiting>();
    auto once_only = std::make_shared<Answered>(std::move(done));
    const Duration patience =
        claims && stage_.strikes(Fault::gave_up) ? stage_.between(milliseconds{1}, milliseconds{60}) : wait;
    instance_->submit(std::move(commands), wait, waiting,
                      [this, self = shared_from_this(), once_only, waiting](GroupAnswer answer) {
                          if (waiting->given_up()) return;
                          post(Duration{0}, [once_only, answer = std::move(answer)]() mutable {
                              if (auto say = std::exchange(*once_only, nullptr)) say(std::move(answer));
                          });
                      });
    instance_->post(patience, [self = shared_from_this(), once_only, waiting, claims] {
        if (!*once_only || !waiting->give_up()) return;
        auto say = std::exchange(*once_only, nullptr);
        say(Failure{claims ? Code::unavailable : Code::indeterminate, "no answer in time"});
    });
}

Claim Handler::claim_of(const Subject& subject, const Policy& policy) {
    return {.operation = subject.operation,
            .fingerprint = &subject == request_.subject ? request_.fingerprint : subject.fingerprint,
            .attempt = mint_attempt(stage_.random()),
            .policy = policy,
            .key_time = subject.key_time,
            .correlation = subject.poison ? "poison" : fmt::format("request-{}", request_.number)};
}

// ---- claim -----------------------------------------------------------------------------------------------------

void Handler::claim() {
    const Steady sent = stage_.steady();
    std::vector<Command> commands;
    commands.emplace_back(claim_of(*request_.subject, request_.policy));
    ask(std::move(commands), stage_.between(milliseconds{500}, seconds{10}),
        [this, self = shared_from_this(), sent](GroupAnswer answer) { claim_answered(std::move(answer), sent); });
}

void Handler::claim_answered(GroupAnswer answer, Steady sent) {
    const Subject& subject = *request_.subject;
    if (!answer)
        return tell(answer.failure().code == Code::corrupt   ? Told::corrupt
                    : answer.failure().code == Code::invalid ? Told::refused
                                                             : Told::unavailable);
    std::visit(
        match{[&](const Claimed& claimed) {
                  const Held held = hold(subject, claimed, sent);
                  if (stage_.strikes(Fault::holder_paused))
                      paused_until_ = stage_.now() + stage_.between(seconds{1}, subject.policy.lease * 4);
                  post(stage_.chance(0.2) ? stage_.between(Duration{0}, subject.policy.lease * 2)
                                          : stage_.between(Duration{0}, milliseconds{100}),
                       [this, held] { begin(held); });
              },
              [&](const Replay& replay) {
                  judge_.answered_replay(subject, request_.fingerprint, replay.outcome);
                  tell(Told::replay);
              },
              [&](const Busy&) {
                  stage_.count(Tally::busy);
                  tell(Told::busy);
              },
              [&](const Mismatch&) {
                  stage_.count(Tally::mismatches);
                  tell(Told::mismatch);
              },
              [&](const Unknown&) {
                  stage_.count(Tally::unknowns);
                  tell(Told::unknown);
              },
              [&](const Expired&) {
                  stage_.count(Tally::expired);
                  tell(Told::expired);
              },
              [&](const auto&) { stage_.violated("a claim has six answers", "{} got another", subject.text()); }},
        answer->front());
}

// ---- holding ---------------------------------------------------------------------------------------------------

Handler::Held Handler::hold(const Subject& subject, const Claimed& claimed, Steady sent) {
    auto held = std::make_shared<Hold>(Hold{.subject = &subject,
                                            .holder = {subject.id, claimed.token, claimed.attempt},
                                            .doubt = claimed.doubt,
                                            .begin_before = begin_before(sent, subject.policy.lease),
                                            .checkpoints = claimed.checkpoints});
    post(subject.policy.lease / 3, [this, held] { renew(held); });
    return held;
}

void Handler::renew(const Held& held) {
    if (held->over || held->lost) return;
    const Steady sent = stage_.steady();
    std::vector<Command> commands;
    commands.emplace_back(Renew{held->holder});
    ask(std::move(commands), held->subject->policy.lease / 3,
        [this, self = shared_from_this(), held, sent](GroupAnswer answer) {
            if (!answer) return;
            if (std::holds_alternative<Fenced>(answer->front())) held->lost = true;
            const auto* ok = std::get_if<Ok>(&answer->front());
            // What may be repeated for a while (I12) was granted at the claim, and not by a renewal.
            if (ok != nullptr && ok->state == State::running && held->subject->kind != Kind::retry)
                held->begin_before = begin_before(sent, held->subject->policy.lease);
        });
    post(held->subject->policy.lease / 3, [this, held] { renew(held); });
}

/// I4: only while our own clock is safely inside the lease.
void Handler::begin(const Held& held) {
    const bool late = SEMEL_MUTATION(effect_begins_late, stage_.steady() >= held->begin_before, false);
    if (held->lost || late || stage_.strikes(Fault::effect_not_begun))
        return let_go(held, Release{held->holder}, Told::unavailable);
    if (held->subject->kind == Kind::resume) return step(held, 0, "", 0);
    if (held->subject->kind == Kind::joined) return join(held, 0);
    send(
        held, [this, held](Reply reply, const std::string& receipt) { replied(held, reply, receipt); },
        [this, held] {
            if (SEMEL_MUTATION(released_after_sending, false, true))
                return let_go(held, Release{held->holder}, Told::unknown);
            let_go(held, Abandon{held->holder}, Told::unknown);
        });
}

/// Either `done` or, when no reply came in time, `lost`.
void Handler::send(const Held& held, std::move_only_function<void(Reply, std::string)> done, Then lost) {
    const Subject& subject = *held->subject;
    judge_.sends(subject, held->holder.token, instance_->store().clock());
    const std::string key =
        SEMEL_MUTATION(provider_key_per_try, derive(subject.operation, "effect").text(),
                       fmt::format("{}-{}", subject.operation.key.text(), held->holder.token.value));
    stage_.trace("request {} sends {} token {}", request_.number, subject.text(), held->holder.token.value);
    auto waits = std::make_shared<bool>(true);
    world_.send(
        subject, key,
        [this, self = shared_from_this(), waits, done = std::move(done)](Reply reply, std::string receipt) mutable {
            instance_->post(Duration{0}, [this, self, waits, done = std::move(done), reply,
                                          receipt = std::move(receipt)]() mutable {
                if (!std::exchange(*waits, false)) return;
                if (stage_.strikes(Fault::holder_paused))
                    paused_until_ = stage_.now() + stage_.between(seconds{1}, seconds{30});
                post(Duration{0}, [done = std::move(done), reply, receipt]() mutable { done(reply, receipt); });
            });
        });
    post(subject.policy.effect_deadline, [waits, lost = std::move(lost)]() mutable {
        if (std::exchange(*waits, false)) lost();
    });
}

void Handler::replied(const Held& held, Reply reply, const std::string& receipt) {
    switch (reply) {
        case Reply::done: return settle(held, {status_done, receipt, true}, true, 0);
        case Reply::declined: return settle(held, Outcome::tombstone(status_declined), true, 0);
        case Reply::try_later:
            // I11: what an earlier holder's try came to is still open.
            if (held->doubt && stage_.chance(0.8)) return settle(held, Outcome::tombstone(status_try_later), false, 0);
            return let_go(held, Release{held->holder}, Told::unavailable);
    }
}

void Handler::settle(const Held& held, Outcome outcome, bool conclusive, int tries) {
    const Subject& subject = *held->subject;
    std::vector<Command> commands;
    commands.emplace_back(Settle{held->holder, outcome, conclusive});
    ask(std::move(commands), seconds{5},
        [this, self = shared_from_this(), held, outcome, conclusive, tries, &subject](GroupAnswer answer) {
            if (!answer) {
                if (tries < tries_max) {
                    // Some render their answer anew: if the first one is stored after all, that one counts.
                    Outcome again = outcome;
                    if (again.kept && stage_.chance(0.3)) again.body += fmt::format(", said {} times", tries + 2);
                    post(a_while(stage_),
                         [this, held, again, conclusive, tries] { settle(held, again, conclusive, tries + 1); });
                    return;
                }
                held->over = true;
                return tell(Told::unknown);
            }
            held->over = true;
            if (const auto* settled = std::get_if<Settled>(&answer->front())) {
                judge_.answered_replay(subject, request_.fingerprint, settled->outcome);
                return tell(Told::replay);
            }
            const auto* ok = std::get_if<Ok>(&answer->front());
            if (ok == nullptr) return tell(Told::unavailable);  // fenced
            if (ok->state != State::settled) return tell(Told::unknown);
            judge_.answered_stored(subject, outcome);
            tell(Told::stored);
        });
}

/// Release or abandon: said once or twice; if it does not get through, the lease runs out.
void Handler::let_go(const Held& held, Command command, Told told) {
    held->over = true;
    std::vector<Command> commands;
    commands.push_back(std::move(command));
    ask(std::move(commands), seconds{3}, [this, self = shared_from_this(), told](GroupAnswer) { tell(told); });
}

// ---- in the caller's own transaction ---------------------------------------------------------------------------

void Handler::once() {
    stage_.count(Tally::in_transaction);
    Claim claim = claim_of(*request_.subject, request_.policy);
    claim.in_transaction = true;
    OwnWork work{request_.subject, fmt::format("row {} {}", request_.subject->text(), stage_.below(1'000'000'000)),
                 true};
    work.settles = !stage_.strikes(Fault::outcome_forgotten);
    const Outcome outcome =
        work.settles ? Outcome{status_done, work.effect, true} : Outcome::tombstone(status_forgotten);
    instance_->submit_own(std::move(claim), std::move(work),
                          [this, self = shared_from_this(), outcome](Result<Executed> result) {
                              once_answered(std::move(result), outcome);
                          });
}

void Handler::once_answered(Result<Executed> result, const Outcome& outcome) {
    if (!result) return tell(Told::unavailable);
    GroupAnswer& answer = result->answers.front();
    if (answer && std::holds_alternative<Claimed>(answer->front())) {
        judge_.answered_stored(*request_.subject, outcome);
        return tell(Told::stored);
    }
    claim_answered(std::move(answer), stage_.steady());
}

/// The application settles under the token in its own transaction, so a late one is fenced by the database.
void Handler::join(const Held& held, int tries) {
    stage_.count(Tally::joined);
    OwnWork work{held->subject, fmt::format("row {} {}", held->subject->text(), held->holder.token.value), true};
    const Outcome outcome{status_done, work.effect, true};
    instance_->submit_own(Settle{held->holder, outcome, true}, std::move(work),
                          [this, self = shared_from_this(), held, outcome, tries](Result<Executed> result) {
                              if (!result || !result->answers.front()) {
                                  // Rolled back, or nobody knows: the same transaction again finds out.
                                  if (tries < tries_max)
                                      return post(a_while(stage_), [this, held, tries] { join(held, tries + 1); });
                                  held->over = true;
                                  return tell(Told::unknown);
                              }
                              held->over = true;
                              const Answer& answer = result->answers.front()->front();
                              if (std::holds_alternative<Fenced>(answer)) return tell(Told::unavailable);
                              judge_.answered_stored(*held->subject, outcome);
                              tell(Told::stored);
                          });
}

// ---- workflow --------------------------------------------------------------------------------------------------

void Handler::step(const Held& held, std::size_t number, std::string receipts, int tries) {
    if (number == held->subject->steps.size()) {
        stage_.count(Tally::workflows);
        return settle(held, {status_done, receipts, true}, true, 0);
    }
    const Subject& child = *held->subject->steps[number];
    const std::string done = fmt::format("step{}", number);
    for (const Checkpoint& checkpoint : held->checkpoints)
        if (checkpoint.name == done)
            return step_over(held, number, receipts,
                             checkpoint.value == declined ? Outcome::tombstone(status_declined)
                                                          : Outcome{status_done, checkpoint.value, true});

    const Steady sent = stage_.steady();
    std::vector<Command> commands;
    commands.emplace_back(
        SaveCheckpoint{held->holder, {done + " begun", fmt::format("by request {}", request_.number)}});
    commands.emplace_back(claim_of(child, child.policy));
    ask(std::move(commands), seconds{5},
        [this, self = shared_from_this(), held, number, receipts, tries, &child, sent](GroupAnswer answer) {
            const auto again = [&] {
                if (tries < tries_max && !held->lost) {
                    post(a_while(stage_),
                         [this, held, number, receipts, tries] { step(held, number, receipts, tries + 1); });
                    return;
                }
                let_go(held, Abandon{held->holder}, Told::unknown);
            };
            if (!answer) return again();
            if (std::holds_alternative<Fenced>(answer->front())) {
                held->over = held->lost = true;
                return tell(Told::unavailable);
            }
            if (const auto* settled = std::get_if<Settled>(&answer->front())) {
                judge_.answered_replay(*held->subject, request_.fingerprint, settled->outcome);
                held->over = true;
                return tell(Told::replay);
            }
            if (const auto* claimed = std::get_if<Claimed>(&answer->at(1)))
                return step_claimed(held, number, receipts, hold(child, *claimed, sent));
            if (const auto* replay = std::get_if<Replay>(&answer->at(1))) {
                judge_.answered_replay(child, child.fingerprint, replay->outcome);
                return step_over(held, number, receipts, replay->outcome);
            }
            if (std::holds_alternative<Mismatch>(answer->at(1)))
                stage_.violated("a step is claimed with one fingerprint", "{}", child.text());
            if (std::holds_alternative<Unknown>(answer->at(1)))
                return let_go(held, Abandon{held->holder}, Told::unknown);
            again();
        });
}

void Handler::step_claimed(const Held& held, std::size_t number, std::string receipts, const Held& child) {
    if (stage_.steady() >= child->begin_before || stage_.strikes(Fault::effect_not_begun)) {
        // The step never began; the ledger knows by its checkpoints whether the workflow did.
        let_go(child, Release{child->holder}, Told::unavailable);
        return let_go(held, Release{held->holder}, Told::unavailable);
    }
    const auto give_in = [this, held, child](Command command) {
        let_go(child, std::move(command), Told::unknown);
        let_go(held, Abandon{held->holder}, Told::unknown);
    };
    send(
        child,
        [this, held, number, receipts, child, give_in](Reply reply, const std::string& receipt) {
            switch (reply) {
                case Reply::done: return step_settled(held, number, receipts, child, {status_done, receipt, true}, 0);
                case Reply::declined:
                    return step_settled(held, number, receipts, child, Outcome::tombstone(status_declined), 0);
                case Reply::try_later: return give_in(Release{child->holder});
            }
        },
        [child, give_in] { give_in(Abandon{child->holder}); });
}

/// The step's outcome and the workflow's recovery point stand or fall together.
void Handler::step_settled(const Held& held, std::size_t number, const std::string& receipts, const Held& child,
                           Outcome outcome, int tries) {
    std::vector<Command> commands;
    commands.emplace_back(Settle{child->holder, outcome, true});
    const bool alone = held->lost;
    if (!alone)
        commands.emplace_back(SaveCheckpoint{
            held->holder,
            {fmt::format("step{}", number), outcome.status == status_declined ? std::string(declined) : outcome.body}});
    ask(std::move(commands), seconds{5},
        [this, self = shared_from_this(), held, number, receipts, child, outcome, tries, alone](GroupAnswer answer) {
            const auto again = [&] {
                if (tries < tries_max) {
                    post(a_while(stage_), [this, held, number, receipts, child, outcome, tries] {
                        step_settled(held, number, receipts, child, outcome, tries + 1);
                    });
                    return;
                }
                child->over = true;
                let_go(held, Abandon{held->holder}, Told::unknown);
            };
            if (!answer) return again();
            if (!alone && std::holds_alternative<Fenced>(answer->at(1))) {
                // Another one carries the workflow on; what this step came to is still ours to say.
                held->lost = held->over = true;
                return again();
            }
            child->over = true;
            if (alone) return tell(Told::unavailable);
            if (std::holds_alternative<Ok>(answer->front())) return step_over(held, number, receipts, outcome);
            let_go(held, Abandon{held->holder}, Told::unknown);
        });
}

void Handler::step_over(const Held& held, std::size_t number, std::string receipts, const Outcome& outcome) {
    if (outcome.status == status_declined) return settle(held, Outcome::tombstone(status_declined), true, 0);
    step(held, number + 1, receipts + outcome.body + ";", 0);
}

}  // namespace semel::sim
