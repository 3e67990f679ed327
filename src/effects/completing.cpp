// The completer keeps nothing of its own: what there is to do is read from the ledger, and who does it is decided by the
// claim. A completer that dies leaves what any run leaves.
#include "effects/completing.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/retry.hpp"
#include "effects/journal.hpp"
#include "ledger/mutation.hpp"
#include "ledger/record_json.hpp"
#include "semel/store.hpp"

namespace semel::effects {
namespace {

constexpr std::size_t page_max = 200;
constexpr std::size_t waiting_per_worker = 4;
constexpr std::string_view remover = "completer";

std::string_view what_it_came_to(const WorkflowAnswer& answer) {
    return std::visit(
        match{[](const Completed&) { return "completed"; }, [](const Compensated&) { return "compensated"; },
              [](const Parked&) { return "parked"; }, [](const Unfinished&) { return "unfinished"; },
              [](const Busy&) { return "taken by another"; }, [](const Mismatch&) { return "mismatch"; },
              [](const Superseded&) { return "superseded"; },
              [](const DefinitionChanged&) { return "begun with other steps"; }},
        answer);
}

}  // namespace

Completing::Completing(BlockingLedger& ledger, Random& random, std::vector<Workflow*> workflows,
                       CompleterOptions options, std::function<void()> found)
    : ledger_(ledger),
      random_(random),
      workflows_(std::move(workflows)),
      options_(std::move(options)),
      found_(std::move(found)) {
    if (options_.every > Duration{0}) return;
    Duration shortest = std::chrono::hours{1};
    for (const Workflow* workflow : workflows_) shortest = std::min(shortest, workflow->options().lease);
    // A lease that is over is seen within this: so all in all within twice the lease.
    options_.every = shortest / 3;
}

CompleterCounts Completing::counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
}

void Completing::log(const std::string& line) const {
    if (options_.log) options_.log(line);
}

// ---- looking ---------------------------------------------------------------------------------------------------

void Completing::look(const std::stop_token& stop) {
    Seen seen;
    for (Workflow* workflow : workflows_)
        for (const State state : {SEMEL_MUTATION(dead_are_left_alone, State::running, State::unknown), State::unknown})
            if (auto done = look_at(*workflow, state, seen, stop); !done)
                log(fmt::format("completer: {}: {}", workflow->definition().name, done.failure().message));
    const std::lock_guard lock(mutex_);
    ++counts_.looks;
    counts_.parked = seen.parked;
    counts_.refused = seen.refused;
}

Status Completing::look_at(Workflow& workflow, State state, Seen& seen, const std::stop_token& stop) {
    Store& store = ledger_.store();
    Filter filter;
    filter.state = state;
    filter.scope_name = workflow.definition().name;
    std::string cursor;
    do {
        const auto now = store.now();
        if (!now) return now.failure();
        auto page = store.list(filter, cursor, page_max);
        if (!page) return page.failure();
        for (Record& record : page->records)
            if (auto judged = judge(workflow, std::move(record), *now, seen); !judged) return judged;
        cursor = page->next;
    } while (!cursor.empty() && !stop.stop_requested());
    return semel::Done{};
}

Status Completing::judge(Workflow& workflow, Record record, TimePoint now, Seen& seen) {
    if (!is_workflow(record) || !record.operation) return semel::Done{};
    if (record.state == State::running && !lease_is_over(record, now)) return semel::Done{};
    if (record.checkpoints.empty()) return remove(record);
    if (workflow.refused(record)) {
        ++seen.refused;
        return semel::Done{};
    }
    if (record.state == State::unknown) {
        const auto waits = left_alone(workflow, record, now, seen);
        if (!waits) return waits.failure();
        if (*waits) return semel::Done{};
    }
    {
        const std::lock_guard lock(mutex_);
        // The rest is found at the next look: what waits here is held in memory, inputs and all.
        if (tasks_.size() >= waiting_per_worker * std::max<std::size_t>(options_.parallel, 1)) return semel::Done{};
        if (!under_way_.insert(record.id).second) return semel::Done{};
        tasks_.push_back({&workflow, std::move(record)});
    }
    found_();
    return semel::Done{};
}

/// Whether one that somebody gave up is to be left as it is: until a step is resolved, or for a while. One whose holder died
/// is carried on without asking: what it comes to then is seen by everybody.
Result<bool> Completing::left_alone(Workflow& workflow, const Record& record, TimePoint now, Seen& seen) {
    const auto parked = workflow.parked_at(record);
    if (!parked) return parked.failure();
    if (*parked) ++seen.parked;
    if (SEMEL_MUTATION(given_up_for_good, parked->has_value(), true)) return true;
    const bool given_up = !record.history.empty() && record.history.back().what == Transition::abandoned;
    const Duration pause = backoff(options_.backoff_first, options_.backoff_max, record.tries, random_);
    return given_up && now < later(record.history.back().at, pause);
}

/// Claimed by somebody who died before it was started: nothing has begun, and whoever asked for it has not been told so.
Status Completing::remove(const Record& record) {
    const auto answer = ledger_.resolve({.id = record.id,
                                         .token_seen = record.token,
                                         .outcome = std::nullopt,
                                         .who = std::string(remover),
                                         .why = "it was never started"});
    if (!answer) return answer.failure();
    if (!std::holds_alternative<Ok>(*answer)) return semel::Done{};
    const std::lock_guard lock(mutex_);
    ++counts_.removed;
    return semel::Done{};
}

// ---- carrying on -----------------------------------------------------------------------------------------------

bool Completing::waits() const {
    const std::lock_guard lock(mutex_);
    return !tasks_.empty();
}

std::optional<Completing::Task> Completing::take() {
    const std::lock_guard lock(mutex_);
    if (tasks_.empty()) return std::nullopt;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
}

void Completing::carry_on(const Task& task, const std::stop_token& stop) {
    resume(task, stop);
    const std::lock_guard lock(mutex_);
    under_way_.erase(task.record.id);
}

void Completing::resume(const Task& task, const std::stop_token& stop) {
    const auto answer = task.workflow->resume(task.record, stop);
    const std::string text = task.record.operation->text();
    if (!answer) return log(fmt::format("completer: {}: {}", text, answer.failure().message));
    std::string detail;
    if (const auto* parked = std::get_if<Parked>(&*answer))
        detail = fmt::format(" at {}: {}", parked->step, parked->why);
    if (const auto* left = std::get_if<Unfinished>(&*answer))
        detail = fmt::format(" at {}: {}", left->step, left->error);
    log(fmt::format("completer: {}: {}{}", text, what_it_came_to(*answer), detail));
    const bool over = std::holds_alternative<Completed>(*answer) || std::holds_alternative<Compensated>(*answer);
    const std::lock_guard lock(mutex_);
    if (!std::holds_alternative<Busy>(*answer)) ++counts_.taken;
    if (over) ++counts_.ended;
}

}  // namespace semel::effects
