// What a completer does, without the threads that do it: looks for workflows whose holder died, and carries one on. Driven by
// Completer and by the simulator.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "semel/committer.hpp"
#include "semel/workflow.hpp"

namespace semel::effects {

/// Thread safe.
class Completing {
public:
    struct Task {
        Workflow* workflow;
        Record record;
    };

    /// `found` is called for each that is to be carried on.
    Completing(BlockingLedger& ledger, Random& random, std::vector<Workflow*> workflows, CompleterOptions options,
               std::function<void()> found);

    /// How often to look.
    [[nodiscard]] Duration every() const { return options_.every; }
    /// Looks once. What is to be carried on waits to be taken.
    void look(const std::stop_token& stop);
    [[nodiscard]] bool waits() const;
    std::optional<Task> take();
    /// To its end, or to where it cannot go on.
    void carry_on(const Task& task, const std::stop_token& stop);
    [[nodiscard]] CompleterCounts counts() const;

private:
    /// What was found at one look.
    struct Seen {
        std::uint64_t parked = 0;
        std::uint64_t refused = 0;
    };

    void log(const std::string& line) const;
    Status look_at(Workflow& workflow, State state, Seen& seen, const std::stop_token& stop);
    Status judge(Workflow& workflow, Record record, TimePoint now, Seen& seen);
    Result<bool> left_alone(Workflow& workflow, const Record& record, TimePoint now, Seen& seen);
    Status remove(const Record& record);
    void resume(const Task& task, const std::stop_token& stop);

    BlockingLedger& ledger_;
    Random& random_;
    std::vector<Workflow*> workflows_;
    CompleterOptions options_;
    std::function<void()> found_;
    mutable std::mutex mutex_;
    std::deque<Task> tasks_;  // guarded by mutex_, as are the following
    std::set<OperationId> under_way_;
    CompleterCounts counts_;
};

}  // namespace semel::effects
