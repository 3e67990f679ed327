#include "outbox_simulation.hpp"

#include <algorithm>
#include <stop_token>

#include "outbox/pump.hpp"
#include "outbox_world.hpp"

namespace semel::sim {
namespace {

class StageClock final : public Clock {
public:
    explicit StageClock(Stage& stage) : stage_(stage) {}
    [[nodiscard]] Steady steady() const override {
        // Time stands still while somebody works: whoever asks again and again does not wait for anything.
        constexpr std::uint64_t asked_max = 100'000;
        if (std::exchange(last_, stage_.now()) != stage_.now()) asked_ = 0;
        if (++asked_ > asked_max) stage_.violated("who has nothing to do waits", "a relay goes round in circles");
        return stage_.steady();
    }
    [[nodiscard]] TimePoint wall() const override { return time_from_micros(0) + stage_.now(); }

private:
    Stage& stage_;
    mutable Duration last_{0};
    mutable std::uint64_t asked_ = 0;
};

/// One life of a `semel outbox`.
class Relay : public std::enable_shared_from_this<Relay> {
public:
    Relay(Stage& stage, const Clock& clock, OutboxDatabase& database, SimBroker& broker,
          const outbox::PumpOptions& options, std::string name, bool hears)
        : stage_(stage),
          name_(std::move(name)),
          fibers_([this](Duration delay, What what) { post(delay, std::move(what)); }),
          table_(stage, database, fibers_, name_, hears),
          publisher_(stage, broker, fibers_),
          pump_(
              table_, publisher_, options, [this](auto, auto text) { stage_.trace("{}: {}", name_, text); }, clock) {}

    void start() {
        stage_.trace("{} starts", name_);
        fibers_.start([this] { pump_.run(stop_.get_token()); });
    }
    void die() {
        stage_.trace("{} dies", name_);
        alive_ = false;
        fibers_.kill();
    }
    void pause(Duration how_long) {
        stage_.trace("{} sleeps for {} ms", name_, how_long / milliseconds{1});
        paused_until_ = std::max(paused_until_, stage_.now() + how_long);
    }
    void stop() { stop_.request_stop(); }
    [[nodiscard]] bool over() const { return fibers_.all_over(); }

private:
    void post(Duration delay, What what) {
        stage_.after(delay, [weak = weak_from_this(), what = std::move(what)]() mutable {
            if (const auto self = weak.lock()) self->run(std::move(what));
        });
    }
    void run(What what) {
        if (!alive_) return;
        if (stage_.now() < paused_until_) return post(paused_until_ - stage_.now(), std::move(what));
        what();
    }

    Stage& stage_;
    std::string name_;
    bool alive_ = true;
    Duration paused_until_{0};
    std::stop_source stop_;
    Fibers fibers_;
    SimTable table_;
    SimPublisher publisher_;
    outbox::Pump pump_;
};

class OutboxSimulation {
public:
    explicit OutboxSimulation(const Options& options);
    ~OutboxSimulation();
    Report run();

private:
    void start(std::size_t slot);
    void crash_one();
    void arrivals();
    void stage_some();
    void misfortune();
    void calm();
    /// Lets time pass until it is so.
    template <class So>
    bool within(Duration how_long, So so);
    [[nodiscard]] std::string key(std::size_t number) const { return fmt::format("key{}", number); }

