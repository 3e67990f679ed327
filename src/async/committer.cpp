#include "semel/committer.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "async/commit_queue.hpp"
#include "async/telling.hpp"
#include "semel/keys.hpp"

namespace semel {

// ---- the threads -----------------------------------------------------------------------------------------------

/// One thread per session drives the queue: gather, execute, finish, tell the callers.
class Committer::Threads {
public:
    Threads(Store& store, CommitterOptions options, std::vector<std::unique_ptr<Session>> sessions)
        : store_(store), options_(options), one_(sessions.size() == 1), queue_(options) {
        for (std::size_t i = 0; i < sessions.size(); ++i) {
            const Lane lane = one_ ? Lane::only : i == 0 ? Lane::urgent : Lane::general;
            threads_.emplace_back([this, lane, session = std::move(sessions[i])] { run(lane, *session); });
        }
    }

    ~Threads() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wake_urgent_.notify_all();
        wake_general_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void submit(Submission submission) {
        std::string refused;
        Code refused_code = Code::exhausted;
        const Lane lane = submission.urgent ? Lane::urgent : Lane::general;
        bool wake = false;
        {
            const std::lock_guard lock(mutex_);
            set_not_after(submission);
            if (key_is_ahead(submission)) refused_code = Code::invalid;
            if (refused_code == Code::invalid)
                refused =
                    "claim: the key's own time is more than five minutes ahead of the store's clock; mint keys when "
                    "the work starts";
            else if (stopping_)
                refused = "the committer is stopping; nothing was done";
            else if (!queue_.push(submission))
                refused =
                    fmt::format("{} commands wait already (committer.queue_max); nothing was done", options_.queue_max);
            wake = queue_.worth_waking(lane, std::chrono::steady_clock::now());
        }
        if (wake) waiters(lane).notify_one();
        if (refused.empty()) return;
        submission.done(Failure{refused_code, refused});
    }

    [[nodiscard]] CommitterFigures figures() const {
        const std::lock_guard lock(mutex_);
        return queue_.figures();
    }

    Store& store_;
    CommitterOptions options_;

private:
    /// I6: a claim is not granted long after its caller has gone, whatever network held it up.
    void set_not_after(Submission& submission) {
        if (!store_time_) return;
        for (Command& command : submission.group.commands) {
            auto* claim = std::get_if<Claim>(&command);
            if (claim == nullptr || claim->not_after != never) continue;
            const auto elapsed = std::chrono::duration_cast<Duration>(submission.deadline - store_time_->at);
            claim->not_after = later(store_time_->store, elapsed + slack);
        }
    }

    /// A time-ordered key from the future would be remembered, and refused as expired, at the wrong time.
    bool key_is_ahead(const Submission& submission) const {
        const TimePoint now =
            store_time_
                ? later(store_time_->store,
                        std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - store_time_->at))
                : TimePoint{std::chrono::floor<Duration>(std::chrono::system_clock::now().time_since_epoch())};
        for (const Command& command : submission.group.commands) {
            const auto* claim = std::get_if<Claim>(&command);
            if (claim != nullptr && claim->key_time && *claim->key_time > later(now, key_ahead_max)) return true;
        }
        return false;
    }

    /// Who sleeps until there is work for a lane. A lone thread does the work of both.
    std::condition_variable& waiters(Lane lane) { return lane == Lane::urgent && !one_ ? wake_urgent_ : wake_general_; }

    /// After a batch: what was parked behind it may be another thread's work, now or later.
    void wake_others(Steady now) {
        if (one_) return;
        for (const Lane lane : {Lane::urgent, Lane::general})
            if (queue_.worth_waking(lane, now) || queue_.wake_at(lane)) waiters(lane).notify_one();
    }

    static void tell(std::vector<Completion>& completed) {
        const Telling telling;
        for (Completion& each : completed) each();
    }

