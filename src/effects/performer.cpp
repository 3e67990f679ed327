#include "effects/performer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/retry.hpp"
#include "effects/intent_machine.hpp"
#include "ledger/record_json.hpp"
#include "semel/keys.hpp"
#include "semel/store.hpp"

namespace semel::effects {
namespace {

/// How long it is tried to settle what is done while the store is away. A late settlement counts; a lost one is unknown.
constexpr Duration settle_patience = std::chrono::minutes{1};
constexpr std::string_view resolver = "lookup";

class Performer {
public:
    Performer(const Surroundings& world, const Intent& intent, const Operation& operation, const Guard* guard,
              const At& at, const std::stop_token& stop)
        : ledger_(world.ledger),
          leases_(world.leases),
          pace_(world.pace),
          intent_(intent),
          operation_(operation),
          id_(operation.id()),
          guard_(guard),
          at_(at),
          stop_(stop),
          policy_(policy_of(intent.provider)),
          machine_(intent.provider.repeating, static_cast<bool>(intent.lookup), intent.limits, world.pace.random()) {}

    Result<std::variant<Performance, WholeLost>> run() {
        Act act = machine_.begin();
        while (true) {
            if (auto* over = std::get_if<Over>(&act)) {
                if (!over->answer) return over->answer.failure();
                return std::variant<Performance, WholeLost>{std::move(*over->answer)};
            }
            act = std::visit(
                match{[&](const DoClaim&) { return claim(); }, [&](const DoCall& c) { return call(c); },
                      [&](DoSettle& s) { return settle(s); }, [&](const DoRelease&) { return release(); },
                      [&](const DoAbandon&) { return abandon(); }, [&](const DoLookUp&) { return look_up(); },
                      [&](const DoResolve& r) { return resolve(r); },
                      [&](const DoWait& w) { return machine_.waited(pace_.wait(w.how_long, stop_)); },
                      [&](Over& over) { return Act{std::move(over)}; }},
                act);
            if (whole_lost_) return std::variant<Performance, WholeLost>{WholeLost{}};
        }
    }

private:
    [[nodiscard]] Duration elapsed() const { return std::chrono::duration_cast<Duration>(pace_.now() - began_); }
    void reached(std::string_view point) const {
        if (at_) at_(point);
    }

    Claim claim_command() {
        return {.operation = operation_,
                .fingerprint = intent_.fingerprint,
                .attempt = {},
                .policy = policy_,
                .key_time = std::nullopt,
                .correlation = intent_.correlation};
    }

    Act claim() {
        sent_ = pace_.now();
        const auto answer = guard_ == nullptr ? ledger_.claim(claim_command()) : claim_guarded();
        if (answer && std::holds_alternative<Claimed>(*answer)) reached("claimed");
        return machine_.claim_answered(answer, elapsed());
    }

    Result<ClaimAnswer> claim_guarded() {
        Claim command = claim_command();
        prepare(command);
        std::vector<Command> commands;
        commands.emplace_back(SaveCheckpoint{guard_->whole, guard_->begun});
        commands.emplace_back(std::move(command));
        auto answers = ledger_.execute(std::move(commands));
        if (!answers) {
            // What may have been granted is a lease that nobody uses: it is unknown when it is over, if it was.
            return answers.failure();
        }
        const Answer& whole = answers->front();
        if (std::holds_alternative<Fenced>(whole) || std::holds_alternative<Settled>(whole)) {
            whole_lost_ = true;
            return ClaimAnswer{Busy{}};
        }
        auto answer = claim_answer(std::vector<Answer>{answers->at(1)});
        // The group did not stand, so that the record does not say yet what everybody should see.
        if (answer && std::holds_alternative<Unknown>(*answer)) {
            auto told = ledger_.claim(claim_command());
            if (told && std::holds_alternative<Claimed>(*told)) {
                const auto& claimed = std::get<Claimed>(*told);
                (void)ledger_.release({id_, claimed.token, claimed.attempt});
            }
        }
        return answer;
    }

