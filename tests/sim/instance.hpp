// One process: a commit queue and the lanes that serve it, driven as the threads of Committer drive it, plus everything
// that runs inside. It can be paused and it can die; what it had posted is then late or never happens.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "async/commit_queue.hpp"
#include "judge.hpp"
#include "sim_store.hpp"

namespace semel::sim {

class Instance : public std::enable_shared_from_this<Instance> {
public:
    Instance(Stage& stage, SimStore& store, Judge& judge, ProcessId process, CommitterOptions options);

    /// As Committer::submit: `done` is called exactly once, unless the process dies.
    void submit(std::vector<Command> commands, Duration wait, std::shared_ptr<Waiting> waiting, GroupDone done);
    /// A caller's own transaction on a connection of its own.
    void submit_own(Command command, OwnWork work, std::move_only_function<void(Result<Executed>)> done);
    /// Runs it here, later: when the process is alive and awake.
    void post(Duration delay, What what);

    void die();
    void pause(Duration how_long);
    [[nodiscard]] bool alive() const { return alive_; }
    [[nodiscard]] ProcessId process() const { return process_; }
    [[nodiscard]] Stage& stage() { return stage_; }
    [[nodiscard]] SimStore& store() { return store_; }

private:
    struct Line {
        Lane lane;
        bool busy = false;
        std::optional<Steady> wakes;
    };
    void run(What what);
    void pump();
    void serve(std::size_t line);
    void finished(std::size_t line, CommitQueue::Batch batch, std::vector<Group> groups, Result<Executed> result);
    void set_not_after(Submission& submission);

    Stage& stage_;
    SimStore& store_;
    Judge& judge_;
    ProcessId process_;
    CommitterOptions options_;
    std::unique_ptr<CommitQueue> queue_;
    std::vector<Line> lines_;
    bool alive_ = true;
    bool pump_posted_ = false;
    Duration paused_until_{0};
    Duration paused_total_{0};
    struct StoreTime {
        TimePoint store;
        Steady at;
    };
    std::optional<StoreTime> store_time_;
};

}  // namespace semel::sim