    void run(Lane lane, Session& session) {
        std::unique_lock lock(mutex_);
        while (true) {
            std::vector<Completion> completed;
            auto batch = queue_.gather(lane, std::chrono::steady_clock::now(), completed);
            if (batch) {
                wake_others(std::chrono::steady_clock::now());  // it may have left them their part
                lock.unlock();
                tell(completed);
                completed.clear();
                auto result = session.execute(batch->groups);
                const Steady now = std::chrono::steady_clock::now();
                lock.lock();
                if (result) store_time_ = StoreTime{result->now, now};
                queue_.finish(std::move(*batch), std::move(result), now, completed);
                wake_others(now);
            }
            if (!completed.empty()) {
                const std::size_t callers = completed.size();
                const Steady since = queue_.telling(callers, std::chrono::steady_clock::now());
                lock.unlock();
                tell(completed);
                lock.lock();
                queue_.told(callers, since);
                continue;
            }
            if (batch) continue;
            if (stopping_ && queue_.idle()) {
                wake_urgent_.notify_all();
                wake_general_.notify_all();
                return;
            }
            // Whatever wakes it, the loop looks again.
            std::condition_variable& wake = waiters(lane);
            if (const auto at = queue_.wake_at(lane))
                wake.wait_until(lock, *at);  // NOLINT(bugprone-spuriously-wake-up-functions)
            else
                wake.wait(lock);  // NOLINT(bugprone-spuriously-wake-up-functions)
        }
    }

    /// The store's clock as last seen, and when.
    struct StoreTime {
        TimePoint store;
        Steady at;
    };
    static constexpr Duration slack = std::chrono::seconds{1};
    static constexpr Duration key_ahead_max = std::chrono::minutes{5};