    Options options_;
    Stage stage_;
    StageClock clock_;
    OutboxJudge judge_;
    OutboxDatabase database_;
    SimBroker broker_;
    outbox::PumpOptions pump_;
    bool hears_;
    std::size_t keys_;
    std::vector<std::shared_ptr<Relay>> relays_;
    std::uint64_t last_relay_ = 0;
};

OutboxSimulation::OutboxSimulation(const Options& options)
    : options_(options),
      stage_(options.seed, options.trace, options.only),
      clock_(stage_),
      judge_(stage_),
      database_(stage_, judge_),
      broker_(stage_, judge_),
      hears_(stage_.below(3) != 0),
      keys_(1 + stage_.below(8)) {
    constexpr std::size_t batches[] = {1, 10, 40, 2000};
    pump_.lease = stage_.between(seconds{2}, seconds{10});
    pump_.batch = batches[stage_.below(4)];
    pump_.retry_max = seconds{10};
    relays_.resize(1 + stage_.below(3));
    stage_.trace("seed {}: outbox, {} relays, {} keys, batches of {}{}", options.seed, relays_.size(), keys_,
                 pump_.batch, broker_.keeps_order() ? ", the broker keeps the order" : "");
    for (std::size_t slot = 0; slot < relays_.size(); ++slot) start(slot);
}

OutboxSimulation::~OutboxSimulation() {
    stage_.clear();
    for (const auto& relay : relays_)
        if (relay) relay->die();
}

void OutboxSimulation::start(std::size_t slot) {
    relays_[slot] = std::make_shared<Relay>(stage_, clock_, database_, broker_, pump_,
                                            fmt::format("relay {}", ++last_relay_), hears_);
    relays_[slot]->start();
}

void OutboxSimulation::crash_one() {
    const std::size_t slot = stage_.below(relays_.size());
    if (!relays_[slot]) return;
    stage_.count(Fault::crash);
    relays_[slot]->die();
    relays_[slot].reset();
    stage_.after(stage_.between(milliseconds{100}, seconds{5}), [this, slot] { start(slot); });
}

void OutboxSimulation::stage_some() {
    const bool keyed = !stage_.chance(0.2);
    database_.stage_events(keyed ? key(stage_.below(keys_)) : "", 1 + stage_.below(3));
}

void OutboxSimulation::arrivals() {
    if (stage_.calm()) return;
    stage_some();
    stage_.after(stage_.between(milliseconds{20}, milliseconds{1000}), [this] { arrivals(); });
}

void OutboxSimulation::misfortune() {
    if (stage_.chance(stage_.rate(Fault::crash))) crash_one();
    if (stage_.strikes(Fault::instance_paused))
        if (const auto& relay = relays_[stage_.below(relays_.size())])
            relay->pause(stage_.between(seconds{1}, seconds{25}));
    if (stage_.strikes(Fault::outage)) database_.outage(stage_.between(milliseconds{100}, seconds{15}));
    if (stage_.strikes(Fault::broker_outage)) broker_.outage(stage_.between(milliseconds{100}, seconds{15}));
    if (stage_.strikes(Fault::clock_jump)) database_.clock_jumps(stage_.between(seconds{-20}, seconds{20}));
}

template <class So>
bool OutboxSimulation::within(Duration how_long, So so) {
    const Duration until = stage_.now() + how_long;
    while (!so() && stage_.now() < until)
        if (!stage_.step()) break;
    return so();
}

void OutboxSimulation::calm() {
    stage_.trace("calm");
    stage_.calm_down();
    database_.heal();
    broker_.heal();
    // One event that the broker will not take: everybody else's go on.
    const std::string stuck = key(0);
    database_.stage_events(stuck, 2);
    for (std::size_t i = 0; i < keys_ * 2; ++i) database_.stage_events(key(i % keys_), 1);
    if (!within(seconds{60}, [&] { return database_.first_of(stuck).has_value(); }) && judge_.missing() > 0)
        stage_.violated("every committed event is published", "nothing of {} is there", stuck);
    if (const auto first = database_.first_of(stuck)) broker_.refuse(*first, Duration::max());
    // A lease, a pause that a relay slept into, the longest pause after failures, and time for the work.
    constexpr Duration enough = seconds{120};
    if (!within(enough, [&] { return judge_.missing_but(stuck) == 0; }))
        stage_.violated("a stuck key stops nobody else", "{} events of other keys are not published",
                        judge_.missing_but(stuck));
    broker_.heal();
    if (!within(enough, [&] { return judge_.missing() == 0 && database_.empty(); }))
        stage_.violated("every committed event is published", "{} are not", judge_.missing());
    // Whatever faults had left behind is over.
    within(seconds{30}, [] { return false; });
    judge_.expect_no_copies();
    for (int i = 0; i < 20; ++i) stage_some();
    if (!within(enough, [&] { return judge_.missing() == 0 && database_.empty(); }))
        stage_.violated("every committed event is published", "{} are not", judge_.missing());
    for (const auto& relay : relays_)
        if (relay) relay->stop();
    const auto all_over = [&] {
        return std::ranges::all_of(relays_, [](const auto& relay) { return !relay || relay->over(); });
    };
    if (!within(seconds{60}, all_over)) stage_.violated("a relay that is asked to stop stops", "one does not");
}

Report OutboxSimulation::run() {
    stage_.after(Duration{0}, [this] { arrivals(); });
    for (std::uint64_t i = 0; i < options_.steps / 2; ++i) {
        misfortune();
        stage_.step();
    }
    calm();
    return {stage_.counts(), stage_.trace_hash()};
}

}  // namespace

bool judged_of_outbox(std::string_view invariant) {
    constexpr std::string_view all[] = {"only what is committed is published",
                                        "with faults off each event is published once",
                                        "first occurrences in the order of commits",
                                        "one event of a key is on its way at a time",
                                        "nothing is removed before the broker has it",
                                        "every committed event is published",
                                        "who has nothing to do waits",
                                        "a stuck key stops nobody else",
                                        "a relay that is asked to stop stops"};
    return std::ranges::find(all, invariant) != std::end(all);
}

Report simulate_outbox(const Options& options) {
    OutboxSimulation simulation(options);
    return simulation.run();
}

}  // namespace semel::sim
