// Drivers compared with the memory store over random sequences of commands, with shrinking: whatever happens, in
// whatever order and batches, a driver answers and remembers what the model does.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "support/commands.hpp"
#include "support/stores.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

constexpr int keys = 3;
constexpr int holders_max = 6;

/// One step of a sequence, small enough to shrink and to read.
struct Step {
    enum What { claim, renew, save, settle, release, abandon, resolve, group, pass, sweep, restart } what;
    int key;
    int variant;
};

std::ostream& operator<<(std::ostream& out, const Step& step) {
    static const char* names[] = {"claim",   "renew", "save", "settle", "release", "abandon",
                                  "resolve", "group", "pass", "sweep",  "restart"};
    return out << names[step.what] << "(" << step.key << "," << step.variant << ")";
}

rc::Gen<Step> any_step() {
    return rc::gen::build<Step>(rc::gen::set(&Step::what, rc::gen::weightedElement<Step::What>({{8, Step::claim},
                                                                                                {2, Step::renew},
                                                                                                {2, Step::save},
                                                                                                {4, Step::settle},
                                                                                                {2, Step::release},
                                                                                                {2, Step::abandon},
                                                                                                {2, Step::resolve},
                                                                                                {2, Step::group},
                                                                                                {3, Step::pass},
                                                                                                {2, Step::sweep},
                                                                                                {1, Step::restart}})),
                                rc::gen::set(&Step::key, rc::gen::inRange(0, keys)),
                                rc::gen::set(&Step::variant, rc::gen::inRange(0, 12)));
}

/// A store with what a client of it remembers: the claims it was granted.
class Side {
public:
    explicit Side(StoreUnderTest& world) : world_(world) {
        world_.clear();
        open();
    }

    Answer execute(Command command) { return test::execute(*session_, std::move(command)); }
    void open() { session_ = world_.store().session().value(); }
    void restart() {
        session_.reset();
        world_.restart();
        open();
    }
    StoreUnderTest& world() { return world_; }

    struct Grant {
        Claim claim;
        Claimed claimed;
    };
    std::vector<Grant> grants;
    std::vector<Claim> claims;

private:
    StoreUnderTest& world_;
    std::unique_ptr<Session> session_;
};

/// Times and tokens differ between clocks and counters; everything else has to be equal.
std::string essence(const Answer& answer) {
    const auto outcome = [](const Outcome& o) {
        return std::to_string(o.status) + "/" + o.body + (o.kept ? "" : "/tombstone");
    };
    return std::visit(
        match{[](const Claimed& a) {
                  std::string text =
                      std::string("claimed") + (a.doubt ? " doubt" : "") + " tries " + std::to_string(a.tries);
                  for (const Checkpoint& c : a.checkpoints) text += " " + c.name + "=" + c.value;
                  if (!a.request.empty()) text += " request " + a.request;
                  return text;
              },
              [&](const Replay& a) { return "replay " + outcome(a.outcome); },
              [](const Busy&) { return std::string("busy"); }, [](const Mismatch&) { return std::string("mismatch"); },
              [](const Unknown&) { return std::string("unknown"); },
              [](const Expired&) { return std::string("expired"); },
              [](const Ok& a) {
                  return "ok " + std::string(a.state ? name(*a.state) : "absent") +
                         (a.checkpoint ? " " + a.checkpoint->value : "");
              },
              [&](const Settled& a) { return "settled " + outcome(a.outcome); },
              [](const Fenced&) { return std::string("fenced"); },
              [](const TooEarly&) { return std::string("too early"); }, [](const Late&) { return std::string("late"); },
              [](const Withheld&) { return std::string("withheld"); }},
        answer);
}

std::string essence(const std::optional<Record>& record) {
    if (!record) return "absent";
    const Record& r = *record;
    std::string text = std::string(name(r.state)) + (r.doubt ? " doubt" : "") + (r.touched ? " touched" : "") +
                       (r.unfilled ? " unfilled" : "") + " tries " + std::to_string(r.tries) + " policy " +
                       std::string(name(r.policy.on_unknown)) + " outcome " + std::to_string(r.outcome.status) + "/" +
                       r.outcome.body + (r.outcome.kept ? "" : "/tombstone") + " by " + r.resolved_by + " key " +
                       (r.operation ? r.operation->text() : "-") + " correlation " + r.correlation;
    for (const Checkpoint& c : r.checkpoints) text += " " + c.name + "=" + c.value;
    if (!r.request.empty()) text += " request " + r.request;
    for (const HistoryEntry& e : r.history) text += " " + std::string(name(e.what));
    return text;
}

std::string key_of(int key) { return "key-" + std::to_string(key); }

Claim make_claim(const Step& step, TimePoint now) {
    static const Policy policies[] = {
        {.on_unknown = OnUnknown::refuse, .retention = {.identity = 24h, .response = 2h}},
        {.on_unknown = OnUnknown::retry, .dedup_window = 3h, .lease = 1h},
        {.on_unknown = OnUnknown::resume, .lease = 1h, .retention = {.identity = {}, .response = {}}},
        {.on_unknown = OnUnknown::joined, .lease = 1h, .retention = {.identity = 2h, .response = 1h}},
    };
    Claim made = claim(key_of(step.key), step.variant % 6 == 5 ? "other body" : "body");
    made.policy = policies[step.variant % 4];
    made.correlation = step.variant % 2 == 0 ? "order" : "";
    if (step.variant % 3 != 0) made.request = "asked " + std::to_string(step.variant);
    if (step.variant == 11) made.key_time = now - 25h;
    if (step.variant == 10) made.key_time = now - 1h;
    return made;
}

