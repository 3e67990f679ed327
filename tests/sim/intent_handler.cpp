#include "intent_handler.hpp"

#include "ledger/mint.hpp"
#include "ledger/record_json.hpp"
#include "semel/keys.hpp"

namespace semel::sim {
namespace {

effects::Repeating repeating_of(const Subject& subject, bool lookup) {
    if (subject.kind == Kind::retry) return effects::Repeating::deduplicated;
    return lookup ? effects::Repeating::after_lookup : effects::Repeating::never;
}

constexpr effects::Limits limits{.calls_max = 4,
                                 .total = std::chrono::seconds{90},
                                 .busy_wait = std::chrono::seconds{10},
                                 .backoff_first = std::chrono::milliseconds{200},
                                 .backoff_max = std::chrono::seconds{5}};

}  // namespace

IntentHandler::IntentHandler(std::shared_ptr<Instance> instance, World& world, Judge& judge, Request request,
                             bool lookup, Tell tell)
    : instance_(std::move(instance)),
      stage_(instance_->stage()),
      world_(world),
      judge_(judge),
      request_(std::move(request)),
      tell_(std::move(tell)),
      machine_(repeating_of(*request_.subject, lookup), lookup, limits, stage_.random()) {}

void IntentHandler::start() {
    judge_.request_begins(instance_->process(), request_.number);
    stage_.count(Tally::requests);
    stage_.count(Tally::intents);
    began_ = stage_.now();
    act(machine_.begin());
}

void IntentHandler::tell(Told told) {
    auto say = std::exchange(tell_, nullptr);
    if (!say) return;
    stage_.trace("intent {} {} -> {}", request_.number, request_.subject->text(), name(told));
    judge_.request_ends(request_.number);
    say(told);
}

void IntentHandler::post(Duration delay, What what) {
    instance_->post(delay, [self = shared_from_this(), what = std::move(what)]() mutable {
        if (self->stage_.now() < self->paused_until_)
            return self->post(self->paused_until_ - self->stage_.now(), std::move(what));
        what();
    });
}

void IntentHandler::ask(std::vector<Command> commands, Duration wait, Answered done) {
    const bool claims = std::holds_alternative<Claim>(commands.back());
    auto waiting = std::make_shared<Waiting>();
    auto once_only = std::make_shared<Answered>(std::move(done));
    instance_->submit(std::move(commands), wait, waiting,
                      [this, self = shared_from_this(), once_only, waiting](GroupAnswer answer) {
                          if (waiting->given_up()) return;
                          post(Duration{0}, [once_only, answer = std::move(answer)]() mutable {
                              if (auto say = std::exchange(*once_only, nullptr)) say(std::move(answer));
                          });
                      });
    instance_->post(wait, [self = shared_from_this(), once_only, waiting, claims] {
        if (!*once_only || !waiting->give_up()) return;
        auto say = std::exchange(*once_only, nullptr);
        say(Failure{claims ? Code::unavailable : Code::indeterminate, "no answer in time"});
    });
}

void IntentHandler::act(effects::Act act) {
    std::visit(
        match{[&](const effects::DoClaim&) { claim(); }, [&](const effects::DoCall& what) { call(what.claimed); },
              [&](const effects::DoSettle& what) {
                  said_ = what.outcome;
                  holder_command(Settle{*held_, what.outcome, what.conclusive},
                                 [this](const auto& answer) { return machine_.settle_answered(answer, elapsed()); });
              },
              [&](const effects::DoRelease&) {
                  holder_command(Release{*held_},
                                 [this](const auto& answer) { return machine_.release_answered(answer, elapsed()); });
              },
              [&](const effects::DoAbandon&) {
                  holder_command(Abandon{*held_},
                                 [this](const auto& answer) { return machine_.abandon_answered(answer, elapsed()); });
              },
              [&](const effects::DoLookUp&) { look_up(); },
              [&](const effects::DoResolve& what) { resolve(what.outcome); },
              [&](const effects::DoWait& what) {
                  // When it is calm nothing waits for hours; clients that go away ask it to stop.
                  const bool stopped = !stage_.calm() && stage_.chance(0.02);
                  post(what.how_long,
                       [this, self = shared_from_this(), stopped] { this->act(machine_.waited(stopped)); });
              },
              [&](const effects::Over& what) { over(what.answer); }},
        act);
}

void IntentHandler::claim() {
    sent_ = stage_.steady();
    const Subject& subject = *request_.subject;
    std::vector<Command> commands;
    commands.emplace_back(Claim{.operation = subject.operation,
                                .fingerprint = request_.fingerprint,
                                .attempt = mint_attempt(stage_.random()),
                                .policy = request_.policy,
                                .key_time = subject.key_time,
                                .correlation = subject.poison ? "poison" : fmt::format("intent-{}", request_.number)});
    ask(std::move(commands), stage_.between(milliseconds{500}, seconds{10}),
        [this, self = shared_from_this()](GroupAnswer answer) {
            act(machine_.claim_answered(claim_answer(std::move(answer)), elapsed()));
        });
}

void IntentHandler::call(const Claimed& claimed) {
    held_ = Holder{request_.subject->id, claimed.token, claimed.attempt};
    in_doubt_ = claimed.doubt;
    begin_before_ = begin_before(sent_, request_.subject->policy.lease);
    renew(*held_);
    if (stage_.strikes(Fault::holder_paused))
        paused_until_ = stage_.now() + stage_.between(seconds{1}, request_.subject->policy.lease * 4);
    post(stage_.between(Duration{0}, milliseconds{100}), [this, self = shared_from_this(), claimed] { send(claimed); });
}

void IntentHandler::send(const Claimed& claimed) {
    const Subject& subject = *request_.subject;
    // I4, as the real driver does it.
    if (stage_.steady() >= begin_before_ || stage_.strikes(Fault::effect_not_begun))
        return act(machine_.call_answered(effects::NotSent{"not begun", std::nullopt}));
    judge_.sends(subject, claimed.token, instance_->store().clock());
    stage_.trace("intent {} sends {} token {}", request_.number, subject.text(), claimed.token.value);
    in_doubt_ = true;
    auto waits = std::make_shared<bool>(true);
    const auto answered = [this, self = shared_from_this(), waits](effects::Reply reply, bool known) {
        if (!std::exchange(*waits, false)) return;
        if (known) in_doubt_ = false;
        if (stage_.strikes(Fault::holder_paused))
            paused_until_ = stage_.now() + stage_.between(seconds{1}, seconds{30});
        post(Duration{0}, [this, self, reply = std::move(reply)] { act(machine_.call_answered(reply)); });
    };
    world_.send(
        subject, derive(subject.operation, "effect").text(),
        [this, self = shared_from_this(), answered, claimed](Reply reply, const std::string& receipt) {
            instance_->post(Duration{0}, [this, self, answered, claimed, reply, receipt] {
                switch (reply) {
                    case Reply::done: return answered(effects::Answered{{status_done, receipt, true}, true}, true);
                    case Reply::declined:
                        return answered(effects::Answered{Outcome::tombstone(status_declined), true}, true);
                    // Not this time: and under doubt that says nothing about the time before (I11).
                    case Reply::try_later:
                        if (claimed.doubt && stage_.chance(0.8))
                            return answered(effects::Answered{Outcome::tombstone(status_try_later), false}, false);
                        return answered(effects::NotSent{"not now", std::nullopt}, !claimed.doubt);
                }
            });
        });
    post(subject.policy.effect_deadline, [answered] {
        answered(effects::InDoubt{"no answer in time", std::nullopt}, false);
    });
}

/// Renewed while it is held; the machine does not hear of it.
void IntentHandler::renew(const Holder& holder) {
    const Duration lease = request_.subject->policy.lease;
    post(lease / 3, [this, self = shared_from_this(), holder, lease] {
        if (!held_ || held_->token != holder.token) return;
        std::vector<Command> commands;
        commands.emplace_back(Renew{holder});
        ask(std::move(commands), lease / 3, [self](GroupAnswer) {});
        renew(holder);
    });
}

void IntentHandler::holder_command(Command command, std::move_only_function<effects::Act(Result<HolderAnswer>)> then) {
    std::vector<Command> commands;
    commands.push_back(std::move(command));
    ask(std::move(commands), seconds{30},
        [this, self = shared_from_this(), then = std::move(then)](GroupAnswer answer) mutable {
            held_.reset();
            act(then(holder_answer(std::move(answer))));
        });
}

void IntentHandler::look_up() {
    const Subject& subject = *request_.subject;
    const auto record = instance_->store().find(subject.id);
    const TimePoint now = instance_->store().clock();
    const auto answer = [&](effects::LookUpAnswer found) { act(machine_.lookup_answered(found, elapsed())); };
    const bool open = record && (record->state == State::unknown || lease_is_over(*record, now));
    if (!open) return answer(effects::LookUpNeedless{});
    if (const TimePoint from = resolvable_from(*record); now < from) return answer(effects::LookUpEarly{from - now});
    token_seen_ = record->token;
    stage_.count(Tally::lookups);
    const World::Effects& happened = world_.effects(subject);
    if (happened.executed > 0)
        return answer(effects::LookupAnswer{effects::Happened{{status_done, happened.receipt, true}}});
    if (stage_.chance(0.2)) return answer(effects::LookupAnswer{effects::CannotTell{"it is down"}});
    return answer(effects::LookupAnswer{effects::DidNotHappen{}});
}

void IntentHandler::resolve(const std::optional<Outcome>& verdict) {
    if (verdict) said_ = *verdict;
    std::vector<Command> commands;
    commands.emplace_back(Resolve{request_.subject->id, token_seen_, verdict, "lookup", "the provider was asked"});
    ask(std::move(commands), seconds{5}, [this, self = shared_from_this()](GroupAnswer answer) {
        const auto said = holder_answer(std::move(answer));
        if (said && std::holds_alternative<Ok>(*said)) in_doubt_ = false;
        act(machine_.resolve_answered(said, elapsed()));
    });
}

void IntentHandler::over(const Result<effects::Performance>& answer) {
    const Subject& subject = *request_.subject;
    held_.reset();
    if (!answer)
        return tell(answer.failure().code == Code::corrupt         ? Told::corrupt
                    : answer.failure().code == Code::invalid       ? Told::refused
                    : answer.failure().code == Code::indeterminate ? Told::unknown
                                                                   : Told::unavailable);
    const auto settled = [&](const Outcome& outcome, bool replayed) {
        if (replayed)
            judge_.answered_replay(subject, request_.fingerprint, outcome);
        else
            judge_.answered_stored(subject, outcome);
        tell(replayed ? Told::replay : Told::stored);
    };
    std::visit(match{[&](const effects::Performed& done) { settled(done.outcome, done.replayed); },
                     [&](const effects::Failed& refused) { settled(refused.outcome, refused.replayed); },
                     [&](const Busy&) {
                         stage_.count(Tally::busy);
                         tell(Told::busy);
                     },
                     [&](const Mismatch&) {
                         stage_.count(Tally::mismatches);
                         tell(Told::mismatch);
                     },
                     [&](const effects::OutcomeUnknown&) {
                         stage_.count(Tally::unknowns);
                         tell(Told::unknown);
                     },
                     [&](const effects::NotPerformed&) {
                         if (in_doubt_)
                             stage_.violated("not performed means nothing is in doubt", "{} was sent", subject.text());
                         tell(Told::unavailable);
                     },
                     [&](const effects::Superseded&) { tell(Told::unavailable); }},
               *answer);
}

}  // namespace semel::sim
