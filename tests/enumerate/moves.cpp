#include "moves.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace semel::enumerate {
namespace {

Moment moment_in(const World& world) { return {now, fresh_token(world), epoch_now}; }

// ---- what may arrive -------------------------------------------------------------------------------------------

Claim claim_of(const World& world, std::uint8_t attempt, Policy policy) {
    return {.operation = operation(),
            .fingerprint = fingerprints[0],
            .attempt = attempt_of(attempt),
            .policy = policy,
            .key_time = key_time(world),
            .correlation = "walk",
            .request = world.record ? requests[1] : "",
            .not_after = now};
}

/// What the first claim may bring: something where the policy may have it asked again, or nothing.
std::vector<std::string> first_requests(const Policy& policy) {
    if (policy.on_unknown == OnUnknown::retry) return {"", requests[0]};
    return {""};
}

/// The policies a claim may bring: any that could be the first; later, the operation's own and one that differs in all.
std::vector<Policy> policies(const World& world) {
    if (!world.record) {
        std::vector<Policy> all;
        for (const auto each : {OnUnknown::refuse, OnUnknown::retry, OnUnknown::resume, OnUnknown::joined})
            all.push_back(policy_of(each, *world.setting));
        return all;
    }
    const Policy own = world.record->policy;
    Policy other =
        policy_of(own.on_unknown == OnUnknown::resume ? OnUnknown::refuse : OnUnknown::resume, *world.setting);
    other.lease *= 2;
    return {own, other};
}

void add_claims(std::vector<Move>& moves, const World& world, std::uint8_t attempt) {
    for (const Policy& policy : policies(world)) {
        for (const bool in_transaction : {false, true}) {
            for (const TimePoint not_after : {now, now - tick}) {
                Claim claim = claim_of(world, attempt, policy);
                claim.in_transaction = in_transaction;
                claim.not_after = not_after;
                if (world.record) {
                    moves.emplace_back(Arrive{claim});
                    continue;
                }
                for (const std::string& request : first_requests(policy)) {
                    claim.request = request;
                    moves.emplace_back(Arrive{claim});
                }
            }
        }
    }
    if (!world.record) return;
    for (const std::size_t other : {1, 2}) {
        Claim claim = claim_of(world, attempt, world.record->policy);
        claim.fingerprint = fingerprints[other];
        moves.emplace_back(Arrive{claim});
    }
}

struct MaySend {
    bool settle = true;
    bool release = true;
};

/// A holder that began never releases, one that did not never settles; of a superseded one anything is expected.
MaySend may_send(const World& world, std::size_t grant) {
    const bool open = world.record && world.record->state != State::settled;
    if (grant > 0 || !open) return {};
    const Stage stage = world.outside.grants[grant].stage;
    const bool began = stage == Stage::performing || stage == Stage::finished;
    return {.settle = began, .release = !began};
}

void add_holder_commands(std::vector<Move>& moves, const Holder& holder, MaySend may) {
    const auto add = [&](Command command) { moves.emplace_back(Arrive{std::move(command)}); };
    add(Renew{holder});
    for (const std::size_t value : {0, 1}) add(SaveCheckpoint{holder, checkpoint(value)});
    add(Abandon{holder});
    if (may.release) add(Release{holder});
    if (!may.settle) return;
    for (const Outcome& outcome : {paid, declined, not_kept}) add(Settle{holder, outcome});
    add(Settle{holder, declined, false});
}

void add_resolves(std::vector<Move>& moves, Token token_seen) {
    const auto add = [&](std::optional<Outcome> outcome) {
        moves.emplace_back(Arrive{Resolve{operation_id(), token_seen, std::move(outcome), "ops", "asked the bank"}});
    };
    add(paid);
    add(declined);
    add(std::nullopt);
}

// ---- what the holders make of it -------------------------------------------------------------------------------

void stop(Grant& grant) {
    if (grant.stage == Stage::waiting) grant.stage = Stage::withdrawn;
    if (grant.stage == Stage::performing) grant.stage = Stage::finished;
    grant.lease = 0;
}

void hear_claimed(Step& step, const Claim& claim, const Claimed& answer) {
    Outside& outside = step.after.outside;
    if (!is_grant(step)) return;  // the same answer again: nothing new to its holder
    std::shift_right(outside.grants.begin(), outside.grants.end(), 1);
    outside.granted = static_cast<std::uint8_t>(std::min<std::size_t>(outside.granted + 1u, Outside::grants_max));
    outside.grants[0] = {.attempt = claim.attempt.bytes[0],
                         .stage = claim.in_transaction ? Stage::performing : Stage::waiting,
                         .lease = static_cast<std::uint8_t>(ticks_until(answer.lease_until))};
    // Its transaction is over when the ledger has answered.
    if (claim.in_transaction) stop(outside.grants[0]);
}

void hear_holder_answer(Step& step, const Command& command) {
    Outside& outside = step.after.outside;
    const Holder& holder = *holder_of(command);
    Grant& newest = outside.grants[0];
    if (outside.granted == 0 || holder.token != token_of(0) || holder.attempt != attempt_of(newest.attempt)) return;
    const bool goes_on = std::holds_alternative<Renew>(command) || std::holds_alternative<SaveCheckpoint>(command);
    if (!goes_on) return stop(newest);
    const Ok* ok = std::get_if<Ok>(&step.decision.answer);
    if (!ok) return;
    newest.used = true;
    const bool acts = newest.stage == Stage::waiting || newest.stage == Stage::performing;
    if (acts && ok->state == State::running && std::holds_alternative<Renew>(command))
        newest.lease = static_cast<std::uint8_t>(std::max(ticks_until(ok->lease_until), 0));
}

void arrive(Step& step, const Command& command) {
    step.decision = decide(step.before.record, command, moment_in(step.before));
    step.after.record = step.decision.next;
    const Claim* claim = std::get_if<Claim>(&command);
    const Claimed* answer = std::get_if<Claimed>(&step.decision.answer);
    if (claim && answer) hear_claimed(step, *claim, *answer);
    if (holder_of(command)) hear_holder_answer(step, command);
}

void restart(Step& step, const Restart& move) {
    step.decision = expire_owner(step.before.record, move.again ? epoch_before : epoch_now, now);
    step.after.record = step.decision.next;
    if (!move.again) std::ranges::for_each(step.after.outside.grants, stop);
}

void pass_time(World& world) {
    Outside& outside = world.outside;
    for (Grant& grant : outside.grants) grant.lease = static_cast<std::uint8_t>(std::max(grant.lease - 1, 0));
    const auto& setting = *world.setting;
    if (setting.key_time) outside.age = std::min(outside.age + 1, *setting.key_time + setting.identity.value_or(0));
    if (!world.record) return;
    Record& record = *world.record;
    record.lease_until -= tick;
    record.created -= tick;
    if (record.unknown_since) *record.unknown_since -= tick;
    if (record.settled_at) *record.settled_at -= tick;
    if (record.key_time) record.key_time = key_time(world);
}

// ---- for people ------------------------------------------------------------------------------------------------

std::string text_of_holder(const Holder& holder) {
    return fmt::format(" by token {}, attempt {}", holder.token.value, int{holder.attempt.bytes[0]});
}

std::string text_of_claim(const Claim& claim) {
    std::string line =
        fmt::format("claim by attempt {}, {}", int{claim.attempt.bytes[0]}, name(claim.policy.on_unknown));
    if (claim.in_transaction) line += ", in a transaction";
    if (claim.fingerprint != fingerprints[0]) line += ", another fingerprint";
    if (claim.not_after < now) line += ", after its not_after";
    if (!claim.request.empty()) line += ", request '" + claim.request + "'";
    return line;
}

std::string text_of_command(const Command& command) {
    return std::visit(
        match{[](const Claim& c) { return text_of_claim(c); },
              [](const Renew& c) { return "renew" + text_of_holder(c.holder); },
              [](const SaveCheckpoint& c) {
                  return "checkpoint '" + c.checkpoint.value + "'" + text_of_holder(c.holder);
              },
              [](const Settle& c) {
                  return fmt::format("settle {}{}", c.outcome.status, c.conclusive ? "" : " (inconclusive)") +
                         text_of_holder(c.holder);
              },
              [](const Release& c) { return "release" + text_of_holder(c.holder); },
              [](const Abandon& c) { return "abandon" + text_of_holder(c.holder); },
              [](const Resolve& c) {
                  return fmt::format("resolve token {}: {}", c.token_seen.value,
                                     c.outcome ? fmt::format("it came to {}", c.outcome->status) : "it did not happen");
              }},
        command);
}

}  // namespace