/// Does the step on one side and says what came of it.
std::string run(Side& side, const Step& step) {
    const auto grant = [&]() -> const Side::Grant* {
        // Mostly one's own last grant, sometimes an older one: a stale holder.
        if (side.grants.empty()) return nullptr;
        const std::size_t back = step.variant % 4 == 3 ? std::min<std::size_t>(side.grants.size(), 3) : 1;
        return &side.grants[side.grants.size() - back];
    };
    const auto by_holder = [&](auto make) -> std::string {
        const Side::Grant* g = grant();
        return g == nullptr ? "nobody" : essence(side.execute(make(holder(g->claim, g->claimed))));
    };
    switch (step.what) {
        case Step::claim: {
            // One in twelve repeats an earlier claim with the same attempt id.
            const bool repeat = step.variant == 9 && !side.claims.empty();
            const Claim command = repeat ? side.claims.back() : make_claim(step, side.world().store().now().value());
            const Answer answer = side.execute(command);
            side.claims.push_back(command);
            if (const auto* granted = std::get_if<Claimed>(&answer)) {
                side.grants.push_back({command, *granted});
                if (side.grants.size() > holders_max) side.grants.erase(side.grants.begin());
            }
            return essence(answer);
        }
        case Step::renew: return by_holder([](Holder h) { return Renew{h}; });
        case Step::save:
            return by_holder([&](Holder h) {
                return SaveCheckpoint{h, {"step" + std::to_string(step.key), std::to_string(step.variant)}};
            });
        case Step::settle:
            return by_holder([&](Holder h) {
                const std::string body = "outcome " + std::to_string(step.variant);
                return Settle{h, step.variant == 7 ? Outcome::tombstone(200) : Outcome{200 + step.key, body, true},
                              step.variant % 5 != 4};
            });
        case Step::release: return by_holder([](Holder h) { return Release{h}; });
        case Step::abandon: return by_holder([](Holder h) { return Abandon{h}; });
        case Step::resolve: {
            const Side::Grant* g = grant();
            if (g == nullptr) return "nobody";
            std::optional<Outcome> verdict;
            if (step.variant % 2 == 0) verdict = Outcome{299, "resolved", true};
            return essence(side.execute(Resolve{g->claim.operation.id(), g->claimed.token, verdict, "ann", "why"}));
        }
        case Step::group: {
            const Side::Grant* g = grant();
            const Claim child = make_claim(step, side.world().store().now().value());
            if (g == nullptr || g->claim.operation == child.operation) return "nobody";
            Group group;
            group.commands.push_back(SaveCheckpoint{holder(g->claim, g->claimed), {"child", "started"}});
            group.commands.push_back(child);
            auto executed = side.world().store().session().value()->execute(std::span(&group, 1));
            const auto& answers = executed.value().answers[0].value();
            if (const auto* granted = std::get_if<Claimed>(&answers[1])) side.grants.push_back({child, *granted});
            return essence(answers[0]) + " + " + essence(answers[1]);
        }
        case Step::pass: side.world().pass(step.variant < 4 ? 10min : step.variant < 9 ? 61min : 25h); return "passed";
        case Step::sweep: {
            const auto swept = side.world().store().sweep(step.variant < 6 ? 1 : 100, true);
            return "swept " + std::to_string(swept.value().bodies_dropped) + "+" +
                   std::to_string(swept.value().removed);
        }
        case Step::restart:
            if (side.world().embedded()) side.restart();
            return "restarted";
    }
    return "?";
}

void compare(const StoreKind& kind) {
    const auto model_world = all_stores().front().make();
    const auto driver_world = kind.make();
    const bool embedded = driver_world->embedded();
    int compared = 0;
    const bool agreed = rc::check("the driver agrees with the model", [&] {
        const auto steps = *rc::gen::container<std::vector<Step>>(any_step());
        Side model(*model_world);
        Side driver(*driver_world);
        for (const Step& step : steps) {
            // A store with leases of its own does not notice a restart.
            if (step.what == Step::restart && !embedded) continue;
            // Which of several due records a limited sweep takes is the store's own affair.
            Step same = step;
            if (step.what == Step::sweep) same.variant = 11;
            const std::string expected = run(model, same);
            const std::string actual = run(driver, same);
            RC_ASSERT(actual == expected);
            for (int k = 0; k < keys; ++k) {
                const OperationId id = operation(key_of(k)).id();
                const std::string expected_record = essence(model.world().store().find(id).value());
                const std::string actual_record = essence(driver.world().store().find(id).value());
                RC_ASSERT(actual_record == expected_record);
            }
            ++compared;
        }
    });
    EXPECT_TRUE(agreed);
    EXPECT_GT(compared, 500) << "too few steps were compared to mean anything";
}

class Comparison : public testing::TestWithParam<StoreKind> {};

TEST_P(Comparison, AgreesWithTheMemoryStoreOverRandomCommands) { compare(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Drivers, Comparison, testing::ValuesIn(all_stores().begin() + 1, all_stores().end()),
                         [](const testing::TestParamInfo<StoreKind>& kind) { return kind.param.name; });

}  // namespace
}  // namespace semel::test