    Act call(const DoCall& act) {
        holder_ = {id_, act.claimed.token, act.claimed.attempt};
        const auto terms = terms_of(ledger_.store(), id_, act.claimed, policy_);
        if (!terms) return machine_.call_answered(NotSent{terms.failure().message, std::nullopt});
        // I4: no effect begins that might outlive its lease unnoticed.
        if (pace_.now() >= begin_before(sent_, terms->lease))
            return machine_.call_answered(NotSent{"the claim was granted too late to begin", std::nullopt});
        if (stop_.stop_requested()) return machine_.call_answered(NotSent{"it was asked to stop", std::nullopt});
        // Beyond its own terms a call might arrive outside of the dedup_window, or after it was looked up and not found.
        const auto deadline = pace_.now() + std::min(intent_.provider.call_deadline, terms->effect_deadline);
        kept_.emplace(leases_, holder_, terms->lease, sent_, deadline + terms->lease);
        const Call call{.key = operation_.key,
                        .tries = act.claimed.tries,
                        .doubt = act.claimed.doubt,
                        .deadline = deadline,
                        .stop = stop_};
        Reply reply;
        try {
            reply = intent_.call(call);
        } catch (...) {
            reply = InDoubt{what_was_thrown(), std::nullopt};
        }
        reached("called");
        return machine_.call_answered(std::move(reply));
    }

    Act settle(const DoSettle& act) {
        const auto answer = ledger_.settle(holder_, act.outcome, act.conclusive, settle_patience);
        kept_.reset();
        if (answer) reached("settled");
        return machine_.settle_answered(answer, elapsed());
    }
    Act release() {
        const auto answer = ledger_.release(holder_);
        kept_.reset();
        if (answer) reached("released");
        return machine_.release_answered(answer, elapsed());
    }
    Act abandon() {
        const auto answer = ledger_.abandon(holder_, settle_patience);
        kept_.reset();
        if (answer) reached("abandoned");
        return machine_.abandon_answered(answer, elapsed());
    }

    Act look_up() {
        const auto cannot = [&](std::string why) {
            return machine_.lookup_answered(LookupAnswer{CannotTell{std::move(why)}}, elapsed());
        };
        auto record = ledger_.store().find(id_);
        if (!record) return cannot(record.failure().message);
        auto now = ledger_.store().now();
        if (!now) return cannot(now.failure().message);
        const bool open = *record && ((*record)->state == State::unknown || lease_is_over(**record, *now));
        if (!open) return machine_.lookup_answered(LookUpNeedless{}, elapsed());
        // Before that the last call may still be executed, whatever the lookup finds.
        if (const TimePoint from = resolvable_from(**record); *now < from)
            return machine_.lookup_answered(LookUpEarly{from - *now}, elapsed());
        token_seen_ = (*record)->token;
        LookupAnswer answer;
        try {
            answer = intent_.lookup(operation_.key);
        } catch (...) {
            answer = CannotTell{what_was_thrown()};
        }
        return machine_.lookup_answered(answer, elapsed());
    }

    Act resolve(const DoResolve& act) {
        const auto answer =
            ledger_.resolve({.id = id_,
                             .token_seen = token_seen_,
                             .outcome = act.outcome,
                             .who = std::string(resolver),
                             .why = fmt::format("{} was asked for {}", intent_.provider.name, operation_.key.text())});
        if (answer) reached("resolved");
        return machine_.resolve_answered(answer, elapsed());
    }

