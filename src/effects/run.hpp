// One run of a workflow: from its claim to its end, or to where it cannot go on.
//
//   claim ─> start or adopt ─> step, step, … ─all done─> settle "completed"
//                                  │ one failed
//                                  └─> undo in reverse ─> settle "compensated"
//
// What each crash leaves is said in semel/workflow.hpp. Which step is next is never stored: the steps are asked in order, and
// each says by its own operation whether it was done. That it is to be undone is stored before the first compensation.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "effects/journal.hpp"
#include "effects/performer.hpp"

namespace semel::effects {

inline constexpr std::string_view unreadable =
    "it was begun, and what it keeps about itself cannot be read: a newer program has begun it";

/// Databases that runs borrow, one at a time each.
class InboxPool {
public:
    using Open = std::function<Result<std::unique_ptr<Inbox>>()>;
    explicit InboxPool(Open open) : open_(std::move(open)) {}

    Result<std::unique_ptr<Inbox>> take();
    void give_back(std::unique_ptr<Inbox> inbox);

private:
    Open open_;
    std::mutex mutex_;
    std::vector<std::unique_ptr<Inbox>> idle_;  // guarded by mutex_
};

/// What the runs of one workflow share.
struct Workshop {
    const Definition& definition;
    const WorkflowOptions& options;
    Surroundings world;
    InboxPool& inboxes;
};

/// What a claimed workflow is run with.
struct RunOf {
    Operation operation;
    Claimed claimed{};
    std::string input{};
    std::string correlation{};
    std::chrono::steady_clock::time_point sent{};  ///< when its claim was
    Duration lease{};                              ///< that it is held under
};

/// Runs it as far as it goes; what is left is abandoned, so that somebody else can take it at once.
Result<WorkflowAnswer> run(const Workshop& workshop, const RunOf& what, const std::stop_token& stop);

/// Keeps durably that no further step of it is to begin, and why; or what was kept before.
Result<Outcome> cancel(const Surroundings& world, const WorkflowOptions& options, const Operation& workflow,
                       const std::string& correlation, Outcome why);

/// How a settled workflow ended.
WorkflowAnswer ended(const Outcome& outcome, bool replayed);

}  // namespace semel::effects