std::vector<Move> moves(const World& world) {
    const Outside& outside = world.outside;
    std::vector<Move> all{PassTime{}, Sweep{}, Restart{}, Restart{.again = true}};
    if (outside.grants[0].live() && outside.grants[0].stage == Stage::waiting) all.emplace_back(Begin{});

    std::uint8_t attempts = 0;
    for (std::size_t i = 0; i < outside.granted; ++i) {
        const Grant& grant = outside.grants[i];
        const Holder holder{operation_id(), token_of(i), attempt_of(grant.attempt)};
        add_holder_commands(all, holder, may_send(world, i));
        if (grant.attempt > attempts) add_claims(all, world, attempts = grant.attempt);
    }
    add_claims(all, world, stranger);
    // A token that was never granted to this attempt: nobody's, and yet it must change nothing (I3).
    add_holder_commands(all, Holder{operation_id(), token_of(0), attempt_of(stranger)}, {});

    for (const std::size_t seen : {0, 1}) add_resolves(all, token_of(seen));
    return all;
}

Step make(const World& before, const Move& move) {
    Step step{before, move, {Ok{}, before.record, false}, before};
    std::visit(match{[&](const Arrive& m) { arrive(step, m.command); },
                     [&](const Begin&) { step.after.outside.grants[0].stage = Stage::performing; },
                     [&](const PassTime&) { pass_time(step.after); },
                     [&](const Sweep&) {
                         step.decision = sweep(before.record, now);
                         step.after.record = step.decision.next;
                     },
                     [&](const Restart& m) { restart(step, m); }},
               move);
    if (begins_effect(step)) step.after.outside.begun = true;
    if (before.setting->key_time && step.after.record && step.after.record->state == State::settled)
        step.after.outside.ended = true;
    return step;
}

