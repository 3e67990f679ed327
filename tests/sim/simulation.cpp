#include "simulation.hpp"

#include <algorithm>

#include "handler.hpp"
#include "instance.hpp"
#include "intent_handler.hpp"
#include "judge.hpp"
#include "ledger/mutation.hpp"
#include "ledger/record_json.hpp"
#include "sim_store.hpp"
#include "workflow_host.hpp"
#include "world.hpp"

namespace semel::sim {
namespace {

class Simulation {
public:
    explicit Simulation(const Options& options);
    ~Simulation();
    Report run();

private:
    struct Client {
        const Subject* subject;
        Fingerprint fingerprint;
        Policy policy;
        int tries_left;
    };
    struct Watch {
        Token token;
        TimePoint lease_until;
        Duration since{0};
    };

    // processes
    void start(std::size_t slot);
    void crash_one();
    [[nodiscard]] std::shared_ptr<Instance> anyone();
    // clients
    void arrivals();
    void add_clients(const Subject& subject);
    void request(Client client);
    void told(Client client, Told told);
    void hand_over(const std::shared_ptr<Instance>& instance, const Request& what, Tell tell);
    // the completer
    void completes();
    void carry_on();
    // people and the sweep
    void people();
    void look(const Subject& subject);
    [[nodiscard]] bool waited_long_enough(const Record& record);
    void sweeps();
    // the run
    void misfortune();
    void calm();
    [[nodiscard]] bool all_ended() const;

