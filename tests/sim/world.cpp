#include "world.hpp"

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "semel/keys.hpp"

namespace semel::sim {

std::string_view name(Kind kind) {
    switch (kind) {
        case Kind::refuse: return "refuse";
        case Kind::retry: return "retry";
        case Kind::resume: return "resume";
        case Kind::joined: return "joined";
        case Kind::once: return "once";
        case Kind::workflow: return "workflow";
    }
    return "?";
}

std::string Subject::text() const { return fmt::format("{}:{}", number, name(kind)); }

const Subject& World::subject(const OperationId& id) const { return *by_id_.at(id); }

const Subject& World::add(Kind kind, TimePoint store_now, bool finite_retention, const Subject* parent) {
    const std::size_t number = subjects_.size();
    // The same few keys under several tenants: no replay may cross them.
    auto scope = Scope::make(fmt::format("tenant{}", number % 3), std::string(name(kind)));
    auto key = Key::parse(fmt::format("k{}", number / 3));
    SEMEL_ASSERT(scope && key, "the simulator's names are valid");
    Operation operation{*scope, *key};
    if (parent != nullptr) operation.key = derive(parent->operation, fmt::format("step{}", number));

    Policy policy;
    policy.lease = stage_.between(seconds{2}, seconds{10});
    policy.effect_deadline = stage_.between(seconds{2}, seconds{20});
    switch (kind) {
        case Kind::refuse:
        case Kind::once: policy.on_unknown = OnUnknown::refuse; break;
        case Kind::retry:
            policy.on_unknown = OnUnknown::retry;
            policy.dedup_window = stage_.between(seconds{5}, seconds{60});
            break;
        case Kind::resume: policy.on_unknown = OnUnknown::resume; break;
        case Kind::joined: policy.on_unknown = OnUnknown::joined; break;
        case Kind::workflow: SEMEL_ASSERT(false, "these are added by add_workflow"); break;
    }
    if (stage_.chance(0.3)) policy.retention.response = stage_.between(seconds{1}, seconds{30});
    if (stage_.chance(0.2)) policy.retention.response.reset();
    std::optional<TimePoint> key_time;
    if (finite_retention) {
        key_time = store_now + stage_.between(seconds{-5}, seconds{5});
        policy.retention.identity = policy.lease + stage_.between(seconds{10}, seconds{60});
    }
    subjects_.push_back(std::make_unique<Subject>(Subject{.number = number,
                                                          .kind = kind,
                                                          .operation = operation,
                                                          .id = operation.id(),
                                                          .policy = policy,
                                                          .key_time = key_time,
                                                          .fingerprint = {first_half(sha256(operation.text())), 1},
                                                          .parent = parent,
                                                          .steps = {},
                                                          .undos = {},
                                                          .poison = false}));
    Subject& subject = *subjects_.back();
    effects_.emplace_back();
    by_id_.emplace(subject.id, &subject);
    stage_.count(Tally::operations);
    if (kind == Kind::resume) {
        subject.steps.push_back(&add(Kind::refuse, store_now, false, &subject));
        subject.steps.push_back(&add(Kind::retry, store_now, false, &subject));
    } else if (parent == nullptr && kind != Kind::once) {
        subject.poison = stage_.strikes(Fault::poison);
    }
    stage_.trace("operation {} lease {} ms, effect deadline {} ms{}", subject.text(), policy.lease / milliseconds{1},
                 policy.effect_deadline / milliseconds{1}, subject.poison ? ", poison" : "");
    return subject;
}

Subject& World::add_named(const StepOf& what, const Subject* parent) {
    const std::size_t number = subjects_.size();
    subjects_.push_back(std::make_unique<Subject>(Subject{.number = number,
                                                          .kind = what.kind,
                                                          .operation = what.operation,
                                                          .id = what.operation.id(),
                                                          .policy = what.policy,
                                                          .key_time = std::nullopt,
                                                          .fingerprint = what.fingerprint,
                                                          .parent = parent,
                                                          .steps = {},
                                                          .undos = {},
                                                          .poison = false}));
    effects_.emplace_back();
    by_id_.emplace(subjects_.back()->id, subjects_.back().get());
    stage_.count(Tally::operations);
    return *subjects_.back();
}

const Subject& World::add_workflow(const StepOf& whole, const std::vector<StepOf>& steps,
                                   const std::vector<std::optional<StepOf>>& undos) {
    Subject& subject = add_named(whole, nullptr);
    for (const StepOf& step : steps) subject.steps.push_back(&add_named(step, &subject));
    for (const auto& undo : undos) subject.undos.push_back(undo ? &add_named(*undo, &subject) : nullptr);
    stage_.trace("operation {}", subject.text());
    return subject;
}

void World::send(const Subject& subject, const std::string& key,
                 std::move_only_function<void(Reply, std::string)> reply) {
    Effects& effects = effects_[subject.number];
    effects.keys.insert(key);
    if (effects.keys.size() > 1)
        stage_.violated("one provider key per operation", "{} was sent under another key", subject.text());
    // An effect begun within the lease is over before lease + effect deadline: what the policy declares.
    const Duration slowest = subject.policy.effect_deadline * 9 / 10;
    const auto delay = [&] {
        return stage_.chance(0.15) ? stage_.between(Duration{0}, slowest)
                                   : stage_.between(milliseconds{1}, milliseconds{300});
    };
    const auto answered = std::make_shared<std::move_only_function<void(Reply, std::string)>>(std::move(reply));
    const bool twice = subject.kind == Kind::retry && stage_.strikes(Fault::effect_sent_twice);
    for (int i = 0; i < (twice ? 2 : 1); ++i) {
        ++effects.in_flight;
        stage_.after(delay(), [this, &subject, key, answered, twice] { arrive(subject, key, answered, twice); });
    }
}

void World::arrive(const Subject& subject, const std::string& key, const Answered& reply, bool twice) {
    Effects& effects = effects_[subject.number];
    --effects.in_flight;
    const auto answer = [&](Reply what) {
        if (stage_.strikes(Fault::effect_reply_lost)) return;
        stage_.after(stage_.between(milliseconds{1}, milliseconds{300}), [reply, what, receipt = effects.receipt] {
            if (auto say = std::exchange(*reply, nullptr)) say(what, receipt);
        });
    };
    // A limiter stands before the provider: it says nothing about what an earlier request came to.
    if (!twice && stage_.chance(0.15)) {
        stage_.trace("provider {}: not now", subject.text());
        return answer(Reply::try_later);
    }
    const Duration remembers =
        subject.policy.dedup_window + subject.policy.lease + subject.policy.effect_deadline + jumped_;
    const bool known =
        subject.kind == Kind::retry && effects.executed > 0 && stage_.now() < effects.first_at + remembers;
    if (known) {
        stage_.count(Tally::deduplicated);
        stage_.trace("provider {}: seen this key", subject.text());
        return answer(Reply::done);
    }
    if (effects.executed == 0 && subject.kind == Kind::refuse && stage_.chance(0.05)) {
        stage_.trace("provider {}: declined", subject.text());
        return answer(Reply::declined);
    }
    ++effects.executed;
    effects.first_at = stage_.now();
    effects.receipt = fmt::format("receipt {} {}", subject.text(), stage_.below(1'000'000'000));
    stage_.count(Tally::effects);
    stage_.trace("provider {}: EFFECT under {}", subject.text(), key);
    if (effects.executed > 1) stage_.violated("effects at most once", "{} happened twice", subject.text());
    answer(Reply::done);
}

}  // namespace semel::sim
