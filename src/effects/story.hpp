// What became of a workflow: its steps, their operations, and everything that happened to them in the order of time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "effects/journal.hpp"
#include "semel/store.hpp"

namespace semel::effects {

struct StoryStep {
    std::string name{};  ///< of a compensation: `undo` and the step's
    StepKind kind = StepKind::local;
    Operation operation;
    std::optional<Record> record{};  ///< empty: not begun, or released, or forgotten
};

struct StoryEvent {
    TimePoint at{};
    std::string step{};  ///< empty: the workflow itself
    Transition what{};
    Token token{};
    std::optional<std::int32_t> status{};  ///< of `settled`
    std::string by{};                      ///< of `resolved`
};

struct Story {
    Journal journal{};
    std::vector<StoryStep> steps{};  ///< in their order; compensations follow, in theirs, as far as they began
    std::vector<StoryEvent> events{};
    std::string parked_at{};  ///< the step that nobody knows the outcome of
};

/// Empty: the record is no workflow's, or what it keeps about itself was dropped with its answer.
Result<std::optional<Story>> read_story(Store& store, const Record& record);

/// One word: completed, compensated, parked (a step is unknown), running, or waiting (for a completer or the next run).
std::string_view status_of(const Story& story, const Record& record, TimePoint now);

}  // namespace semel::effects
