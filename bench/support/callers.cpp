#include "support/callers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <latch>
#include <thread>

#include "semel/keys.hpp"
#include "support/process.hpp"

namespace semel::bench {
namespace {

using Steady = std::chrono::steady_clock;

const Scope& scope() {
    static const Scope made = *Scope::make("acme", "payments");
    return made;
}

double micros_between(Steady::time_point from, Steady::time_point to) {
    return std::chrono::duration<double, std::micro>(to - from).count();
}

/// What one caller counted within the measured window.
struct Tally {
    std::uint64_t done = 0;
    std::uint64_t done_ever = 0;
    std::vector<double> micros;
};

struct Window {
    Steady::time_point from;
    Steady::time_point to;
    [[nodiscard]] bool has(Steady::time_point at) const { return at >= from && at < to; }
};

Window window_of(const Load& load) {
    const auto from = Steady::now() + std::chrono::duration_cast<Steady::duration>(load.warm_up);
    return {from, from + std::chrono::duration_cast<Steady::duration>(load.length)};
}

template <class Callers>
Run sum(Callers& callers, const Load& load) {
    Run run;
    std::uint64_t done = 0;
    for (auto& caller : callers) {
        done += caller.tally.done;
        run.done += static_cast<double>(caller.tally.done_ever);
        run.micros.insert(run.micros.end(), caller.tally.micros.begin(), caller.tally.micros.end());
    }
    run.per_second = static_cast<double>(done) / load.length.count();
    return run;
}

/// One state machine. Its steps follow each other, on whatever thread the committer calls back.
class Caller {
public:
    Caller(Committer& committer, const Load& load, const Window& window, std::latch& ended)
        : committer_(committer), load_(load), window_(window), ended_(ended) {}

    void claim() {
        Claim command = next_claim(load_.policy);
        prepare(command);
        id_ = command.operation.id();
        sent_ = Steady::now();
        submit(std::move(command), [this](GroupAnswer answer) { on_claim(std::move(answer)); });
    }

    Tally tally;

private:
    template <class C, class Next>
    void submit(C command, Next next) {
        std::vector<Command> group;
        group.emplace_back(std::move(command));
        committer_.submit(std::move(group), Duration{0}, nullptr, std::move(next));
    }

    void on_claim(GroupAnswer answer) {
        const auto now = Steady::now();
        if (!answer) give_up(fmt::format("claim: {}", answer.failure().message));
        const auto* claimed = std::get_if<Claimed>(&answer->front());
        if (claimed == nullptr) give_up("a new key was not claimed");
        if (window_.has(now)) tally.micros.push_back(micros_between(sent_, now));
        if (!load_.settles) return next(now);
        const Holder holder{id_, claimed->token, claimed->attempt};
        submit(Settle{holder, Outcome{200, outcome_body(load_.body_bytes), true}, true},
               [this](GroupAnswer settled) { on_settle(std::move(settled)); });
    }

    void on_settle(GroupAnswer answer) {
        if (!answer) give_up(fmt::format("settle: {}", answer.failure().message));
        if (!std::holds_alternative<Ok>(answer->front())) give_up("the holder could not settle");
        next(Steady::now());
    }

    void next(Steady::time_point now) {
        ++tally.done_ever;
        if (window_.has(now)) ++tally.done;
        if (now < window_.to)
            claim();
        else
            ended_.count_down();
    }

    Committer& committer_;
    const Load& load_;
    const Window& window_;
    std::latch& ended_;
    OperationId id_;
    Steady::time_point sent_;
};

}  // namespace

Claim next_claim(const Policy& policy) {
    Fingerprint fingerprint;
    fingerprint.bytes.fill(7);
    return {.operation = {scope(), mint_uuid4()},
            .fingerprint = fingerprint,
            .attempt = {},
            .policy = policy,
            .key_time = {},
            .correlation = {},
            .not_after = never,
            .in_transaction = false};
}

std::string outcome_body(std::size_t bytes) { return std::string(bytes, 'b'); }

Run run_callbacks(Committer& committer, const Load& load) {
    const Window window = window_of(load);
    std::latch ended(static_cast<std::ptrdiff_t>(load.callers));
    std::deque<Caller> callers;
    for (std::size_t i = 0; i < load.callers; ++i) callers.emplace_back(committer, load, window, ended);
    for (Caller& caller : callers) caller.claim();
    ended.wait();
    return sum(callers, load);
}

Run run_threads(Committer& committer, const Load& load) {
    struct Blocked {
        Tally tally;
    };
    const Window window = window_of(load);
    std::deque<Blocked> callers(load.callers);
    const auto work = [&](Tally& tally) {
        while (true) {
            Claim command = next_claim(load.policy);
            const OperationId id = command.operation.id();
            const auto sent = Steady::now();
            if (sent >= window.to) return;
            auto answer = committer.claim(std::move(command));
            auto now = Steady::now();
            if (!answer) give_up(fmt::format("claim: {}", answer.failure().message));
            const auto* claimed = std::get_if<Claimed>(&*answer);
            if (claimed == nullptr) give_up("a new key was not claimed");
            if (window.has(now)) tally.micros.push_back(micros_between(sent, now));
            if (load.settles) {
                auto settled = committer.settle({id, claimed->token, claimed->attempt},
                                                Outcome{200, outcome_body(load.body_bytes), true});
                if (!settled) give_up(fmt::format("settle: {}", settled.failure().message));
                now = Steady::now();
            }
            ++tally.done_ever;
            if (window.has(now)) ++tally.done;
        }
    };
    std::vector<std::jthread> threads;
    for (Blocked& caller : callers) threads.emplace_back(work, std::ref(caller.tally));
    threads.clear();
    return sum(callers, load);
}

}  // namespace semel::bench
