#include "cli/demo_traffic.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace semel::cli::demo {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds impatience{15};   // of a client that hangs up
constexpr milliseconds again_after{15};  // shorter than Retry-After says: clients are like that
constexpr milliseconds comes_to_an_end{30'000};
constexpr std::size_t clicks = 3;

std::string in_double_quotes(const std::string& key) { return '"' + key + '"'; }

Fault fault_of(Trouble trouble) {
    switch (trouble) {
        case Trouble::none:
        case Trouble::proxy_retry:
        case Trouble::late_retry:
        case Trouble::other_spelling:
        case Trouble::key_reuse: return Fault::none;
        case Trouble::client_timeout:
        case Trouble::double_click: return Fault::slow;
        case Trouble::server_error: return Fault::error;
        case Trouble::server_busy: return Fault::busy;
        case Trouble::answer_lost: return Fault::drop;
        case Trouble::server_crash: return Fault::crash;
    }
    return Fault::none;
}

}  // namespace

bool Verdict::passed() const { return std::ranges::all_of(checks, &Check::passed); }

Traffic::Traffic(const Plan& plan, const PaymentsApi& api, std::uint16_t gateway, milliseconds lasting)
    : plan_(plan),
      api_(api),
      client_(gateway),
      lasting_(lasting),
      stories_(plan.steps.size()),
      sent_(plan.steps.size()) {
    for (std::size_t i = 0; i < plan.steps.size(); ++i)
        if (plan.steps[i].trouble == Trouble::late_retry) late_.push_back(i);
    for (std::size_t i = 0; i < clients; ++i) threads_.emplace_back([this] { work(); });
}

Traffic::~Traffic() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    stop_.notify_all();
    for (std::thread& each : threads_) each.join();
}

Tally Traffic::tally() const {
    const std::lock_guard lock(mutex_);
    return tally_;
}

std::optional<Failure> Traffic::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

// ---- the clients -----------------------------------------------------------------------------------------------

void Traffic::work() {
    const std::size_t payments = plan_.steps.size();
    const std::size_t all = payments + late_.size();
    for (std::size_t i = next_++; i < all; i = next_++) {
        if (!rest(began_ + lasting_ * i / all)) break;
        if (i < payments)
            play(i);
        else
            pay(late_[i - payments],
                {.key = plan_.steps[late_[i - payments]].key.text(), .body = plan_.steps[late_[i - payments]].json()});
    }
    --running_;
}

/// A payment on its way, with what happens to it.
void Traffic::play(std::size_t number) {
    const Step& step = plan_.steps[number];
    const PaymentRequest first{.key = step.key.text(), .body = step.json(), .fault = fault_of(step.trouble)};
    PaymentRequest again = first;
    again.fault = Fault::none;
    switch (step.trouble) {
        case Trouble::client_timeout:
            if (send(number, first, impatience)) pay(number, again);
            break;
        case Trouble::double_click: click(number, first); break;
        case Trouble::key_reuse:
            pay(number, first);
            reuse(number, again);
            pay(number, again);
            break;
        case Trouble::other_spelling:
            pay(number, first);
            again.key = in_double_quotes(again.key);
            pay(number, again);
            break;
        case Trouble::none:
        case Trouble::late_retry: pay(number, first); break;
        case Trouble::proxy_retry:
        case Trouble::server_error:
        case Trouble::server_busy:
        case Trouble::answer_lost:
        case Trouble::server_crash:
            pay(number, first);
            pay(number, again);
            break;
    }
    const std::lock_guard lock(mutex_);
    ++tally_.done;
}

void Traffic::click(std::size_t number, const PaymentRequest& request) {
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < clicks; ++i) others.emplace_back([&] { pay(number, request); });
    pay(number, request);
    for (std::thread& each : others) each.join();
}

/// The key of this payment for another one.
void Traffic::reuse(std::size_t number, PaymentRequest request) {
    Step other = plan_.steps[number];
    other.cents += 1;
    request.body = other.json();
    const auto told = send(number, request, answer_within);
    const std::lock_guard lock(mutex_);
    if (told && *told != Told::mismatch) stories_[number].surprised = true;
}

