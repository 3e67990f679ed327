#include "effects/journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/json.hpp"
#include "ledger/json_document.hpp"
#include "semel/keys.hpp"

namespace semel::effects {
namespace {

constexpr std::string_view format = "semel.workflow/1";
constexpr std::string_view version_prefix = "version ";

StepKind kind_of(const Doing& doing) {
    return std::holds_alternative<Local>(doing) ? StepKind::local : StepKind::external;
}

using Index = JsonDocument::Index;

/// The members of an object by name.
class Members {
public:
    Members(const JsonDocument& document, Index object) : document_(document), object_(object) {}

    [[nodiscard]] std::optional<Index> find(std::string_view name) const {
        const auto& node = document_.node(object_);
        if (node.kind != JsonDocument::Kind::object) return std::nullopt;
        for (const Index member : document_.members(node))
            if (document_.node(member).text == name) return member + 1;
        return std::nullopt;
    }
    [[nodiscard]] std::optional<std::string> text(std::string_view name) const {
        const auto at = find(name);
        if (!at || document_.node(*at).kind != JsonDocument::Kind::string) return std::nullopt;
        return std::string(document_.node(*at).text);
    }
    template <class Number>
    [[nodiscard]] std::optional<Number> number(std::string_view name) const {
        const auto at = find(name);
        if (!at || document_.node(*at).kind != JsonDocument::Kind::number) return std::nullopt;
        const std::string_view text = document_.node(*at).text;
        Number value{};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
        return value;
    }
    /// Calls each(index) for the elements of an array.
    template <class Each>
    void elements(std::string_view name, Each each) const {
        const auto at = find(name);
        if (!at || document_.node(*at).kind != JsonDocument::Kind::array) return;
        Index element = *at + 1;
        for (Index i = 0; i < document_.node(*at).count; ++i) {
            each(element);
            element = document_.node(element).end;
        }
    }

private:
    const JsonDocument& document_;
    Index object_;
};

std::optional<StepKind> kind_named(const std::optional<std::string>& text) {
    if (text == "local") return StepKind::local;
    if (text == "external") return StepKind::external;
    return std::nullopt;
}

Failure changed(std::string message) { return {Code::invalid, std::move(message)}; }

std::string listed(const std::vector<JournalStep>& steps) {
    std::string text;
    for (const JournalStep& step : steps)
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", step.name, name(step.kind));
    return text;
}

}  // namespace

std::string_view name(StepKind kind) { return kind == StepKind::local ? "local" : "external"; }

std::string to_stored(const Journal& journal) {
    JsonWriter json;
    json.begin_object().member("format", format).member("workflow", journal.workflow);
    json.member("version", journal.version).member("correlation", journal.correlation);
    json.name("steps").begin_array();
    for (const JournalStep& step : journal.steps) {
        json.begin_object().member("name", step.name).member("key", step.key).member("kind", name(step.kind));
        json.member("undo", step.undo ? std::optional(name(*step.undo)) : std::nullopt).end_object();
    }
    json.end_array();
    const auto optional = [](const std::string& text) {
        return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
    };
    json.member("ended", optional(journal.ended)).member("failed_step", optional(journal.failed_step));
    json.member("failed_status", journal.failed_status).name("not_undone").begin_array();
    for (const std::string& step : journal.not_undone) json.value(std::string_view(step));
    json.end_array().end_object();
    return json.text() + "\n" + journal.payload;
}

std::optional<Journal> from_stored(std::string_view text) {
    const auto line = text.find('\n');
    if (line == std::string_view::npos || !text.starts_with('{')) return std::nullopt;
    const auto document = JsonDocument::parse(text.substr(0, line));
    if (!document) return std::nullopt;
    const Members whole(*document, 0);
    const auto workflow = whole.text("workflow");
    const auto version = whole.number<std::uint32_t>("version");
    if (whole.text("format") != format || !workflow || !version) return std::nullopt;
    Journal journal{.workflow = *workflow,
                    .version = *version,
                    .correlation = whole.text("correlation").value_or(""),
                    .steps = {},
                    .ended = whole.text("ended").value_or(""),
                    .failed_step = whole.text("failed_step").value_or(""),
                    .failed_status = whole.number<std::int32_t>("failed_status").value_or(0),
                    .not_undone = {},
                    .payload = std::string(text.substr(line + 1))};
    bool readable = true;
    whole.elements("steps", [&](Index element) {
        const Members step(*document, element);
        const auto name = step.text("name");
        const auto key = step.text("key");
        const auto kind = kind_named(step.text("kind"));
        readable = readable && name && key && kind;
        if (readable) journal.steps.push_back({*name, *key, *kind, kind_named(step.text("undo"))});
    });
    whole.elements("not_undone", [&](Index element) { journal.not_undone.emplace_back(document->node(element).text); });
    if (!readable || journal.steps.empty()) return std::nullopt;
    return journal;
}

std::optional<Journal> journal_of(const std::vector<Checkpoint>& checkpoints) {
    std::optional<Journal> latest;
    std::string input;
    for (const Checkpoint& checkpoint : checkpoints) {
        const bool start = checkpoint.name == start_checkpoint;
        if (!start && !checkpoint.name.starts_with(version_prefix)) continue;
        auto journal = from_stored(checkpoint.value);
        if (!journal) return std::nullopt;
        if (start) input = journal->payload;
        latest = std::move(journal);
    }
    if (latest) latest->payload = std::move(input);
    return latest;
}

std::optional<Journal> journal_of(const Record& record) {
    if (!is_workflow(record)) return std::nullopt;
    if (record.state != State::settled) return journal_of(record.checkpoints);
    return from_stored(record.outcome.body);
}

std::string version_checkpoint(std::uint32_t version) { return fmt::format("{}{}", version_prefix, version); }
std::string begun_checkpoint(std::string_view key) { return fmt::format("begun {}", key); }
std::string undo_key(std::string_view key) { return fmt::format("undo {}", key); }

Result<Operation> step_operation(const Operation& workflow, std::string_view key) {
    return Intent{.parent = workflow, .step = std::string(key)}.operation();
}

Journal fresh_journal(const Definition& definition) {
    Journal journal{.workflow = definition.name, .version = definition.version};
    for (const Step& step : definition.steps) {
        std::optional<StepKind> undo;
        if (step.compensation) undo = kind_of(*step.compensation);
        journal.steps.push_back({step.name, step.name, kind_of(step.run), undo});
    }
    return journal;
}

Result<Journal> adopt(const Definition& definition, const Journal& stored) {
    Journal mine = fresh_journal(definition);
    mine.correlation = stored.correlation;
    mine.payload = stored.payload;
    if (stored.workflow != definition.name)
        return changed(fmt::format("it was begun as workflow {}, not {}", stored.workflow, definition.name));
    if (stored.version == definition.version) {
        const auto same = [](const JournalStep& one, const JournalStep& other) {
            return one.name == other.name && one.kind == other.kind && one.undo == other.undo;
        };
        if (!std::ranges::equal(stored.steps, mine.steps, same))
            return changed(fmt::format(
                "workflow {} version {} has other steps than it was begun with. Then: {}. Now: {}. Give the changed "
                "definition a new version, and say in `continues` how runs of version {} go on",
                definition.name, definition.version, listed(stored.steps), listed(mine.steps), definition.version));
        mine.steps = stored.steps;
        return mine;
    }
    const auto continues = std::ranges::find(definition.continues, stored.version, &Continues::version);
    if (continues == definition.continues.end())
        return changed(
            fmt::format("it was begun with version {} of workflow {}, and version {} does not say in `continues` "
                        "how to go on with that",
                        stored.version, definition.name, definition.version));
    for (JournalStep& step : mine.steps) step.key.clear();
    for (const JournalStep& old : stored.steps) {
        if (continues->dropped.contains(old.name)) continue;
        const auto renamed = continues->renamed.find(old.name);
        const std::string& now = renamed == continues->renamed.end() ? old.name : renamed->second;
        const auto found = std::ranges::find(mine.steps, now, &JournalStep::name);
        if (found == mine.steps.end())
            return changed(
                fmt::format("version {} of workflow {} had a step {}, which version {} neither has nor names in "
                            "`renamed` or `dropped` of what it continues",
                            stored.version, definition.name, old.name, definition.version));
        if (found->kind != old.kind)
            return changed(fmt::format(
                "step {} was {} in version {} of workflow {} and is {} in version {}: give it another "
                "name and drop the old one",
                now, name(old.kind), stored.version, definition.name, name(found->kind), definition.version));
        if (!found->key.empty())
            return changed(
                fmt::format("two steps of version {} of workflow {} become step {} in version {}: name each in "
                            "`renamed` or `dropped`",
                            stored.version, definition.name, now, definition.version));
        found->key = old.key;
    }
    // Not the name alone: a step that an even older version had, and that was dropped, may have been called the same.
    for (JournalStep& step : mine.steps)
        if (step.key.empty()) step.key = fmt::format("{} v{}", step.name, definition.version);
    return mine;
}

}  // namespace semel::effects
