// Workflows: named steps with recovery points, carried to their end by whoever is alive.
//
//     claim the workflow; step; step; …; settle the workflow with its result
//
// Each step is an operation of its own. A local step commits its writes, its result and its settlement in one transaction,
// which checks that the workflow is still held. An external step is an intent (semel/intent.hpp), claimed together with a check
// that the workflow is still held. A run that is resumed is told what the finished steps came to, and goes on at the first
// unfinished one.
//
// What each crash leaves:
//   claimed, not started     nothing has begun and the input is not stored: the completer removes it, or the next run starts it
//   between two steps        the finished ones; the completer goes on within twice the lease
//   inside a local step      nothing of that step
//   inside an external step  what an intent leaves: it is asked again, looked up, or parks the workflow
//   in compensation          the same: compensations are steps
//   ended, not settled       all steps; the next run settles it
//
// When a step settles as failed, the compensations of the steps before it run in reverse order, after every external step that
// began has settled. A step whose outcome nobody knows parks the workflow: it is neither failed nor repeated until somebody
// resolves the step (`semel ops resolve`), and then goes on.
//
// A workflow that is cancelled, or over its deadline, is one whose next step has failed without having begun. That is kept as an
// operation of its own, SCOPE:cancel, before anything is undone: whoever carries it on decides the same.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "semel/inbox.hpp"
#include "semel/intent.hpp"
#include "semel/record.hpp"

namespace semel::effects {

/// What the simulator runs workflows in (src/effects/surroundings.hpp).
struct Surroundings;

// ---- the definition --------------------------------------------------------------------------------------------

/// What a step sees of its workflow.
class Context {
public:
    virtual ~Context() = default;
    [[nodiscard]] virtual const Operation& operation() const = 0;
    [[nodiscard]] virtual const std::string& input() const = 0;
    [[nodiscard]] virtual const std::string& correlation() const = 0;
    [[nodiscard]] virtual std::uint32_t tries() const = 0;  ///< runs of the workflow, this one included
    /// What a finished step came to. Throws std::out_of_range if it has not finished, and std::runtime_error if its result is
    /// no longer kept, or was settled by a person without one.
    [[nodiscard]] virtual const std::string& result(std::string_view step) const = 0;
};

/// Thrown by a local step that fails for good: nothing it wrote remains, it settles as failed with this text, and the steps
/// before it are compensated. Anything else that it throws is tried again later.
class StepFailed : public std::runtime_error {
public:
    explicit StepFailed(const std::string& why, std::int32_t status = 422)
        : std::runtime_error(why), status_(status < failed_from ? failed_from : status) {}
    [[nodiscard]] std::int32_t status() const { return status_; }

private:
    std::int32_t status_;
};

/// Writes in the transaction and nowhere else, and returns the step's result. Must not begin, commit or roll back, nor wait
/// for others: it may be run again, and only one run is committed.
struct Local {
    std::function<std::string(const Context&, Transaction)> run{};
};
/// Calls somebody. The step's result is the body of the outcome.
struct External {
    Provider provider{};
    std::function<Reply(const Context&, const Call&)> call{};
    std::function<LookupAnswer(const Context&, const Key&)> lookup{};  ///< optional
    Limits limits{};
};
using Doing = std::variant<Local, External>;

struct Step {
    std::string name{};  ///< part of its identity: unique, 1 to 80 characters of a scope's name
    Doing run{};
    std::optional<Doing> compensation{};  ///< undoes it; may use its result
};

/// How runs that an older version of the definition began are continued under this one.
struct Continues {
    std::uint32_t version = 0;
    std::map<std::string, std::string> renamed{};  ///< from the name there to the name here
    std::set<std::string> dropped{};               ///< steps there that are not done here any more
};

/// Steps that are renamed, reordered, added or removed are another version: a run that was begun with other steps is not
/// touched by a definition that does not say how to continue it.
struct Definition {
    std::string name{};  ///< the scope of its runs; never reuse or rename, nor give to a consumer. 1 to 80 characters
    std::uint32_t version = 1;
    std::vector<Step> steps{};
    std::vector<Continues> continues{};
    /// The result of the whole. Empty: that of the last step.
    std::function<std::string(const Context&)> result{};
};

// ---- a run -----------------------------------------------------------------------------------------------------

/// What settled workflows say, as their status.
namespace workflow_status {
inline constexpr std::int32_t completed = 200;
inline constexpr std::int32_t compensated = 409;
inline constexpr std::int32_t compensation_failed = 500;  ///< some compensations settled as failed
// As the failure of the step that did not begin:
inline constexpr std::int32_t overdue = 408;
inline constexpr std::int32_t cancelled = 499;
}  // namespace workflow_status

struct Start {
    std::string tenant{};  ///< may be empty
    Key key;
    std::string input{};        ///< kept until the end; another one under the same key is a Mismatch. At most 768 KiB
    std::string correlation{};  ///< empty: the key
};

struct Completed {
    std::string result{};
    bool kept = true;       ///< false: done, and the result is no longer stored
    bool replayed = false;  ///< ended before this run
};
/// A step failed, and the ones before it were undone.
struct Compensated {
    std::string failed_step{};
    Outcome failure{};                      ///< what that step came to
    std::vector<std::string> not_undone{};  ///< whose compensation settled as failed: a person has to see to them
    bool replayed = false;
};
/// Nobody knows what became of this step. It goes on when that is resolved.
struct Parked {
    std::string step{};
    std::optional<TimePoint> since{};
    std::string why{};
};
/// It could not go on now; the completer, or the next run, carries it on.
struct Unfinished {
    std::string step{};
    std::string error{};
};
/// It was begun with other steps. Nothing was done.
struct DefinitionChanged {
    std::string why{};
};
using WorkflowAnswer =
    std::variant<Completed, Compensated, Parked, Unfinished, Busy, Mismatch, Superseded, DefinitionChanged>;

struct WorkflowOptions {
    Duration lease = std::chrono::seconds{30};  ///< how fast a crash is noticed
    Retention retention{};                      ///< of the workflow
    /// From its first claim on. Then no further step begins, and what was done is undone.
    std::optional<Duration> deadline{};
    /// Of its steps. Their identity has to outlive every run that may still be resumed.
    Retention step_retention{.identity = std::nullopt, .response = std::chrono::hours{24 * 30}};
    /// Of a local step: how often it is tried in one run, and how it waits in between.
    Limits limits{};
    /// Opens the database of the local steps, which is the committer's; one for each run at a time, kept for the next.
    std::function<Result<std::unique_ptr<Inbox>>()> inbox{};
    /// For tests: called at named points ("started", "STEP:POINT", "ended").
    std::function<void(std::string_view)> at{};
};

/// Thread safe. The committer must outlive it.
class Workflow {
public:
    /// `invalid` names what is wrong.
    static Result<std::unique_ptr<Workflow>> make(Definition definition, WorkflowOptions options, Committer& committer);
    /// For the simulator.
    static Result<std::unique_ptr<Workflow>> make(Definition definition, WorkflowOptions options,
                                                  const Surroundings& world);
    ~Workflow();
    Workflow(const Workflow&) = delete;
    Workflow& operator=(const Workflow&) = delete;

