#include "semel/record.hpp"

#include <algorithm>

#include "semel/ledger.hpp"

namespace semel {

std::string_view name(State state) {
    switch (state) {
        case State::running: return "running";
        case State::unknown: return "unknown";
        case State::settled: return "settled";
    }
    return "?";
}

std::string_view name(OnUnknown policy) {
    switch (policy) {
        case OnUnknown::refuse: return "refuse";
        case OnUnknown::retry: return "retry";
        case OnUnknown::resume: return "resume";
        case OnUnknown::joined: return "joined";
    }
    return "?";
}

std::string_view name(Transition what) {
    switch (what) {
        case Transition::claimed: return "claimed";
        case Transition::taken_over: return "taken over";
        case Transition::lease_lost: return "lease lost";
        case Transition::abandoned: return "abandoned";
        case Transition::owner_died: return "owner died";
        case Transition::settled: return "settled";
        case Transition::resolved: return "resolved";
    }
    return "?";
}

TimePoint expires_at(const Record& record) {
    if (record.state != State::settled || !record.policy.retention.identity) return never;
    const TimePoint from = std::max(*record.settled_at, record.key_time.value_or(*record.settled_at));
    return later(from, *record.policy.retention.identity);
}

std::optional<TimePoint> due_at(const Record& record) {
    switch (record.state) {
        case State::running: return record.lease_until;
        case State::unknown: return never;
        case State::settled: break;
    }
    TimePoint due = expires_at(record);
    const bool holds_answer = record.outcome.kept || record.operation.has_value();
    if (holds_answer && record.policy.retention.response)
        due = std::min(due, later(*record.settled_at, *record.policy.retention.response));
    if (due == never) return std::nullopt;
    return due;
}

OperationId id_of(const Command& command) {
    return std::visit(match{[](const Claim& c) { return c.operation.id(); }, [](const Renew& c) { return c.holder.id; },
                            [](const SaveCheckpoint& c) { return c.holder.id; },
                            [](const Settle& c) { return c.holder.id; }, [](const Release& c) { return c.holder.id; },
                            [](const Abandon& c) { return c.holder.id; }, [](const Resolve& c) { return c.id; }},
                      command);
}

}  // namespace semel
