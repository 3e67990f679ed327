// The completer's threads: one looks, the others carry on what it finds.
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "effects/completing.hpp"
#include "effects/surroundings.hpp"

namespace semel::effects {

class Completer::Loop {
public:
    Loop(Committer& committer, std::vector<Workflow*> workflows, CompleterOptions options)
        : parallel_(std::max<std::size_t>(options.parallel, 1)),
          work_(committer, system_pace().random(), std::move(workflows), std::move(options), [this] { wake(false); }) {}

    void run(const std::stop_token& stop) {
        std::vector<std::jthread> workers;
        for (std::size_t i = 0; i < parallel_; ++i) workers.emplace_back([this, &stop] { work(stop); });
        while (!stop.stop_requested()) {
            work_.look(stop);
            (void)system_pace().wait(work_.every(), stop);
        }
        wake(true);
    }

    [[nodiscard]] CompleterCounts counts() const { return work_.counts(); }

private:
    void wake(bool all) {
        // Whoever has found nothing sleeps by now.
        { const std::lock_guard lock(mutex_); }
        if (all)
            wake_.notify_all();
        else
            wake_.notify_one();
    }

    void work(const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            if (const auto task = work_.take()) {
                work_.carry_on(*task, stop);
                continue;
            }
            std::unique_lock lock(mutex_);
            wake_.wait(lock, stop, [&] { return work_.waits(); });
        }
    }

    std::size_t parallel_;
    Completing work_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
};

Completer::Completer(Committer& committer, std::vector<Workflow*> workflows, CompleterOptions options)
    : loop_(std::make_unique<Loop>(committer, std::move(workflows), std::move(options))) {}
Completer::~Completer() = default;
void Completer::run(const std::stop_token& stop) { loop_->run(stop); }
CompleterCounts Completer::counts() const { return loop_->counts(); }

}  // namespace semel::effects
