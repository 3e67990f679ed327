#include "effects/run.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "async/local_step.hpp"
#include "base/retry.hpp"
#include "ledger/mutation.hpp"
#include "semel/fingerprint.hpp"
#include "semel/store.hpp"

namespace semel::effects {
namespace {

constexpr Duration settle_patience = std::chrono::minutes{1};
/// How often a step is asked again that somebody else has taken over while the workflow is still ours.
constexpr int superseded_max = 5;

/// The run ends here, with this answer.
struct Ends {
    Result<WorkflowAnswer> answer;
};
/// What a step came to, or the end of the run.
using StepAnswer = std::variant<Outcome, Ends>;

class Running final : public Context {
public:
    Running(const Workshop& workshop, const RunOf& what, const std::stop_token& stop)
        : shop_(workshop),
          what_(what),
          stop_(stop),
          holder_{what.operation.id(), what.claimed.token, what.claimed.attempt},
          kept_(workshop.world.leases, holder_, what.lease, what.sent) {}

    [[nodiscard]] const Operation& operation() const override { return what_.operation; }
    [[nodiscard]] const std::string& input() const override { return what_.input; }
    [[nodiscard]] const std::string& correlation() const override { return what_.correlation; }
    [[nodiscard]] std::uint32_t tries() const override { return what_.claimed.tries; }
    [[nodiscard]] const std::string& result(std::string_view step) const override {
        const auto found = results_.find(step);
        if (found == results_.end()) throw std::out_of_range(fmt::format("step {} has not finished", step));
        if (!found->second.kept)
            throw std::runtime_error(fmt::format("the result of step {} is not kept (any more)", step));
        return found->second.body;
    }

    Result<WorkflowAnswer> run() {
        auto answer = begin();
        if (!answer) answer = undoing_ ? undo() : forward();
        // What has not ended is for whoever comes next, at once. If this is not heard, the lease runs out.
        const bool open = !*answer || std::holds_alternative<Parked>(**answer) ||
                          std::holds_alternative<Unfinished>(**answer) ||
                          std::holds_alternative<DefinitionChanged>(**answer);
        if (open) (void)shop_.world.ledger.abandon(holder_);
        return std::move(*answer);
    }

private:
    void reached(std::string_view point) const {
        if (shop_.options.at) shop_.options.at(point);
    }

    /// Nothing: it may go on.
    std::optional<Result<WorkflowAnswer>> begin() {
        const auto stored = journal_of(what_.claimed.checkpoints);
        if (!stored && !what_.claimed.checkpoints.empty())
            return Result<WorkflowAnswer>{DefinitionChanged{std::string(unreadable)}};
        if (!stored) {
            journal_ = fresh_journal(shop_.definition);
            journal_.correlation = what_.correlation;
            journal_.payload = what_.input;
            return save(std::string(start_checkpoint));
        }
        auto adopted = adopt(shop_.definition, *stored);
        if (!adopted) return Result<WorkflowAnswer>{DefinitionChanged{adopted.failure().message}};
        journal_ = std::move(*adopted);
        for (const Checkpoint& checkpoint : what_.claimed.checkpoints)
            if (checkpoint.name == undoing_checkpoint) undoing_ = from_stored(checkpoint.value);
        if (stored->version == journal_.version) return std::nullopt;
        return save(version_checkpoint(journal_.version));
    }

    std::optional<Result<WorkflowAnswer>> save(std::string name) {
        Journal kept = journal_;
        if (name != start_checkpoint) kept.payload.clear();
        auto saved = keep(std::move(name), kept);
        if (!saved) reached("started");
        return saved;
    }

    /// Nothing: it is kept.
    std::optional<Result<WorkflowAnswer>> keep(std::string name, const Journal& kept) {
        auto saved = shop_.world.ledger.save(holder_, {std::move(name), to_stored(kept)});
        if (!saved) return Result<WorkflowAnswer>{saved.failure()};
        return std::visit(match{[](const Ok&) -> std::optional<Result<WorkflowAnswer>> { return std::nullopt; },
                                [](const Settled& settled) -> std::optional<Result<WorkflowAnswer>> {
                                    return Result<WorkflowAnswer>{ended(settled.outcome, true)};
                                },
                                [](const auto&) -> std::optional<Result<WorkflowAnswer>> {
                                    return Result<WorkflowAnswer>{WorkflowAnswer{Superseded{}}};
                                }},
                          *saved);
    }