    Options options_;
    Stage stage_;
    World world_;
    Judge judge_;
    SimStore store_;
    CommitterOptions committer_;
    Order order_;
    std::vector<std::shared_ptr<Instance>> instances_;
    std::vector<std::unique_ptr<WorkflowHost>> hosts_;  // of the workflows, by slot
    ProcessId last_process_ = 0;
    std::uint64_t last_request_ = 0;
    std::map<OperationId, Watch> watches_;
    bool clock_jumps_;
    bool clock_goes_back_;
};

Simulation::Simulation(const Options& options)
    : options_(options),
      stage_(options.seed, options.trace, options.only),
      world_(stage_),
      judge_(stage_, world_),
      store_(stage_, world_, judge_, stage_.below(3) == 0 ? StoreKind::embedded : StoreKind::shared),
      order_(Order::make(stage_)),
      clock_jumps_(stage_.rate(Fault::clock_jump) > 0),
      clock_goes_back_(clock_jumps_ && stage_.below(2) == 0) {
    constexpr std::size_t batch_sizes[] = {1, 2, 4, 16, 512};
    committer_.batch_max = batch_sizes[stage_.below(5)];
    if (stage_.below(4) == 0) committer_.queue_max = 20;
    if (clock_jumps_) judge_.expect_clock_jumps();
    instances_.resize(store_.kind() == StoreKind::embedded ? 1 : 2 + stage_.below(3));
    stage_.trace("seed {}: {} store, {} processes, batches of {}", options.seed,
                 store_.kind() == StoreKind::embedded ? "embedded" : "shared", instances_.size(), committer_.batch_max);
    hosts_.resize(instances_.size());
    for (std::size_t slot = 0; slot < instances_.size(); ++slot) start(slot);
}

Simulation::~Simulation() {
    // Closures and processes hold each other.
    stage_.clear();
    hosts_.clear();
    store_.drop_everything();
    for (const auto& instance : instances_)
        if (instance && instance->alive()) instance->die();
}

// ---- processes -------------------------------------------------------------------------------------------------

void Simulation::start(std::size_t slot) {
    if (store_.kind() == StoreKind::embedded && last_process_ > 0) store_.owner_restarts();
    instances_[slot] = std::make_shared<Instance>(stage_, store_, judge_, ++last_process_, committer_);
    hosts_[slot] = std::make_unique<WorkflowHost>(instances_[slot], world_, judge_, order_);
    stage_.trace("process {} starts", last_process_);
}

void Simulation::crash_one() {
    const std::size_t slot = stage_.below(instances_.size());
    if (!instances_[slot]) return;
    stage_.count(Fault::crash);
    hosts_[slot].reset();
    instances_[slot]->die();
    store_.client_died(instances_[slot]->process());
    instances_[slot].reset();
    stage_.after(stage_.between(milliseconds{100}, seconds{5}), [this, slot] { start(slot); });
}

std::shared_ptr<Instance> Simulation::anyone() { return instances_[stage_.below(instances_.size())]; }

// ---- clients ---------------------------------------------------------------------------------------------------

void Simulation::arrivals() {
    if (stage_.calm()) return;
    if (stage_.below(6) == 0) {
        add_clients(order_.add_to(world_, stage_));
        stage_.after(stage_.between(milliseconds{50}, milliseconds{1500}), [this] { arrivals(); });
        return;
    }
    const auto kind = static_cast<Kind>(stage_.below(5));
    const bool finite = !clock_goes_back_ && kind != Kind::resume && stage_.chance(0.25);
    add_clients(world_.add(kind, store_.clock(), finite, nullptr));
    stage_.after(stage_.between(milliseconds{50}, milliseconds{1500}), [this] { arrivals(); });
}

void Simulation::add_clients(const Subject& subject) {
    const std::uint64_t count = 1 + stage_.below(5);
    for (std::uint64_t i = 0; i < count; ++i) {
        Client client{&subject, subject.fingerprint, subject.policy, static_cast<int>(3 + stage_.below(10))};
        // Some ask for a workflow once and never come back.
        if ((subject.kind == Kind::resume || subject.kind == Kind::workflow) && stage_.chance(0.5))
            client.tries_left = 1;
        if (stage_.chance(0.1))
            client.fingerprint.bytes[stage_.below(16)] ^= 1;
        else if (stage_.chance(0.05))
            ++client.fingerprint.version;
        // Configured anew between two deploys: the first claim's policy stays.
        if (subject.kind == Kind::retry && stage_.chance(0.15)) client.policy.on_unknown = OnUnknown::refuse;
        if (stage_.chance(0.1)) client.policy.retention.response = seconds{7};
        const Duration delay = stage_.chance(0.5) ? stage_.between(Duration{0}, milliseconds{30})
                                                  : stage_.between(Duration{0}, seconds{20});
        stage_.after(delay, [this, client] { request(client); });
    }
}

void Simulation::request(Client client) {
    if (client.tries_left-- <= 0) return;
    const auto instance = anyone();
    if (!instance) {
        stage_.after(stage_.between(milliseconds{100}, seconds{2}), [this, client] { request(client); });
        return;
    }
    const Request what{client.subject, client.fingerprint, client.policy, ++last_request_};
    // The client hears of it, or gives up and repeats; whichever comes first.
    auto waits = std::make_shared<bool>(true);
    hand_over(instance, what, [this, client, waits](Told told) {
        stage_.after(stage_.between(milliseconds{1}, milliseconds{20}), [this, client, waits, told] {
            if (std::exchange(*waits, false)) this->told(client, told);
        });
    });
    stage_.after(stage_.between(seconds{1}, seconds{30}), [this, client, waits] {
        if (std::exchange(*waits, false)) request(client);
    });
    if (stage_.chance(0.15)) request(client);  // a proxy that repeats at once
}

/// To what handles it there: a gateway, a consumer or a workflow; or an intent.
void Simulation::hand_over(const std::shared_ptr<Instance>& instance, const Request& what, Tell tell) {
    if (what.subject->kind == Kind::workflow) {
        const auto slot = static_cast<std::size_t>(std::ranges::find(instances_, instance) - instances_.begin());
        hosts_[slot]->run(what, std::move(tell));
        return;
    }
    const bool external = what.subject->kind == Kind::refuse || what.subject->kind == Kind::retry;
    if (external && stage_.chance(0.4)) {
        // Whether it is too early for a lookup is told by the store's clock.
        const bool lookup = !clock_jumps_ && stage_.chance(0.5);
        const auto intent = std::make_shared<IntentHandler>(instance, world_, judge_, what, lookup, std::move(tell));
        instance->post(Duration{0}, [intent] { intent->start(); });
        return;
    }
    const auto handler = std::make_shared<Handler>(instance, world_, judge_, what, std::move(tell));
    instance->post(Duration{0}, [handler] { handler->start(); });
}

// ---- the completer ---------------------------------------------------------------------------------------------

void Simulation::completes() {
    if (stage_.calm()) return;
    carry_on();
    stage_.after(stage_.between(milliseconds{500}, seconds{4}), [this] { completes(); });
}

/// Workflows that somebody left, by death or because they could not go on: carried on by whoever is alive, as
/// effects/completer.cpp does. Two of them may see the same; the claim decides.
void Simulation::carry_on() {
    if (SEMEL_MUTATION(completer_sleeps, false, true)) return;
    const auto instance = anyone();
    if (!instance) return;
    for (const auto& [id, record] : store_.records()) {
        if (!record || !world_.knows(id) || world_.subject(id).kind != Kind::resume) continue;
        const bool left = record->state == State::unknown || lease_is_over(*record, store_.clock());
        // Not started: nothing has begun, and its client comes back.
        if (!left || record->checkpoints.empty()) continue;
        // One after another: a queue that is full refuses the rest.
        const Request request{&world_.subject(id), record->fingerprint, record->policy, ++last_request_};
        instance->post(stage_.between(Duration{0}, seconds{2}), [this, instance = instance.get(), request] {
            hand_over(instance->shared_from_this(), request, [this](Told told) {
                if (told == Told::stored) stage_.count(Tally::completed);
            });
        });
    }
}

void Simulation::told(Client client, Told told) {
    switch (told) {
        case Told::mismatch:
        case Told::expired:
        case Told::refused: return;
        case Told::stored:
        case Told::replay:
            // A few ask again all the same, much later.
            if (!stage_.chance(0.3)) return;
            stage_.after(stage_.between(seconds{1}, seconds{60}), [this, client] { request(client); });
            return;
        case Told::busy:
        case Told::unknown:
        case Told::unavailable:
        case Told::corrupt: break;
    }
    stage_.after(stage_.between(milliseconds{50}, seconds{5}), [this, client] { request(client); });
}

// ---- people and the sweep --------------------------------------------------------------------------------------

void Simulation::people() {
    if (stage_.calm()) return;
    // They see the list of what is open, more or less.
    for (int i = 0; i < 8 && !world_.subjects().empty(); ++i) {
        const Subject& subject = *world_.subjects()[stage_.below(world_.subjects().size())];
        const auto record = store_.find(subject.id);
        if (!record || record->state == State::settled) continue;
        look(subject);
        break;
    }
    stage_.after(stage_.between(milliseconds{50}, milliseconds{1000}), [this] { people(); });
}

/// Where the store's clock cannot be trusted a person goes by the own watch as well.
bool Simulation::waited_long_enough(const Record& record) {
    if (!clock_jumps_) return true;
    Watch& watch = watches_[record.id];
    if (watch.token != record.token || watch.lease_until != record.lease_until)
        watch = {record.token, record.lease_until, stage_.now()};
    return stage_.now() >= watch.since + record.policy.lease + record.policy.effect_deadline + seconds{1};
}

/// A person looks at what is open and decides truthfully: by what the provider says.
void Simulation::look(const Subject& subject) {
    const auto record = store_.find(subject.id);
    // A workflow is not decided on: its steps are, and it resumes.
    if (!record || record->state == State::settled || subject.kind == Kind::resume || subject.kind == Kind::workflow)
        return;
    const auto instance = anyone();
    if (!instance) return;
    const TimePoint not_before = later(record->lease_until, record->policy.effect_deadline);
    const bool early = store_.clock() < not_before;
    // Somebody impatient, whose decision surely arrives before its time: the ledger has to refuse it.
    const bool impatient = early && !clock_jumps_ && not_before - store_.clock() > seconds{15} && stage_.chance(0.5);
    if (early && !impatient) return;
    if (!early && !waited_long_enough(*record)) return;

    const World::Effects& effects = world_.effects(subject);
    Resolve resolve{subject.id, record->token, std::nullopt, "somebody", "looked it up"};
    if (effects.executed > 0) resolve.outcome = Outcome{status_done, effects.receipt, true};
    std::vector<Command> commands;
    commands.emplace_back(std::move(resolve));
    if (impatient) {
        // By a session of their own: no sleeping process can hold the decision up until its time has come.
        std::vector<Group> groups(1);
        groups.front().commands = std::move(commands);
        store_.execute(ProcessId{0}, std::move(groups), [](Result<Executed>) {});
        return;
    }
    // Some decide after lunch, and by then somebody else may hold it.
    const Duration thinks = stage_.between(Duration{0}, stage_.chance(0.3) ? seconds{60} : seconds{2});
    instance->post(thinks, [instance = instance.get(), commands = std::move(commands)]() mutable {
        instance->submit(std::move(commands), seconds{3}, nullptr, [](GroupAnswer) {});
    });
}

void Simulation::sweeps() {
    if (stage_.calm()) return;
    store_.sweep();
    stage_.after(stage_.between(milliseconds{100}, seconds{5}), [this] { sweeps(); });
}

// ---- the run ---------------------------------------------------------------------------------------------------

void Simulation::misfortune() {
    if (stage_.chance(stage_.rate(Fault::crash))) crash_one();
    if (stage_.strikes(Fault::instance_paused))
        if (const auto instance = anyone()) instance->pause(stage_.between(seconds{1}, seconds{25}));
    if (stage_.strikes(Fault::outage))
        store_.outage(stage_.between(milliseconds{100}, stage_.chance(0.25) ? seconds{80} : seconds{15}));
    if (stage_.strikes(Fault::store_full_claims)) store_.full(true, stage_.between(seconds{1}, seconds{15}));
    if (stage_.strikes(Fault::store_full)) store_.full(false, stage_.between(seconds{1}, seconds{8}));
    if (stage_.strikes(Fault::bit_rot)) store_.damage_a_row();
    if (stage_.strikes(Fault::clock_jump))
        store_.clock_jumps(stage_.between(clock_goes_back_ ? seconds{-40} : seconds{0}, seconds{40}));
}

bool Simulation::all_ended() const {
    const auto records = store_.records();
    return std::ranges::all_of(world_.subjects(), [&](const auto& subject) {
        const auto at = records.find(subject->id);
        if (at != records.end()) return at->second && at->second->state == State::settled;
        return subject->poison || subject->key_time || subject->parent != nullptr;
    });
}

void Simulation::calm() {
    stage_.trace("calm");
    stage_.calm_down();
    store_.heal();
    const auto drain = [&] {
        // Nothing begins by itself any more, so this ends.
        constexpr std::uint64_t events_max = 2'000'000;
        for (std::uint64_t i = 0; stage_.step(); ++i)
            if (i == events_max)
                stage_.violated("with faults off everything comes to rest", "{} events and still busy", i);
    };
    drain();
    constexpr int rounds_max = 12;
    for (int round = 0; round < rounds_max && !all_ended(); ++round) {
        stage_.trace("calm, round {}", round);
        for (const auto& subject : world_.subjects()) {
            look(*subject);
            const auto record = store_.find(subject->id);
            if (subject->parent != nullptr || (record && record->state == State::settled)) continue;
            // A workflow that has begun needs no client.
            const bool steps = subject->kind == Kind::resume || subject->kind == Kind::workflow;
            if (steps && record && !record->checkpoints.empty()) continue;
            request({subject.get(), record ? record->fingerprint : subject->fingerprint, subject->policy, 3});
        }
        carry_on();
        for (const auto& host : hosts_)
            if (host) host->complete();
        stage_.after(seconds{60}, [] {});
        drain();
    }
    judge_.nobody_waits();
    judge_.all_ended(store_.records());
}

Report Simulation::run() {
    stage_.after(Duration{0}, [this] { arrivals(); });
    stage_.after(seconds{1}, [this] { people(); });
    stage_.after(seconds{1}, [this] { sweeps(); });
    stage_.after(seconds{1}, [this] { completes(); });
    for (std::uint64_t i = 0; i < options_.steps; ++i) {
        misfortune();
        stage_.step();
    }
    calm();
    hosts_.clear();
    for (const auto& instance : instances_) instance->die();
    return {stage_.counts(), stage_.trace_hash()};
}

}  // namespace

Report simulate_ledger(const Options& options) {
    Simulation simulation(options);
    return simulation.run();
}

}  // namespace semel::sim