    /// Starts it, goes on with it, or tells how it ended; blocks until it has ended or cannot go on. `stop` ends the run between
    /// two steps; the workflow goes on elsewhere. Failures: `invalid`, and those of the store (the same call again is safe).
    Result<WorkflowAnswer> run(const Start& start, const std::stop_token& stop = {});

    /// No further step of it begins but the one that is just being begun, and what was done is undone when every external step
    /// that began has settled (one that began and did not get through may be called for that): by whoever runs it, or the
    /// completer. Of one that is not begun yet, too. One that is at its last step completes. The first reason stays. The answer is how it had ended, if it had. Failures: `invalid`, `contended` (another process is cancelling it),
    /// and those of the store; the same call again is safe.
    Result<std::optional<WorkflowAnswer>> cancel(const std::string& tenant, const Key& key, const std::string& why);

    [[nodiscard]] const Definition& definition() const;
    [[nodiscard]] const WorkflowOptions& options() const;

    // For the completer.
    /// Goes on with what another run left. As run().
    Result<WorkflowAnswer> resume(const Record& record, const std::stop_token& stop = {});
    /// Whether a step that nobody knows the outcome of keeps this one from going on: its name, or why not.
    Result<std::optional<std::string>> parked_at(const Record& record);
    /// Why this definition does not continue it, if so.
    std::optional<std::string> refused(const Record& record) const;

private:
    class Engine;
    explicit Workflow(std::unique_ptr<Engine> engine);
    std::unique_ptr<Engine> engine_;
};

// ---- the completer ---------------------------------------------------------------------------------------------

struct CompleterOptions {
    Duration every{0};         ///< how often it looks; zero: a third of the shortest lease
    std::size_t parallel = 4;  ///< workflows carried on at the same time
    /// How soon one that could not go on is tried again; grows with its tries.
    Duration backoff_first = std::chrono::seconds{1};
    Duration backoff_max = std::chrono::minutes{5};
    /// Told what a person should know. Called by several threads; must not throw.
    std::function<void(std::string_view)> log{};
};

struct CompleterCounts {
    std::uint64_t looks = 0;
    std::uint64_t taken = 0;    ///< carried on, whatever it came to
    std::uint64_t ended = 0;    ///< completed or compensated
    std::uint64_t removed = 0;  ///< claimed, and never started
    std::uint64_t parked = 0;   ///< seen waiting for somebody, at the last look
    std::uint64_t refused = 0;  ///< seen with other steps than ours, at the last look
};

/// Carries on workflows whose holder died, without waiting for the client. Any number of processes may run one on the same
/// database: the ledger decides who takes which. The workflows and the committer must outlive it.
class Completer {
public:
    Completer(Committer& committer, std::vector<Workflow*> workflows, CompleterOptions options = {});
    ~Completer();

    /// Until `stop` is asked for; runs under way end between two steps.
    void run(const std::stop_token& stop);
    /// Thread safe.
    [[nodiscard]] CompleterCounts counts() const;

private:
    class Loop;
    std::unique_ptr<Loop> loop_;
};

}  // namespace semel::effects
