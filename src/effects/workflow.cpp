// The public face of workflows: checks a definition once, claims runs, and judges what others have left.
#include "semel/workflow.hpp"

#include <fmt/format.h>

#include "effects/run.hpp"
#include "ledger/record_json.hpp"
#include "semel/fingerprint.hpp"
#include "semel/store.hpp"

namespace semel::effects {
namespace {

constexpr std::size_t name_bytes_max = 80;
constexpr std::size_t why_bytes_max = 4096;
constexpr std::size_t steps_max = 100;  // each may leave two checkpoints, of at most Record::checkpoints_max
constexpr std::size_t input_bytes_max = 768U << 10;

Failure invalid(std::string message) { return {Code::invalid, std::move(message)}; }

Status check_name(std::string_view what, const std::string& name) {
    if (!name.empty() && name.size() <= name_bytes_max && Scope::make("", name)) return semel::Done{};
    return invalid(
        fmt::format("{} `{}`: a name has 1 to {} printable ASCII characters without '#'", what, name, name_bytes_max));
}

Status check_doing(const std::string& where, const Doing& doing, const WorkflowOptions& options) {
    const auto about = [&](const Status& fine) -> Status {
        if (fine) return semel::Done{};
        return invalid(fmt::format("{}: {}", where, fine.failure().message));
    };
    if (const auto* local = std::get_if<Local>(&doing)) {
        if (!local->run) return invalid(where + ": a local step needs a function to run");
        if (!options.inbox)
            return invalid(where + ": a local step writes in the database: give WorkflowOptions::inbox");
        return semel::Done{};
    }
    const auto& external = std::get<External>(doing);
    if (!external.call) return invalid(where + ": an external step needs a call");
    if (auto fine = about(check(external.provider)); !fine) return fine;
    if (auto fine = about(check(external.limits)); !fine) return fine;
    if (external.provider.repeating == Repeating::after_lookup && !external.lookup)
        return invalid(fmt::format("{}: provider {} is repeated after a lookup, and there is none", where,
                                   external.provider.name));
    return semel::Done{};
}

Status check_definition(const Definition& definition, const WorkflowOptions& options) {
    if (auto fine = check_name("workflow", definition.name); !fine) return fine;
    const auto where = [&](const Step& step) {
        return fmt::format("workflow {}, step {}", definition.name, step.name);
    };
    if (definition.steps.empty() || definition.steps.size() > steps_max)
        return invalid(fmt::format("workflow {}: has 1 to {} steps", definition.name, steps_max));
    std::set<std::string> names;
    for (const Step& step : definition.steps) {
        if (auto fine = check_name(fmt::format("workflow {}: step", definition.name), step.name); !fine) return fine;
        if (step.name.starts_with("undo "))
            return invalid(where(step) + ": names that begin with `undo ` are those of compensations");
        if (step.name == cancel_key)
            return invalid(where(step) + ": that name is kept for the workflow's cancellation");
        if (!names.insert(step.name).second) return invalid(where(step) + ": there are two of that name");
        if (auto fine = check_doing(where(step), step.run, options); !fine) return fine;
        if (!step.compensation) continue;
        if (auto fine = check_doing(where(step) + ", its compensation", *step.compensation, options); !fine)
            return fine;
    }
    std::set<std::uint32_t> versions{definition.version};
    for (const Continues& continues : definition.continues) {
        if (!versions.insert(continues.version).second)
            return invalid(fmt::format("workflow {}: `continues` names version {} twice, or its own", definition.name,
                                       continues.version));
        for (const auto& [from, to] : continues.renamed)
            if (!names.contains(to))
                return invalid(fmt::format("workflow {}: `continues` of version {} renames {} to {}, which is no step",
                                           definition.name, continues.version, from, to));
    }
    return check(options.limits);
}

}  // namespace

class Workflow::Engine {
public:
    Engine(Definition definition, WorkflowOptions options, Committer& committer)
        : definition_(std::move(definition)),
          options_(std::move(options)),
          keeper_(std::make_unique<LeaseKeeper>(committer)),
          inboxes_(options_.inbox),
          shop_{definition_, options_, {committer, *keeper_, system_pace()}, inboxes_} {}
    Engine(Definition definition, WorkflowOptions options, const Surroundings& world)
        : definition_(std::move(definition)),
          options_(std::move(options)),
          inboxes_(options_.inbox),
          shop_{definition_, options_, world, inboxes_} {}