    Result<WorkflowAnswer> forward() {
        for (std::size_t i = 0; i < shop_.definition.steps.size(); ++i) {
            const Step& step = shop_.definition.steps[i];
            const auto over = over_before(i);
            if (!over) return WorkflowAnswer{Unfinished{step.name, over.failure().message}};
            if (*over) return compensate(i, **over);
            auto answer = perform(step.name, journal_.steps[i].key, step.run);
            if (auto* ends = std::get_if<Ends>(&answer)) return std::move(ends->answer);
            auto& outcome = std::get<Outcome>(answer);
            if (SEMEL_MUTATION(failure_is_passed, failed(outcome), false)) return compensate(i, outcome);
            results_.insert_or_assign(step.name, std::move(outcome));
        }
        Journal journal = journal_;
        journal.ended = "completed";
        try {
            const Outcome& last = results_.at(shop_.definition.steps.back().name);
            journal.payload = shop_.definition.result ? shop_.definition.result(*this) : last.body;
        } catch (...) {
            return WorkflowAnswer{Unfinished{"result", what_was_thrown()}};
        }
        return settle(std::move(journal), workflow_status::completed);
    }

    // ---- cancellation ------------------------------------------------------------------------------------------

    /// Why this step is not to begin, if so. One that began goes on: what it came to may have to be undone.
    Result<std::optional<Outcome>> over_before(std::size_t i) {
        auto why = cancelled_or_overdue();
        if (!why || !*why) return why;
        const auto operation = step_operation(what_.operation, journal_.steps[i].key);
        if (!operation) return operation.failure();
        const auto record = shop_.world.ledger.store().find(operation->id());
        if (!record) return record.failure();
        if (*record) return std::optional<Outcome>{};
        return why;
    }

    Result<std::optional<Outcome>> cancelled_or_overdue() {
        Store& store = shop_.world.ledger.store();
        const auto operation = step_operation(what_.operation, cancel_key);
        if (!operation) return operation.failure();
        auto wish = store.find(operation->id());
        if (!wish) return wish.failure();
        if (*wish && (*wish)->state == State::settled && failed((*wish)->outcome))
            return std::optional((*wish)->outcome);
        if (!shop_.options.deadline) return std::optional<Outcome>{};
        const auto now = store.now();
        if (!now) return now.failure();
        const auto whole = store.find(what_.operation.id());
        if (!whole) return whole.failure();
        if (!*whole || *now < later((*whole)->created, *shop_.options.deadline)) return std::optional<Outcome>{};
        // Kept before anything is undone: the next run may be configured with another deadline.
        auto kept = cancel(shop_.world, shop_.options, what_.operation, what_.correlation,
                           {workflow_status::overdue, "it is over its deadline", true});
        if (!kept) return kept.failure();
        return std::optional(std::move(*kept));
    }

    // ---- compensation ------------------------------------------------------------------------------------------

    Result<WorkflowAnswer> compensate(std::size_t failed_step, const Outcome& failure) {
        Journal journal = journal_;
        journal.failed_step = shop_.definition.steps[failed_step].name;
        journal.failed_status = failure.status;
        journal.payload = failure.body;
        if (auto ends = keep(std::string(undoing_checkpoint), journal)) return std::move(*ends);
        undoing_ = std::move(journal);
        return undo();
    }

    Result<WorkflowAnswer> undo() {
        if (auto waits = settle_what_began()) return std::move(*waits);
        Journal journal = journal_;
        journal.ended = "compensated";
        journal.failed_step = undoing_->failed_step;
        journal.failed_status = undoing_->failed_status;
        journal.payload = undoing_->payload;
        const std::size_t count = shop_.definition.steps.size();
        for (std::size_t n = count; n-- > 0;) {
            const std::size_t i = SEMEL_MUTATION(undone_in_order, n, count - 1 - n);
            const Step& step = shop_.definition.steps[i];
            if (!step.compensation || SEMEL_MUTATION(undone_is_forgotten, !results_.contains(step.name), i == 0))
                continue;
            auto answer = perform(undo_key(step.name), undo_key(journal_.steps[i].key), *step.compensation);
            if (auto* ends = std::get_if<Ends>(&answer)) return std::move(ends->answer);
            if (failed(std::get<Outcome>(answer))) journal.not_undone.push_back(step.name);
        }
        const bool whole = journal.not_undone.empty();
        return settle(std::move(journal), whole ? workflow_status::compensated : workflow_status::compensation_failed);
    }

    /// Whatever began has to settle before anything is undone, and whatever was done is undone: by an earlier run, or by an older
    /// version of the definition, which had the steps in another order. Nothing: it may go on.
    std::optional<Result<WorkflowAnswer>> settle_what_began() {
        for (std::size_t i = 0; i < shop_.definition.steps.size(); ++i) {
            const Step& step = shop_.definition.steps[i];
            if (results_.contains(step.name)) continue;
            const auto operation = step_operation(what_.operation, journal_.steps[i].key);
            if (!operation) return Result<WorkflowAnswer>{operation.failure()};
            auto record = shop_.world.ledger.store().find(operation->id());
            if (!record) return Result<WorkflowAnswer>{record.failure()};
            if (!*record) continue;
            if ((*record)->state != State::settled) {
                // Asked as it would be in its turn: that tells what it came to, or parks the workflow.
                auto answer = perform(step.name, journal_.steps[i].key, step.run);
                if (auto* ends = std::get_if<Ends>(&answer)) return std::move(ends->answer);
                (*record)->outcome = std::get<Outcome>(answer);
            }
            if (!failed((*record)->outcome)) results_.insert_or_assign(step.name, (*record)->outcome);
        }
        return std::nullopt;
    }

