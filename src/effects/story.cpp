#include "effects/story.hpp"

#include <algorithm>

#include "ledger/record_json.hpp"

namespace semel::effects {
namespace {

void add_events(Story& story, const std::string& step, const Record& record) {
    for (const HistoryEntry& entry : record.history) {
        StoryEvent event{.at = entry.at, .step = step, .what = entry.what, .token = entry.token};
        if (entry.what == Transition::settled) event.status = record.outcome.status;
        if (entry.what == Transition::resolved) event.by = record.resolved_by;
        story.events.push_back(std::move(event));
    }
    // A step in a transaction of its own has its whole history in one moment.
    if (record.history.empty() && record.settled_at)
        story.events.push_back(
            {*record.settled_at, step, Transition::settled, record.token, record.outcome.status, ""});
}

Status add_step(Store& store, Story& story, const Operation& workflow, const std::string& name, const std::string& key,
                StepKind kind, bool only_if_begun) {
    auto operation = step_operation(workflow, key);
    if (!operation) return operation.failure();
    auto record = store.find(operation->id());
    if (!record) return record.failure();
    if (only_if_begun && !*record) return semel::Done{};
    if (*record) {
        add_events(story, name, **record);
        if ((*record)->state == State::unknown) story.parked_at = name;
    }
    story.steps.push_back({name, kind, std::move(*operation), std::move(*record)});
    return semel::Done{};
}

}  // namespace

Result<std::optional<Story>> read_story(Store& store, const Record& record) {
    auto journal = journal_of(record);
    if (!journal || !record.operation) return std::optional<Story>{};
    Story story{.journal = std::move(*journal)};
    add_events(story, "", record);
    for (const JournalStep& step : story.journal.steps)
        if (auto added = add_step(store, story, *record.operation, step.name, step.key, step.kind, false); !added)
            return added.failure();
    if (auto added = add_step(store, story, *record.operation, std::string(cancel_key), std::string(cancel_key),
                              StepKind::local, true);
        !added)
        return added.failure();
    const auto& steps = story.journal.steps;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
        if (step->undo) {
            auto added =
                add_step(store, story, *record.operation, undo_key(step->name), undo_key(step->key), *step->undo, true);
            if (!added) return added.failure();
        }
    std::ranges::stable_sort(story.events, {}, &StoryEvent::at);
    return std::optional(std::move(story));
}

std::string_view status_of(const Story& story, const Record& record, TimePoint now) {
    if (record.state == State::settled)
        return story.journal.ended.empty() ? "settled" : std::string_view(story.journal.ended);
    if (record.state == State::running && !lease_is_over(record, now)) return "running";
    return story.parked_at.empty() ? "waiting" : "parked";
}

}  // namespace semel::effects
