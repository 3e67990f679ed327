#include "instance.hpp"

#include <algorithm>

namespace semel::sim {

Instance::Instance(Stage& stage, SimStore& store, Judge& judge, ProcessId process, CommitterOptions options)
    : stage_(stage),
      store_(store),
      judge_(judge),
      process_(process),
      options_(options),
      queue_(std::make_unique<CommitQueue>(options)) {
    // An embedded store has as many sessions as a shared one, or one: both are in use.
    if (store.kind() == StoreKind::embedded && stage.below(2) == 0)
        lines_ = {{Lane::only, false, {}}};
    else
        lines_ = {{Lane::urgent, false, {}}, {Lane::general, false, {}}, {Lane::general, false, {}}};
}

// ---- living ----------------------------------------------------------------------------------------------------

void Instance::post(Duration delay, What what) {
    stage_.after(delay, [self = shared_from_this(), what = std::move(what)]() mutable { self->run(std::move(what)); });
}

void Instance::run(What what) {
    if (!alive_) return;
    if (stage_.now() < paused_until_) return post(paused_until_ - stage_.now(), std::move(what));
    what();
}

void Instance::pause(Duration how_long) {
    stage_.trace("process {} sleeps for {} ms", process_, how_long / milliseconds{1});
    paused_until_ = std::max(paused_until_, stage_.now() + how_long);
    paused_total_ += how_long;
    judge_.process_paused(process_);
}

void Instance::die() {
    stage_.trace("process {} dies", process_);
    const CommitterFigures& figures = queue_->figures();
    stage_.count(Tally::splits, figures.splits);
    stage_.count(Tally::repeats, figures.repeats);
    alive_ = false;
    judge_.process_died(process_);
    queue_.reset();
}

// ---- what the threads of Committer do --------------------------------------------------------------------------

void Instance::submit(std::vector<Command> commands, Duration wait, std::shared_ptr<Waiting> waiting, GroupDone done) {
    bool all_renewals = true;
    for (const Command& command : commands) {
        if (auto valid = validate(command); !valid)
            stage_.violated("the simulator sends valid commands", "{}", valid.failure().message);
        all_renewals = all_renewals && std::holds_alternative<Renew>(command);
    }
    Submission submission{.group = {std::move(commands), false},
                          .deadline = stage_.steady() + wait,
                          .urgent = all_renewals,
                          .waiting = waiting,
                          .done = nullptr};
    set_not_after(submission);
    const SubmissionId id = judge_.submitted(process_, submission.group.commands, submission.deadline, paused_total_);
    submission.done = [this, id, waiting, done = std::move(done)](GroupAnswer answer) mutable {
        judge_.completed(id, answer, waiting && waiting->given_up(), paused_total_);
        done(std::move(answer));
    };
    if (!queue_->push(submission)) return submission.done(Failure{Code::exhausted, std::string(queue_full)});
    pump();
}

/// I6: a claim is not granted long after its caller has gone, whatever network held it up.
void Instance::set_not_after(Submission& submission) {
    if (!store_time_) return;
    for (Command& command : submission.group.commands) {
        auto* claim = std::get_if<Claim>(&command);
        if (claim == nullptr || claim->not_after != never) continue;
        const auto elapsed = std::chrono::duration_cast<Duration>(submission.deadline - store_time_->at);
        claim->not_after = later(store_time_->store, elapsed + seconds{1});
    }
}

void Instance::submit_own(Command command, OwnWork work, std::move_only_function<void(Result<Executed>)> done) {
    store_.execute_own(
        process_, std::move(command), std::move(work),
        [self = shared_from_this(), done = std::move(done)](Result<Executed> result) mutable {
            self->run([done = std::move(done), result = std::move(result)]() mutable { done(std::move(result)); });
        });
}

void Instance::pump() {
    if (std::exchange(pump_posted_, true)) return;
    post(Duration{0}, [this] {
        pump_posted_ = false;
        for (std::size_t line = 0; line < lines_.size(); ++line) serve(line);
    });
}

void Instance::serve(std::size_t at) {
    Line& line = lines_[at];
    if (line.busy) return;
    std::vector<Completion> completed;
    auto batch = queue_->gather(line.lane, stage_.steady(), completed);
    if (batch) {
        line.busy = true;
        std::vector<Group> groups = batch->groups;
        judge_.batch(process_, line.lane == Lane::general, groups);
        store_.execute(
            process_, groups,
            [self = shared_from_this(), at, groups, batch = std::move(*batch)](Result<Executed> result) mutable {
                self->run([self = self.get(), at, groups = std::move(groups), batch = std::move(batch),
                           result = std::move(result)]() mutable {
                    self->finished(at, std::move(batch), std::move(groups), std::move(result));
                });
            });
    } else if (const auto wakes = queue_->wake_at(line.lane); wakes && (!line.wakes || *line.wakes != *wakes)) {
        line.wakes = wakes;
        post(std::chrono::duration_cast<Duration>(*wakes - stage_.steady()), [this, at] {
            lines_[at].wakes.reset();
            serve(at);
        });
    }
    if (!completed.empty()) pump();
    for (Completion& each : completed) each();
}

void Instance::finished(std::size_t at, CommitQueue::Batch batch, std::vector<Group> groups, Result<Executed> result) {
    lines_[at].busy = false;
    if (result) store_time_ = StoreTime{result->now, stage_.steady()};
    judge_.batch_over(process_, groups);
    std::vector<Completion> completed;
    queue_->finish(std::move(batch), std::move(result), stage_.steady(), completed);
    pump();
    for (Completion& each : completed) each();
}

}  // namespace semel::sim