    Result<WorkflowAnswer> settle(Journal journal, std::int32_t status) {
        const Outcome outcome{status, to_stored(journal), true};
        auto settled = shop_.world.ledger.settle(holder_, outcome, true, settle_patience);
        if (!settled) return settled.failure();
        reached("ended");
        return std::visit(match{[&](const Ok&) { return ended(outcome, false); },
                                [&](const Settled& other) { return ended(other.outcome, true); },
                                [&](const auto&) { return WorkflowAnswer{Superseded{}}; }},
                          *settled);
    }

    // ---- one step ----------------------------------------------------------------------------------------------

    StepAnswer perform(const std::string& name, const std::string& key, const Doing& doing) {
        if (stop_.stop_requested()) return unfinished(name, "it was asked to stop");
        const auto operation = step_operation(what_.operation, key);
        if (!operation) return Ends{operation.failure()};
        return std::visit(
            match{[&](const Local& local) { return perform_local(name, key, *operation, local); },
                  [&](const External& external) { return perform_external(name, key, *operation, external); }},
            doing);
    }

    static StepAnswer unfinished(const std::string& step, std::string error) {
        return Ends{WorkflowAnswer{Unfinished{step, std::move(error)}}};
    }

    StepAnswer perform_local(const std::string& name, const std::string& key, const Operation& operation,
                             const Local& local) {
        const LocalStep step{.operation = operation,
                             .fingerprint = fingerprint_of_bytes(key),
                             .retention = shop_.options.step_retention,
                             .correlation = what_.correlation,
                             .whole = holder_.id,
                             .token = holder_.token};
        const Limits& limits = shop_.options.limits;
        std::optional<Outcome> refusal;  // failed for good: to be settled without its writes
        const auto effect = [&](Transaction transaction) {
            Outcome outcome =
                refusal ? *refusal : Outcome{workflow_status::completed, local.run(*this, transaction), true};
            reached(fmt::format("{}:effect", name));
            return outcome;
        };
        std::string error;
        for (std::uint32_t tries = 1; tries <= limits.calls_max; ++tries) {
            auto inbox = shop_.inboxes.take();
            if (!inbox) {
                error = inbox.failure().message;
            } else {
                try {
                    auto answer = run_local_step(**inbox, step, effect);
                    shop_.inboxes.give_back(std::move(*inbox));
                    if (answer && std::holds_alternative<StepSuperseded>(*answer))
                        return Ends{WorkflowAnswer{Superseded{}}};
                    if (answer) {
                        auto& done = std::get<StepDone>(*answer);
                        if (!done.replayed) reached(fmt::format("{}:committed", name));
                        return std::move(done.outcome);
                    }
                    error = answer.failure().message;
                    if (answer.failure().code == Code::invalid) return unfinished(name, error);
                } catch (const StepFailed& failed_for_good) {
                    refusal = Outcome{failed_for_good.status(), failed_for_good.what(), true};
                    shop_.inboxes.give_back(std::move(*inbox));
                    --tries;  // what follows is not another try
                    continue;
                } catch (...) {
                    error = what_was_thrown();
                    shop_.inboxes.give_back(std::move(*inbox));
                }
            }
            if (tries < limits.calls_max &&
                shop_.world.pace.wait(
                    backoff(limits.backoff_first, limits.backoff_max, tries, shop_.world.pace.random()), stop_))
                break;
        }
        return unfinished(name, error);
    }

