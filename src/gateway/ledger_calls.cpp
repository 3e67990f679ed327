#include "gateway/ledger_calls.hpp"

#include <boost/asio/post.hpp>

#include "async/telling.hpp"

namespace semel::gateway {

/// One question to the ledger. Answered on the I/O thread, exactly once.
struct LedgerCalls::Call {
    Call(Deadlines& deadlines, bool is_claim, std::move_only_function<void(GroupAnswer)> on_done)
        : done(std::move(on_done)), claims(is_claim), deadline(deadlines, [this] { time_is_up(); }) {}

    void finish(GroupAnswer answer) {
        if (!done) return;
        auto handler = std::exchange(done, nullptr);
        deadline.disarm();
        handler(std::move(answer));
    }

    void time_is_up() {
        // False: the answer is on its way to the inbox, and will be here before long.
        if (!waiting->give_up()) return;
        const auto self = std::exchange(alive, nullptr);
        if (claims)
            finish(Failure{Code::unavailable,
                           "claim: no answer from the store in time (limits.claim_timeout); a late grant is released"});
        else
            finish(Failure{Code::indeterminate, "no answer from the store in time; the command may still be done"});
    }

    std::move_only_function<void(GroupAnswer)> done;
    bool claims;
    Deadline deadline;
    std::shared_ptr<Waiting> waiting = std::make_shared<Waiting>();
    std::shared_ptr<Call> alive;  // itself, until it is answered
};

void LedgerCalls::Inbox::put(std::shared_ptr<Call> call, GroupAnswer answer) {
    bool first = false;
    {
        const std::lock_guard lock(mutex);
        first = answers.empty();
        answers.emplace_back(std::move(call), std::move(answer));
    }
    // One wake-up for all answers of a commit, after the last of them: who is woken before takes them one by one.
    if (first) Telling::when_over([self = shared_from_this()] { self->wake(); });
}

void LedgerCalls::Inbox::wake() {
    const std::lock_guard lock(mutex);
    // Closed: the I/O thread has ended, and whoever asked with it.
    if (!answers.empty() && !closed) asio::post(context, [self = shared_from_this()] { self->empty(); });
}

void LedgerCalls::Inbox::empty() {
    {
        const std::lock_guard lock(mutex);
        taken.swap(answers);
    }
    for (auto& [call, answer] : taken) {
        const auto self = std::exchange(call->alive, nullptr);
        call->finish(std::move(answer));
    }
    taken.clear();
}

LedgerCalls::~LedgerCalls() { forget(); }

void LedgerCalls::forget() {
    const std::lock_guard lock(inbox_->mutex);
    inbox_->closed = true;
    for (auto& [call, answer] : inbox_->answers) call->alive = nullptr;
    inbox_->answers.clear();
}

void LedgerCalls::submit(Command command, Duration within, std::move_only_function<void(GroupAnswer)> done) {
    const bool claims = std::holds_alternative<Claim>(command);
    auto call = std::make_shared<Call>(deadlines_, claims, std::move(done));
    call->alive = call;
    call->deadline.arm(within);
    std::vector<Command> group;
    group.push_back(std::move(command));
    committer_.submit(std::move(group), within, call->waiting, [inbox = inbox_, call](GroupAnswer answer) mutable {
        inbox->put(std::move(call), std::move(answer));
    });
}

Task<GroupAnswer> LedgerCalls::execute(Command command, Duration within) {
    return asio::async_initiate<const asio::use_awaitable_t<Executor>, void(GroupAnswer)>(
        [this](auto handler, Command asked, Duration limit) {
            submit(std::move(asked), limit, [handler = std::move(handler)](GroupAnswer answer) mutable {
                std::move(handler)(std::move(answer));
            });
        },
        asio::use_awaitable_t<Executor>(), std::move(command), within);
}

Task<Result<ClaimAnswer>> LedgerCalls::claim(Claim command, Duration within) {
    prepare(command);
    GroupAnswer answer = co_await execute(Command(std::move(command)), within);
    co_return claim_answer(std::move(answer));
}

Task<Result<HolderAnswer>> LedgerCalls::tell(Command command, Duration within) {
    GroupAnswer answer = co_await execute(std::move(command), within);
    co_return holder_answer(std::move(answer));
}

// ---- leases ----------------------------------------------------------------------------------------------------

std::shared_ptr<Held> LedgerCalls::hold(const Claimed& claimed, const OperationId& id, Duration lease,
                                        SteadyTime claim_sent) {
    const Holder holder{id, claimed.token, claimed.attempt};
    auto held = std::make_shared<Held>(Held{.holder = holder,
                                            .lease = lease,
                                            .renew_at = claim_sent + lease / 3,
                                            .begin_before = begin_before(claim_sent, lease)});
    held_.insert(held);
    return held;
}

void LedgerCalls::tick(SteadyTime now) {
    for (const std::shared_ptr<Held>& held : held_)
        if (!held->renewing && !held->lost && held->renew_at <= now) renew(held, now);
}

void LedgerCalls::renew(const std::shared_ptr<Held>& held, SteadyTime now) {
    held->renewing = true;
    submit(Renew{held->holder}, held->lease / 3, [this, held, now](GroupAnswer answer) {
        held->renewing = false;
        const auto told = holder_answer(std::move(answer));
        if (told && std::holds_alternative<Ok>(*told)) {
            ++figures_.renewed;
            held->renew_at = now + held->lease / 3;
            if (std::get<Ok>(*told).state == State::running) held->begin_before = begin_before(now, held->lease);
        } else if (told) {
            held->lost = true;
            if (std::holds_alternative<Fenced>(*told)) ++figures_.lost;
        } else {
            held->renew_at = now + held->lease / 10;  // soon again: the store may be back before the lease is over
        }
    });
}

void LedgerCalls::abandon_all(Duration within, std::move_only_function<void()> then) {
    auto left = std::make_shared<std::size_t>(held_.size() + 1);
    auto shared = std::make_shared<std::move_only_function<void()>>(std::move(then));
    const auto one_less = [left, shared] {
        if (--*left == 0) (*shared)();
    };
    for (const std::shared_ptr<Held>& held : held_) {
        held->abandoned = true;
        submit(Abandon{held->holder}, within, [one_less](const GroupAnswer&) { one_less(); });
    }
    one_less();
}

}  // namespace semel::gateway