    [[nodiscard]] const Definition& definition() const { return definition_; }
    [[nodiscard]] const WorkflowOptions& options() const { return options_; }
    [[nodiscard]] Store& store() { return shop_.world.ledger.store(); }
    [[nodiscard]] const Surroundings& world() const { return shop_.world; }

    [[nodiscard]] Policy policy() const {
        // Nothing of the workflow's own outlives its lease: each step checks that it is held.
        return {.on_unknown = OnUnknown::resume,
                .dedup_window = Duration{0},
                .lease = options_.lease,
                .effect_deadline = Duration{0},
                .retention = options_.retention};
    }

    Result<WorkflowAnswer> claim_and_run(const Operation& operation, const Fingerprint& fingerprint,
                                         const std::string& input, const std::string& correlation,
                                         const std::stop_token& stop) {
        const auto sent = shop_.world.pace.now();
        const auto answer = shop_.world.ledger.claim({.operation = operation,
                                                      .fingerprint = fingerprint,
                                                      .attempt = {},
                                                      .policy = policy(),
                                                      .key_time = std::nullopt,
                                                      .correlation = correlation});
        if (!answer) return answer.failure();
        using R = Result<WorkflowAnswer>;
        return std::visit(
            match{[&](const Claimed& claimed) -> R {
                      if (options_.at) options_.at("claimed");
                      const auto terms = terms_of(shop_.world.ledger.store(), operation.id(), claimed, policy());
                      if (!terms) {
                          (void)shop_.world.ledger.abandon({operation.id(), claimed.token, claimed.attempt});
                          return terms.failure();
                      }
                      return effects::run(shop_, {operation, claimed, input, correlation, sent, terms->lease}, stop);
                  },
                  [&](const Replay& replay) -> R { return ended(replay.outcome, true); },
                  [&](const Busy& busy) -> R { return WorkflowAnswer{busy}; },
                  [&](const Mismatch& mismatch) -> R { return WorkflowAnswer{mismatch}; },
                  [&](const Unknown& unknown) -> R {
                      return WorkflowAnswer{Parked{"", unknown.since,
                                                   "its operation was first claimed by something that is no workflow"}};
                  },
                  [&](const Expired&) -> R {
                      return invalid("its key is older than the retention: it may have been run");
                  }},
            *answer);
    }

private:
    Definition definition_;
    WorkflowOptions options_;
    std::unique_ptr<LeaseKeeper> keeper_;  // the machine's; empty in other surroundings
    InboxPool inboxes_;
    Workshop shop_;
};

Workflow::Workflow(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
Workflow::~Workflow() = default;
const Definition& Workflow::definition() const { return engine_->definition(); }
const WorkflowOptions& Workflow::options() const { return engine_->options(); }

Result<std::unique_ptr<Workflow>> Workflow::make(Definition definition, WorkflowOptions options, Committer& committer) {
    if (auto fine = check_definition(definition, options); !fine) return fine.failure();
    return std::unique_ptr<Workflow>(
        new Workflow(std::make_unique<Engine>(std::move(definition), std::move(options), committer)));
}

Result<std::unique_ptr<Workflow>> Workflow::make(Definition definition, WorkflowOptions options,
                                                 const Surroundings& world) {
    if (auto fine = check_definition(definition, options); !fine) return fine.failure();
    return std::unique_ptr<Workflow>(
        new Workflow(std::make_unique<Engine>(std::move(definition), std::move(options), world)));
}

Result<WorkflowAnswer> Workflow::run(const Start& start, const std::stop_token& stop) {
    if (start.input.size() > input_bytes_max)
        return invalid(
            fmt::format("workflow {} {}: the input has {} bytes, of at most {}: store it elsewhere and give its name",
                        definition().name, start.key.text(), start.input.size(), input_bytes_max));
    auto scope = Scope::make(start.tenant, definition().name);
    if (!scope) return scope.failure();
    const std::string& correlation = start.correlation.empty() ? start.key.text() : start.correlation;
    return engine_->claim_and_run({std::move(*scope), start.key}, fingerprint_of_bytes(start.input), start.input,
                                  correlation, stop);
}

Result<WorkflowAnswer> Workflow::resume(const Record& record, const std::stop_token& stop) {
    auto journal = journal_of(record);
    if (!journal || !record.operation) return invalid("resume: it was never started, or is no workflow");
    return engine_->claim_and_run(*record.operation, record.fingerprint, journal->payload, record.correlation, stop);
}

Result<std::optional<WorkflowAnswer>> Workflow::cancel(const std::string& tenant, const Key& key,
                                                       const std::string& why) {
    auto scope = Scope::make(tenant, definition().name);
    if (!scope) return scope.failure();
    const Operation operation{std::move(*scope), key};
    if (why.size() > why_bytes_max)
        return invalid(fmt::format("workflow {} {}: why it is cancelled has {} bytes, of at most {}", definition().name,
                                   key.text(), why.size(), why_bytes_max));
    std::string correlation = key.text();
    const auto end = [&]() -> Result<std::optional<WorkflowAnswer>> {
        auto record = engine_->store().find(operation.id());
        if (!record) return record.failure();
        if (*record) correlation = (*record)->correlation;
        if (!*record || (*record)->state != State::settled) return std::optional<WorkflowAnswer>{};
        return std::optional(ended((*record)->outcome, true));
    };
    if (auto before = end(); !before || *before) return before;
    const auto kept = effects::cancel(engine_->world(), options(), operation, correlation,
                                      {workflow_status::cancelled, "cancelled: " + why, true});
    if (!kept) return kept.failure();
    return end();
}

std::optional<std::string> Workflow::refused(const Record& record) const {
    const auto journal = journal_of(record);
    if (!journal) return std::string(unreadable);
    const auto adopted = adopt(definition(), *journal);
    if (adopted) return std::nullopt;
    return adopted.failure().message;
}

Result<std::optional<std::string>> Workflow::parked_at(const Record& record) {
    const auto journal = journal_of(record);
    if (!journal || !record.operation) return std::optional<std::string>{};
    auto& store = engine_->store();
    const auto now = store.now();
    if (!now) return now.failure();
    const auto adopted = adopt(definition(), *journal);
    if (!adopted) return std::optional<std::string>{};
    const auto blocks = [&](const std::string& key, const Doing& doing) -> Result<bool> {
        const auto* external = std::get_if<External>(&doing);
        if (external == nullptr || external->lookup) return false;
        const auto operation = step_operation(*record.operation, key);
        if (!operation) return operation.failure();
        auto step = store.find(operation->id());
        if (!step) return step.failure();
        if (!*step || (*step)->state == State::settled) return false;
        const Policy& policy = (*step)->policy;
        const bool repeatable =
            policy.on_unknown == OnUnknown::retry && *now < later((*step)->created, policy.dedup_window);
        // One whose lease is over is not yet called unknown: the next run's claim does that, for everybody to see.
        return !repeatable && (*step)->state == State::unknown;
    };
    for (std::size_t i = 0; i < adopted->steps.size(); ++i) {
        const Step& step = definition().steps[i];
        auto blocked = blocks(adopted->steps[i].key, step.run);
        if (blocked && !*blocked && step.compensation) {
            blocked = blocks(undo_key(adopted->steps[i].key), *step.compensation);
        }
        if (!blocked) return blocked.failure();
        if (*blocked) return std::optional(step.name);
    }
    return std::optional<std::string>{};
}

}  // namespace semel::effects