    StepAnswer perform_external(const std::string& name, const std::string& key, const Operation& operation,
                                const External& external) {
        Intent intent{.parent = what_.operation,
                      .step = key,
                      .business_attempt = 1,
                      .fingerprint = fingerprint_of_bytes(key),
                      .correlation = what_.correlation,
                      .provider = external.provider,
                      .call = [&](const Call& call) { return external.call(*this, call); },
                      .lookup = {},
                      .limits = external.limits};
        if (external.lookup) intent.lookup = [&](const Key& sent) { return external.lookup(*this, sent); };
        // Whoever held the workflow before may still be at it.
        intent.limits.busy_wait = std::max(intent.limits.busy_wait, intent.limits.total);
        const Guard guard{holder_, {begun_checkpoint(key), ""}};
        const At at = [&](std::string_view point) { reached(fmt::format("{}:{}", name, point)); };
        for (int i = 0; i < superseded_max; ++i) {
            auto answer = effects::perform(shop_.world, intent, operation,
                                           SEMEL_MUTATION(step_without_its_workflow, &guard, nullptr), at, stop_);
            if (!answer) return unfinished(name, answer.failure().message);
            if (std::holds_alternative<WholeLost>(*answer)) return Ends{WorkflowAnswer{Superseded{}}};
            auto& performance = std::get<Performance>(*answer);
            if (std::holds_alternative<Superseded>(performance)) continue;
            return std::visit(
                match{[](Performed& done) -> StepAnswer { return std::move(done.outcome); },
                      [](Failed& refused) -> StepAnswer { return std::move(refused.outcome); },
                      [&](const Busy&) { return unfinished(name, "another holder is at it"); },
                      [&](const Mismatch&) {
                          return unfinished(name, "its operation was claimed before with another fingerprint");
                      },
                      [&](OutcomeUnknown& unknown) -> StepAnswer {
                          if (SEMEL_MUTATION(unknown_counts_as_failed, false, true))
                              return Outcome::tombstone(failed_from);
                          return Ends{WorkflowAnswer{Parked{name, unknown.since, std::move(unknown.why)}}};
                      },
                      [&](NotPerformed& not_performed) { return unfinished(name, std::move(not_performed.error)); },
                      [&](const Superseded&) { return unfinished(name, "it was taken over"); }},
                performance);
        }
        return unfinished(name, "it was taken over again and again");
    }

    const Workshop& shop_;
    const RunOf& what_;
    const std::stop_token& stop_;
    Holder holder_;
    KeptLease kept_;
    Journal journal_;
    std::optional<Journal> undoing_;  // why there is no way forward
    std::map<std::string, Outcome, std::less<>> results_;
};

}  // namespace

Result<std::unique_ptr<Inbox>> InboxPool::take() {
    {
        const std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            auto inbox = std::move(idle_.back());
            idle_.pop_back();
            return inbox;
        }
    }
    if (!open_) return Failure{Code::invalid, "the workflow has no inbox for its local steps"};
    try {
        return open_();
    } catch (...) {
        return Failure{Code::unavailable, "open the inbox of the local steps: " + what_was_thrown()};
    }
}

void InboxPool::give_back(std::unique_ptr<Inbox> inbox) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(inbox));
}

Result<WorkflowAnswer> run(const Workshop& workshop, const RunOf& what, const std::stop_token& stop) {
    return Running(workshop, what, stop).run();
}

Result<Outcome> cancel(const Surroundings& world, const WorkflowOptions& options, const Operation& workflow,
                       const std::string& correlation, Outcome why) {
    auto operation = step_operation(workflow, cancel_key);
    if (!operation) return operation.failure();
    const OperationId id = operation->id();
    // A crash between claim and settlement leaves nothing: whoever comes next may claim it again.
    const auto answer = world.ledger.claim({.operation = std::move(*operation),
                                            .fingerprint = fingerprint_of_bytes(cancel_key),
                                            .attempt = {},
                                            .policy = {.on_unknown = OnUnknown::resume,
                                                       .dedup_window = Duration{0},
                                                       .lease = options.lease,
                                                       .effect_deadline = options.lease,
                                                       .retention = options.step_retention},
                                            .key_time = std::nullopt,
                                            .correlation = correlation});
    if (!answer) return answer.failure();
    if (const auto* before = std::get_if<Replay>(&*answer)) return before->outcome;
    const auto* claimed = std::get_if<Claimed>(&*answer);
    if (claimed == nullptr) return Failure{Code::contended, "another process is cancelling it: try again"};
    const auto settled = world.ledger.settle({id, claimed->token, claimed->attempt}, why, true, settle_patience);
    if (!settled) return settled.failure();
    return std::visit(match{[&](const Ok&) -> Result<Outcome> { return why; },
                            [](const Settled& other) -> Result<Outcome> { return other.outcome; },
                            [](const auto&) -> Result<Outcome> {
                                return Failure{Code::contended, "another process is cancelling it: try again"};
                            }},
                      *settled);
}

WorkflowAnswer ended(const Outcome& outcome, bool replayed) {
    auto journal = from_stored(outcome.body);
    const bool kept = outcome.kept && journal.has_value();
    if (!journal) journal.emplace();
    if (!failed(outcome)) return Completed{std::move(journal->payload), kept, replayed};
    return Compensated{std::move(journal->failed_step),
                       {journal->failed_status, std::move(journal->payload), kept},
                       std::move(journal->not_undone),
                       replayed};
}

}  // namespace semel::effects