    const bool one_;  // session, and so thread
    mutable std::mutex mutex_;
    std::condition_variable wake_urgent_;
    std::condition_variable wake_general_;
    CommitQueue queue_;  // guarded by mutex_, as are the following
    std::optional<StoreTime> store_time_;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

Result<std::unique_ptr<Committer>> Committer::start(Store& store, CommitterOptions options) {
    std::vector<std::unique_ptr<Session>> sessions;
    for (std::size_t i = 0; i < store.sessions_max(); ++i) {
        auto session = store.session();
        if (!session) return session.failure();
        sessions.push_back(std::move(*session));
    }
    return std::unique_ptr<Committer>(new Committer(std::make_unique<Threads>(store, options, std::move(sessions))));
}

Committer::Committer(std::unique_ptr<Threads> threads) : threads_(std::move(threads)) {}
Committer::~Committer() = default;
CommitterFigures Committer::figures() const { return threads_->figures(); }
Store& Committer::store() const { return threads_->store_; }

void Committer::submit(std::vector<Command> commands, Duration wait, std::shared_ptr<Waiting> waiting, GroupDone done) {
    bool all_renewals = !commands.empty();
    if (commands.empty()) return done(Failure{Code::invalid, "a group needs at least one command"});
    for (const Command& command : commands) {
        if (auto valid = validate(command); !valid) return done(valid.failure());
        all_renewals = all_renewals && std::holds_alternative<Renew>(command);
    }
    if (wait <= Duration{0}) wait = threads_->options_.timeout;
    std::vector<OperationId> ids;  // once, and on the caller's thread
    ids.reserve(commands.size());
    for (const Command& command : commands) ids.push_back(id_of(command));
    Submission submission{.group = {std::move(commands), false, std::move(ids)},
                          .deadline = std::chrono::steady_clock::now() + wait,
                          .urgent = all_renewals,
                          .waiting = std::move(waiting),
                          .done = std::move(done)};
    threads_->submit(std::move(submission));
}

// ---- the blocking face -----------------------------------------------------------------------------------------

namespace {

/// Where a blocked caller gets its answer; shared, since the answer may come after the caller has gone.
struct Mailbox {
    std::mutex mutex;
    std::condition_variable arrived;
    std::optional<GroupAnswer> answer;  // guarded by mutex
};

}  // namespace

GroupAnswer Committer::execute(std::vector<Command> commands, Duration wait) {
    if (wait <= Duration{0}) wait = threads_->options_.timeout;
    auto mailbox = std::make_shared<Mailbox>();
    auto waiting = std::make_shared<Waiting>();
    bool claims = false;
    for (const Command& command : commands) claims = claims || std::holds_alternative<Claim>(command);
    const auto until = std::chrono::steady_clock::now() + wait;
    submit(std::move(commands), wait, waiting, [mailbox](GroupAnswer answer) {
        const std::lock_guard lock(mailbox->mutex);
        mailbox->answer = std::move(answer);
        mailbox->arrived.notify_one();
    });
    std::unique_lock lock(mailbox->mutex);
    mailbox->arrived.wait_until(lock, until, [&] { return mailbox->answer.has_value(); });
    if (mailbox->answer) return std::move(*mailbox->answer);
    if (!waiting->give_up()) {
        // The answer is on its way; it is ours after all.
        mailbox->arrived.wait(lock, [&] { return mailbox->answer.has_value(); });
        return std::move(*mailbox->answer);
    }
    if (claims)
        return Failure{Code::unavailable,
                       "claim: no answer from the store in time (committer.timeout); a late grant is released"};
    return Failure{Code::indeterminate,
                   "no answer from the store in time (committer.timeout); the command may still be done: repeat it or "
                   "look the operation up"};
}

void prepare(Claim& claim) { claim.attempt = mint_attempt(); }

Result<ClaimAnswer> BlockingLedger::claim(Claim command, Duration wait) {
    prepare(command);
    std::vector<Command> group;
    group.emplace_back(std::move(command));
    return claim_answer(execute(std::move(group), wait));
}

namespace {
template <class C>
Result<HolderAnswer> tell(BlockingLedger& ledger, C command, Duration wait) {
    std::vector<Command> group;
    group.emplace_back(std::move(command));
    return holder_answer(ledger.execute(std::move(group), wait));
}
}  // namespace

Result<HolderAnswer> BlockingLedger::renew(const Holder& holder, Duration wait) {
    return tell(*this, Renew{holder}, wait);
}
Result<HolderAnswer> BlockingLedger::save(const Holder& holder, Checkpoint checkpoint, Duration wait) {
    return tell(*this, SaveCheckpoint{holder, std::move(checkpoint)}, wait);
}
Result<HolderAnswer> BlockingLedger::settle(const Holder& holder, Outcome outcome, bool conclusive, Duration wait) {
    return tell(*this, Settle{holder, std::move(outcome), conclusive}, wait);
}
Result<HolderAnswer> BlockingLedger::release(const Holder& holder, Duration wait) {
    return tell(*this, Release{holder}, wait);
}
Result<HolderAnswer> BlockingLedger::abandon(const Holder& holder, Duration wait) {
    return tell(*this, Abandon{holder}, wait);
}
Result<HolderAnswer> BlockingLedger::resolve(Resolve command, Duration wait) {
    return tell(*this, std::move(command), wait);
}

// ---- answers ---------------------------------------------------------------------------------------------------

Result<ClaimAnswer> claim_answer(GroupAnswer answer) {
    using R = Result<ClaimAnswer>;
    if (!answer) return std::move(answer).failure();
    return std::visit(
        match{[](Claimed& a) -> R { return ClaimAnswer{std::move(a)}; },
              [](Replay& a) -> R { return ClaimAnswer{std::move(a)}; }, [](Busy& a) -> R { return ClaimAnswer{a}; },
              [](Mismatch& a) -> R { return ClaimAnswer{a}; }, [](Unknown& a) -> R { return ClaimAnswer{a}; },
              [](Expired& a) -> R { return ClaimAnswer{a}; },
              [](auto&) -> R {
                  return Failure{Code::corrupt, "claim: the store gave an answer that a claim cannot have"};
              }},
        answer->front());
}

Result<HolderAnswer> holder_answer(GroupAnswer answer) {
    using R = Result<HolderAnswer>;
    if (!answer) return std::move(answer).failure();
    return std::visit(
        match{[](Ok& a) -> R { return HolderAnswer{std::move(a)}; },
              [](Settled& a) -> R { return HolderAnswer{std::move(a)}; },
              [](Fenced& a) -> R { return HolderAnswer{a}; }, [](TooEarly& a) -> R { return HolderAnswer{a}; },
              [](auto&) -> R {
                  return Failure{Code::corrupt, "the store gave an answer that this command cannot have"};
              }},
        answer->front());
}

}  // namespace semel
