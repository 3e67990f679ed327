#include "cli/demo_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/random.hpp"
#include "semel/keys.hpp"

namespace semel::cli::demo {
namespace {

constexpr std::size_t crashes_max = 10;
constexpr std::size_t goes_back_max = 8;

/// `count` of the steps, chosen at random; at least one, at most all.
std::vector<std::size_t> choose(Random& random, std::size_t steps, std::size_t count) {
    std::vector<std::size_t> all(steps);
    std::iota(all.begin(), all.end(), std::size_t{0});
    const std::size_t wanted = std::clamp<std::size_t>(count, 1, steps);
    for (std::size_t i = 0; i < wanted; ++i) std::swap(all[i], all[i + random.below(steps - i)]);
    all.resize(wanted);
    return all;
}

}  // namespace

std::string_view name(Duplicate duplicate) {
    switch (duplicate) {
        case Duplicate::client_retry: return "client retry";
        case Duplicate::lost_acknowledgement: return "lost acknowledgement";
        case Duplicate::broker_replay: return "broker replay";
        case Duplicate::consumer_crash: return "consumer crash before commit";
        case Duplicate::database_reply_lost: return "database reply lost";
    }
    return "?";
}

std::string_view absorbed_by(Duplicate duplicate) {
    switch (duplicate) {
        case Duplicate::client_retry: return "the first answer, replayed";
        case Duplicate::lost_acknowledgement: return "once, in its transaction";
        case Duplicate::broker_replay: return "once, in its transaction";
        case Duplicate::consumer_crash: return "rollback of claim and effect";
        case Duplicate::database_reply_lost: return "the same ids, sent again";
    }
    return "?";
}

std::string Payment::json() const {
    return fmt::format(R"({{"account":"{}","amount":"{}.{:02}","order":"{}"}})", account, cents / 100, cents % 100,
                       correlation);
}

Plan make_plan(std::uint64_t payments, std::uint64_t seed) {
    SeededRandom random(seed);
    Plan plan;
    plan.accounts = {"alice", "bob", "carol", "dan", "erin"};
    // Keys that the seed fixes; a real client mints them at random, before its first try.
    const Operation client{Scope::make("demo", "client").value(), Key::parse(fmt::format("seed {}", seed)).value()};
    for (std::uint64_t i = 0; i < payments; ++i) {
        const std::string order = fmt::format("order-{:04}", i + 1);
        plan.steps.push_back({Payment{.key = derive(client, order),
                                      .account = plan.accounts[random.below(plan.accounts.size())],
                                      .cents = static_cast<std::int64_t>(100 + random.below(99'900)),
                                      .correlation = order}});
    }
    auto& steps = plan.steps;
    const std::size_t n = steps.size();
    for (const std::size_t i : choose(random, n, n / 5)) {
        steps[i].client_retries = true;
        steps[i].retry_overtakes = random.below(2) == 0;
    }
    for (const std::size_t i : choose(random, n, n / 8)) steps[i].acknowledgement_lost = true;
    for (const std::size_t i : choose(random, n, n / 12)) steps[i].consumer_reply_lost = true;
    for (const std::size_t i : choose(random, n, n / 20)) steps[i].claim_reply_lost = true;
    for (const std::size_t i : choose(random, n, n / 20)) steps[i].settle_reply_lost = true;
    for (const std::size_t i : choose(random, n, std::clamp<std::size_t>(n / 40, 3, crashes_max)))
        steps[i].consumer_crashes = true;
    for (const std::size_t i : choose(random, n, 4))
        steps[i].broker_goes_back = std::min(i + 1, 1 + random.below(goes_back_max));
    return plan;
}

}  // namespace semel::cli::demo