void Traffic::pay(std::size_t number, PaymentRequest request) {
    const auto until = Steady::now() + comes_to_an_end;
    while (Steady::now() < until) {
        const auto told = send(number, request, answer_within);
        if (!told) return;
        switch (*told) {
            case Told::answered:
            case Told::mismatch:
            case Told::unknown:
            case Told::surprise: return;
            case Told::unreachable: break;
            case Told::in_progress:
            case Told::busy:
            case Told::hung_up: request.fault = Fault::none; break;  // it got there: this was its first try
        }
        if (!rest(again_after)) return;
    }
}

std::optional<Traffic::Told> Traffic::send(std::size_t number, const PaymentRequest& request, milliseconds patience) {
    {
        const std::lock_guard lock(mutex_);
        if (stopping_) return std::nullopt;
        ++tally_.requests;
        if (sent_[number] && request.body == plan_.steps[number].json()) ++tally_.duplicates;
        sent_[number] = true;
    }
    const auto response = client_.pay(request, patience);
    const std::lock_guard lock(mutex_);
    if (!response) {
        if (!failure_) failure_ = response.failure();
        stopping_ = true;
        stop_.notify_all();
        return std::nullopt;
    }
    return take(number, *response);
}

/// Under the lock.
Traffic::Told Traffic::take(std::size_t number, const std::optional<verify::Response>& response) {
    Story& story = stories_[number];
    if (!response) {
        ++tally_.hung_up;
        return Told::hung_up;
    }
    const std::string_view problem = problem_of(*response);
    if (problem == "in-progress") {
        ++tally_.conflicts;
        return Told::in_progress;
    }
    if (problem == "key-reused") {
        ++tally_.mismatches;
        return Told::mismatch;
    }
    if (problem == "outcome-unknown" || problem == "upstream-failed" || problem == "upstream-timeout") {
        ++tally_.unknown;
        story.unknown = true;
        return Told::unknown;
    }
    if (problem == "upstream-unreachable") {
        ++tally_.released;
        return Told::unreachable;
    }
    if (response->status == 503) {
        ++tally_.released;
        return Told::busy;
    }
    ++(is_replay(*response) ? tally_.replays : tally_.performed);
    if (!story.answer) story.answer = *response;
    if (!same_answer(*story.answer, *response)) story.differs = true;
    if (problem.empty() && (response->status == 201 || response->status == 500)) return Told::answered;
    story.surprised = true;
    return Told::surprise;
}

/// False: it is to end.
bool Traffic::rest(Steady::time_point until) {
    std::unique_lock lock(mutex_);
    return !stop_.wait_until(lock, until, [this] { return stopping_; });
}

// ---- the verdict -----------------------------------------------------------------------------------------------

Verdict Traffic::judge() const {
    const std::lock_guard lock(mutex_);
    Verdict verdict;
    std::uint64_t twice = 0;
    std::uint64_t without_charge = 0;
    std::uint64_t differing = 0;
    std::uint64_t unexplained = 0;
    std::uint64_t told_both = 0;
    for (std::size_t i = 0; i < stories_.size(); ++i) {
        const Story& story = stories_[i];
        const std::uint64_t charges = api_.charges_of(plan_.steps[i].key.text());
        verdict.charges += charges;
        if (charges > 1) ++twice;
        if (story.answer && charges == 0) ++without_charge;
        if (story.differs) ++differing;
        if (story.surprised || (!story.answer && !story.unknown)) ++unexplained;
        if (story.answer && story.unknown) ++told_both;
        if (story.unknown) {
            ++verdict.unknown;
            verdict.unknown_charged += charges;
        }
    }
    const auto check = [&](std::uint64_t wrong, std::string what) {
        verdict.checks.push_back({wrong == 0, wrong == 0 ? std::move(what) : fmt::format("{} ({} not)", what, wrong)});
    };
    check(twice, fmt::format("{} payments, {} charges: none was charged twice", stories_.size(), verdict.charges));
    check(without_charge, "every payment that was answered was charged exactly once");
    check(differing, "every duplicate got the first answer, byte for byte");
    check(told_both,
          fmt::format("{} outcomes hidden by the API were told as unknown ({} of them charged), never guessed",
                      verdict.unknown, verdict.unknown_charged));
    check(unexplained, "every request was told what became of it");
    return verdict;
}

}  // namespace semel::cli::demo