Decision repeat(const Step& step) {
    Moment moment = moment_in(step.before);
    if (is_grant(step)) ++moment.fresh.value;
    const auto& record = step.decision.next;
    return std::visit(
        match{[&](const Arrive& m) { return decide(record, m.command, moment); },
              [&](const Begin&) { return step.decision; }, [&](const PassTime&) { return step.decision; },
              [&](const Sweep&) { return sweep(record, now); },
              [&](const Restart& m) { return expire_owner(record, m.again ? epoch_before : epoch_now, now); }},
        step.move);
}

const Holder* holder_of(const Command& command) {
    return std::visit(match{[](const Claim&) -> const Holder* { return nullptr; },
                            [](const Resolve&) -> const Holder* { return nullptr; },
                            [](const auto& c) -> const Holder* { return &c.holder; }},
                      command);
}

bool is_grant(const Step& step) {
    const Claimed* answer = std::get_if<Claimed>(&step.decision.answer);
    if (!answer) return false;
    return !step.before.record || step.decision.next != step.before.record;
}

bool begins_effect(const Step& step) {
    if (std::holds_alternative<Begin>(step.move)) return true;
    const Arrive* arrived = std::get_if<Arrive>(&step.move);
    const Claim* claim = arrived ? std::get_if<Claim>(&arrived->command) : nullptr;
    return claim && claim->in_transaction && is_grant(step);
}

std::string text(const Move& move) {
    return std::visit(
        match{[](const Arrive& m) { return text_of_command(m.command); },
              [](const Begin&) { return std::string{"the holder begins its effect"}; },
              [](const PassTime&) { return std::string{"a tick passes"}; },
              [](const Sweep&) { return std::string{"sweep"}; },
              [](const Restart& m) { return std::string{m.again ? "the restart before, again" : "restart"}; }},
        move);
}

std::string text(const Answer& answer) {
    return std::visit(
        match{[](const Claimed& a) {
                  return fmt::format("Claimed token {}{}{}", a.token.value, a.doubt ? " in doubt" : "",
                                     a.request.empty() ? "" : ", request '" + a.request + "'");
              },
              [](const Replay& a) { return fmt::format("Replay {}", a.outcome.status); },
              [](const Busy& a) { return fmt::format("Busy for {} ticks", a.retry_after / tick); },
              [](const Mismatch&) { return std::string{"Mismatch"}; },
              [](const Unknown& a) { return fmt::format("Unknown since {:+}", ticks_until(a.since)); },
              [](const Expired&) { return std::string{"Expired"}; }, [](const Ok&) { return std::string{"Ok"}; },
              [](const Settled& a) { return fmt::format("Settled {}", a.outcome.status); },
              [](const Fenced&) { return std::string{"Fenced"}; },
              [](const TooEarly& a) { return fmt::format("TooEarly until {:+}", ticks_until(a.not_before)); },
              [](const Late&) { return std::string{"Late"}; }, [](const Withheld&) { return std::string{"Withheld"}; }},
        answer);
}

}  // namespace semel::enumerate
