// What a workflow keeps about itself: the definition it was begun with, its input, and how it ended.
//
// Stored form, of a checkpoint and of the workflow's outcome alike: one line of JSON, then the input or the result as it is.
//
//   {"format":"semel.workflow/1","workflow":"order","version":2,"correlation":"…",
//    "steps":[{"name":"charge","key":"charge","kind":"external","undo":"external"},…],
//    "ended":null | "completed" | "compensated", "failed_step":…, "failed_status":…, "not_undone":[…]}
//
// `key` is the name that the step's operation is derived from: the step's own, or what an older version called it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "semel/workflow.hpp"

namespace semel::effects {

enum class StepKind : std::uint8_t { local, external };
std::string_view name(StepKind kind);

struct JournalStep {
    std::string name{};
    std::string key{};
    StepKind kind = StepKind::local;
    std::optional<StepKind> undo{};
    bool operator==(const JournalStep&) const = default;
};

struct Journal {
    std::string workflow{};
    std::uint32_t version = 1;
    std::string correlation{};
    std::vector<JournalStep> steps{};
    std::string ended{};  ///< empty: not yet
    std::string failed_step{};
    std::int32_t failed_status = 0;
    std::vector<std::string> not_undone{};
    std::string payload{};  ///< the input, or the result
    bool operator==(const Journal&) const = default;
};

std::string to_stored(const Journal& journal);
/// Empty: it is not that.
std::optional<Journal> from_stored(std::string_view text);

/// The journal in the checkpoints of an open workflow: the version it was last carried on with, and its input. Empty: it was
/// not started.
std::optional<Journal> journal_of(const std::vector<Checkpoint>& checkpoints);
/// Of an open or a settled workflow, as far as it is still kept; empty for what is none.
std::optional<Journal> journal_of(const Record& record);

/// How workflows are told from other operations that are resumed: nothing of their own outlives their lease.
inline bool is_workflow(const Record& record) {
    return record.policy.on_unknown == OnUnknown::resume && record.policy.effect_deadline == Duration{0};
}

inline constexpr std::string_view start_checkpoint = "start";
std::string version_checkpoint(std::uint32_t version);
std::string begun_checkpoint(std::string_view key);
/// Kept before anything is undone: the step that failed, and what it came to. There is no way forward after it, whichever steps a
/// later version of the definition has.
inline constexpr std::string_view undoing_checkpoint = "undoing";

/// The key of the operation that says that a workflow is not to go on.
inline constexpr std::string_view cancel_key = "cancel";
/// The key of the step that undoes the one with this key.
std::string undo_key(std::string_view key);
/// The operation of a step.
Result<Operation> step_operation(const Operation& workflow, std::string_view key);

/// The definition's steps as a run that began with `stored` has them; or why it cannot be continued.
Result<Journal> adopt(const Definition& definition, const Journal& stored);
/// As a run has them that begins now.
Journal fresh_journal(const Definition& definition);

}  // namespace semel::effects
