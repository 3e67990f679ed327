#include "cli/show_story.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "cli/show_record.hpp"
#include "cli/table.hpp"

namespace semel::cli {
namespace {

std::string state_of(const effects::StoryStep& step, TimePoint now) {
    if (!step.record) return "-";
    if (lease_is_over(*step.record, now)) return "running, lease over";
    return std::string(name(step.record->state));
}

bool settled(const effects::StoryStep& step) { return step.record && step.record->state == State::settled; }

std::string summary(const effects::Story& story, const Record& record, TimePoint now) {
    std::string text =
        fmt::format("{} version {}: {}", story.journal.workflow, story.journal.version, status_of(story, record, now));
    if (!story.journal.failed_step.empty())
        text += fmt::format(", since {} failed with status {}", story.journal.failed_step, story.journal.failed_status);
    for (const std::string& step : story.journal.not_undone) text += fmt::format("; {} could not be undone", step);
    return text;
}

std::string what_happened(const effects::StoryEvent& event) {
    std::string text = fmt::format("{}, token {}", name(event.what), event.token.value);
    if (event.status) text += fmt::format(", status {}", *event.status);
    if (!event.by.empty()) text += fmt::format(", by {}", event.by);
    return text;
}

}  // namespace

std::string story_detail(const effects::Story& story, const Record& record, TimePoint now, const std::string& store) {
    std::string text = fmt::format("\nworkflow     {}\n\n", printable(summary(story, record, now)));
    using enum Table::Align;
    Table steps({{"STEP"}, {"KIND"}, {"STATE"}, {"TRIES", right}, {"STATUS", right}, {"SETTLED"}, {"KEY"}});
    for (const effects::StoryStep& step : story.steps)
        steps.add({printable(step.name), std::string(name(step.kind)), state_of(step, now),
                   step.record ? std::to_string(step.record->tries) : "-",
                   settled(step) ? std::to_string(step.record->outcome.status) : "-",
                   settled(step) ? to_text(*step.record->settled_at) : "-", step.operation.key.text()});
    text += steps.text() + "\n";
    Table events({{"TIME"}, {"STEP"}, {"WHAT"}});
    for (const effects::StoryEvent& event : story.events)
        events.add(
            {to_text(event.at), event.step.empty() ? "(workflow)" : printable(event.step), what_happened(event)});
    text += events.text();
    const auto waits = std::ranges::find(story.steps, story.parked_at, &effects::StoryStep::name);
    if (record.state != State::settled && waits != story.steps.end())
        text += fmt::format(
            "\n{}: nobody knows what became of it; the workflow goes on when that is resolved:\n"
            "semel ops show --store {} {} {}\n",
            printable(waits->name), shell_word(store), shell_word(waits->operation.scope.text()),
            shell_word(waits->operation.key.text()));
    return text;
}

void write_story(JsonWriter& json, const effects::Story& story, const Record& record, TimePoint now) {
    const auto text = [](const std::string& value) {
        return value.empty() ? std::nullopt : std::optional<std::string_view>(value);
    };
    json.begin_object().member("name", story.journal.workflow).member("version", story.journal.version);
    json.member("status", status_of(story, record, now)).member("parked_at", text(story.parked_at));
    json.member("failed_step", text(story.journal.failed_step));
    json.name("not_undone").begin_array();
    for (const std::string& step : story.journal.not_undone) json.value(std::string_view(step));
    json.end_array().name("steps").begin_array();
    for (const effects::StoryStep& step : story.steps) {
        json.begin_object().member("name", step.name).member("kind", name(step.kind));
        json.member("scope", step.operation.scope.text()).member("key", step.operation.key.text());
        json.name("operation");
        if (step.record)
            write_record(json, *step.record, now);
        else
            json.null();
        json.end_object();
    }
    json.end_array().name("timeline").begin_array();
    for (const effects::StoryEvent& event : story.events) {
        json.begin_object().member("at", to_text(event.at)).member("step", text(event.step));
        json.member("what", name(event.what)).member("token", event.token.value).member("status", event.status);
        json.member("by", text(event.by)).end_object();
    }
    json.end_array().end_object();
}

}  // namespace semel::cli