    BlockingLedger& ledger_;
    Leases& leases_;
    Pace& pace_;
    const Intent& intent_;
    const Operation& operation_;
    OperationId id_;
    const Guard* guard_;
    const At& at_;
    const std::stop_token& stop_;
    Policy policy_;
    IntentMachine machine_;
    Pace::Steady began_ = pace_.now();
    Pace::Steady sent_{};
    Holder holder_{};
    std::optional<KeptLease> kept_;
    Token token_seen_{};
    bool whole_lost_ = false;
};

Failure invalid(std::string message) { return {Code::invalid, std::move(message)}; }

/// The attempt before must have settled as failed: what settled never changes, so that reading it is enough.
Status check_attempt_before(Committer& committer, const Intent& intent) {
    if (intent.business_attempt == 0) return invalid(fmt::format("{}: business attempts begin at 1", intent.step));
    if (intent.business_attempt == 1) return semel::Done{};
    Intent before = intent;
    --before.business_attempt;
    const auto operation = before.operation();
    if (!operation) return operation.failure();
    auto record = committer.store().find(operation->id());
    if (!record) return record.failure();
    const auto refuse = [&](std::string_view state) -> Status {
        return invalid(
            fmt::format("{} of {}: business attempt {} needs attempt {} to be settled as failed, and that {}",
                        intent.step, intent.parent.text(), intent.business_attempt, before.business_attempt, state));
    };
    if (!*record) return refuse("was never made, or was released or forgotten");
    if ((*record)->state != State::settled) return refuse(fmt::format("is {}", name((*record)->state)));
    if (!failed((*record)->outcome)) return refuse("has succeeded");
    return semel::Done{};
}

}  // namespace

Status check(const Provider& provider) {
    if (provider.name.empty()) return invalid("a provider has a name: it is shown to whoever has to ask it");
    if (provider.repeating == Repeating::deduplicated && provider.dedup_window <= provider.call_deadline)
        return invalid(fmt::format(
            "provider {}: its dedup_window must be longer than its call_deadline, or no call could be repeated",
            provider.name));
    if (provider.repeating != Repeating::deduplicated && provider.dedup_window != Duration{0})
        return invalid(
            fmt::format("provider {}: a dedup_window is for one that deduplicates by our key; this one is `{}`",
                        provider.name, name(provider.repeating)));
    return semel::Done{};
}

Status check(const Limits& limits) {
    if (limits.calls_max == 0) return invalid("limits: calls_max is at least 1");
    if (limits.backoff_first <= Duration{0} || limits.backoff_max < limits.backoff_first)
        return invalid("limits: backoff_first is more than zero and at most backoff_max");
    return semel::Done{};
}

Policy policy_of(const Provider& provider) {
    Policy policy{.lease = provider.lease, .effect_deadline = provider.call_deadline, .retention = provider.retention};
    if (provider.repeating == Repeating::deduplicated) {
        policy.on_unknown = OnUnknown::retry;
        // A call that begins inside of the window has to arrive inside of it as well.
        policy.dedup_window = provider.dedup_window - provider.call_deadline;
    }
    return policy;
}

Result<Operation> Intent::operation() const {
    if (step.empty() || step.size() > 100) return invalid("an intent's step has 1 to 100 characters");
    auto scope =
        Scope::make(parent.scope.tenant(), fmt::format("{}:{}", parent.scope.name(), step), parent.scope.generation());
    if (!scope) return scope.failure();
    return Operation{std::move(*scope), derive(parent, step, business_attempt)};
}

Result<std::variant<Performance, WholeLost>> perform(const Surroundings& world, const Intent& intent,
                                                     const Operation& operation, const Guard* guard, const At& at,
                                                     const std::stop_token& stop) {
    return Performer(world, intent, operation, guard, at, stop).run();
}

// ---- the public face -------------------------------------------------------------------------------------------

Intents::Intents(Committer& committer, IntentOptions options)
    : committer_(committer), options_(std::move(options)), keeper_(std::make_unique<LeaseKeeper>(committer)) {}
Intents::~Intents() = default;

Result<Performance> Intents::perform(const Intent& intent, const std::stop_token& stop) {
    if (!intent.call) return invalid(fmt::format("{}: an intent needs a call", intent.step));
    if (auto fine = check(intent.provider); !fine) return fine.failure();
    if (auto fine = check(intent.limits); !fine) return fine.failure();
    if (intent.provider.repeating == Repeating::after_lookup && !intent.lookup)
        return invalid(
            fmt::format("{}: provider {} is repeated after a lookup, and there is none: give one, or declare it "
                        "at_most_once",
                        intent.step, intent.provider.name));
    const auto operation = intent.operation();
    if (!operation) return operation.failure();
    if (auto fine = check_attempt_before(committer_, intent); !fine) return fine.failure();
    auto answer =
        effects::perform({committer_, *keeper_, system_pace()}, intent, *operation, nullptr, options_.at, stop);
    if (!answer) return answer.failure();
    return std::get<Performance>(std::move(*answer));
}

}  // namespace semel::effects
