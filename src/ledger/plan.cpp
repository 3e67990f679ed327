#include "ledger/plan.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"

namespace semel {
namespace {

struct Step {
    Answer answer;
    std::optional<Write> write;
};

/// One command on what was found. Tokens are taken only by grants.
Result<Step> step(const Command& command, const OperationId& id, std::size_t index, Found found, const PlanInput& input,
                  std::uint64_t& tokens_used) {
    if (auto* failure = std::get_if<Failure>(&found)) return std::move(*failure);
    if (std::holds_alternative<Locked>(found)) {
        if (std::holds_alternative<Claim>(command)) return Step{Busy{locked_retry_after}, std::nullopt};
        return Failure{Code::contended, "the row is locked by another transaction"};
    }
    auto& record = std::get<std::optional<Record>>(found);
    const bool existed = record.has_value();
    if (const auto* save = std::get_if<SaveCheckpoint>(&command); save != nullptr && existed) {
        const auto same = [&](const Checkpoint& c) { return c.name == save->checkpoint.name; };
        if (record->checkpoints.size() >= Record::checkpoints_max && std::ranges::none_of(record->checkpoints, same))
            return Failure{Code::exhausted, "an operation has at most 256 checkpoints (checkpoints_max)"};
    }
    const Token fresh{input.first_token.value + tokens_used};
    Decision decision = decide(std::move(record), command, {input.now, fresh, input.owner});
    if (!decision.changed) return Step{std::move(decision.answer), std::nullopt};
    if (const auto* claimed = std::get_if<Claimed>(&decision.answer)) {
        if (input.refuse_claims) return *input.refuse_claims;
        SEMEL_ASSERT(claimed->token == fresh, "a grant uses the fresh token");
        ++tokens_used;
    }
    return Step{std::move(decision.answer), Write{index, id, std::move(decision.next), existed}};
}

}  // namespace

Plan plan(std::span<const Group> groups, std::vector<Found> found, const PlanInput& input) {
    Plan result;
    result.answers.reserve(groups.size());
    result.writes.reserve(found.size());
    std::size_t index = 0;
    for (const Group& group : groups) {
        std::vector<Answer> answers;
        answers.reserve(group.commands.size());
        const std::size_t writes_before = result.writes.size();
        std::optional<Failure> failed;
        bool all_stand = true;
        for (std::size_t i = 0; i < group.commands.size(); ++i) {
            const std::size_t at = index++;
            if (failed) continue;
            auto taken = step(group.commands[i], group.id(i), at, std::move(found[at]), input, result.tokens_used);
            if (!taken) {
                failed = taken.failure();
                continue;
            }
            all_stand = all_stand && stands(taken->answer);
            answers.push_back(std::move(taken->answer));
            if (taken->write) result.writes.push_back(std::move(*taken->write));
        }
        const bool lone = group.commands.size() == 1;
        if (failed || (!all_stand && !lone)) result.writes.resize(writes_before);
        if (failed) {
            result.answers.emplace_back(std::move(*failed));
            continue;
        }
        if (!all_stand && !lone) {
            for (Answer& answer : answers)
                if (stands(answer)) answer = Withheld{};
        }
        result.answers.emplace_back(std::move(answers));
    }
    return result;
}

std::uint64_t tokens_needed(std::span<const Group> groups) {
    std::uint64_t count = 0;
    for (const Group& group : groups)
        for (const Command& command : group.commands)
            if (std::holds_alternative<Claim>(command)) ++count;
    return count;
}

}  // namespace semel
