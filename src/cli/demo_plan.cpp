#include "cli/demo_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/random.hpp"
#include "semel/keys.hpp"

namespace semel::cli::demo {
namespace {

constexpr std::size_t crashes_max = 6;  // each takes the API down for a moment

/// How many of so many payments have it; at least one.
std::size_t share(Trouble trouble, std::size_t payments) {
    std::size_t wanted = 0;
    switch (trouble) {
        case Trouble::none: return 0;
        case Trouble::client_timeout:
        case Trouble::double_click:
        case Trouble::proxy_retry: wanted = payments / 8; break;
        case Trouble::late_retry:
        case Trouble::other_spelling:
        case Trouble::key_reuse:
        case Trouble::server_error:
        case Trouble::server_busy: wanted = payments / 20; break;
        case Trouble::answer_lost: wanted = payments / 60; break;
        case Trouble::server_crash: wanted = std::min(crashes_max, payments / 100); break;
    }
    return std::max<std::size_t>(wanted, 1);
}

}  // namespace

std::string_view name(Trouble trouble) {
    switch (trouble) {
        case Trouble::none: return "nothing";
        case Trouble::client_timeout: return "client timeout";
        case Trouble::double_click: return "double click";
        case Trouble::proxy_retry: return "proxy retry";
        case Trouble::late_retry: return "late retry";
        case Trouble::other_spelling: return "key spelt otherwise";
        case Trouble::key_reuse: return "key of another payment";
        case Trouble::server_error: return "API error";
        case Trouble::server_busy: return "API busy";
        case Trouble::answer_lost: return "API answer lost";
        case Trouble::server_crash: return "API crash";
    }
    return "?";
}

std::string_view told(Trouble trouble) {
    switch (trouble) {
        case Trouble::none: return "the answer";
        case Trouble::client_timeout: return "409 while it runs, then the first answer";
        case Trouble::double_click: return "409 while it runs, then the first answer";
        case Trouble::proxy_retry: return "the first answer";
        case Trouble::late_retry: return "the first answer";
        case Trouble::other_spelling: return "the first answer";
        case Trouble::key_reuse: return "422, nothing charged";
        case Trouble::server_error: return "the first answer: it may have charged";
        case Trouble::server_busy: return "503, then a first answer: it was free to run";
        case Trouble::answer_lost: return "outcome unknown, never charged again";
        case Trouble::server_crash: return "outcome unknown, never charged again";
    }
    return "?";
}

std::string Step::json() const { return fmt::format(R"({{"amount":{},"currency":"EUR"}})", cents); }

Plan make_plan(std::uint64_t payments, std::uint64_t seed) {
    SeededRandom random(seed);
    // Keys that the seed fixes; a real client mints them at random, before its first try.
    const Operation client{Scope::make("demo", "client").value(), Key::parse(fmt::format("seed {}", seed)).value()};
    Plan plan;
    for (std::uint64_t i = 0; i < payments; ++i)
        plan.steps.push_back({.key = derive(client, fmt::format("order {}", i + 1)),
                              .cents = static_cast<std::int64_t>(100 + random.below(99'900))});
    std::vector<std::size_t> order(plan.steps.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = 0; i + 1 < order.size(); ++i) std::swap(order[i], order[i + random.below(order.size() - i)]);
    auto next = order.begin();
    for (const Trouble trouble : all_troubles)
        for (std::size_t left = share(trouble, plan.steps.size()); left > 0 && next != order.end(); --left)
            plan.steps[*next++].trouble = trouble;
    return plan;
}

}  // namespace semel::cli::demo
