#include "workflow_host.hpp"

#include "base/assert.hpp"
#include "effects/journal.hpp"
#include "effects/performer.hpp"
#include "ledger/mint.hpp"
#include "ledger/mutation.hpp"
#include "semel/fingerprint.hpp"
#include "semel/keys.hpp"

namespace semel::sim {
namespace {

constexpr std::string_view step_names[] = {"reserve", "charge", "notify", "ship"};
constexpr std::size_t reserve = 0;
constexpr std::size_t charge = 1;
constexpr std::size_t notify = 2;
constexpr std::size_t ship = 3;

std::string input_of(const Operation& operation) { return "order " + operation.text(); }
/// Some cannot be shipped, which is known only then.
bool is_out_of_stock(const Operation& operation) { return operation.id().bytes[0] % 4 == 0; }

Duration trip(Stage& stage) { return stage.between(milliseconds{1}, milliseconds{10}); }

}  // namespace

// ---- the definition --------------------------------------------------------------------------------------------

Order Order::make(Stage& stage) {
    Order order;
    const Duration deadline = stage.between(seconds{2}, seconds{10});
    order.charges = effects::Provider::deduplicating("charges", deadline + stage.between(seconds{5}, seconds{60}));
    order.notices = effects::Provider::at_most_once("notices");
    for (effects::Provider* each : {&order.charges, &order.notices}) {
        each->call_deadline = deadline;
        each->lease = stage.between(seconds{2}, seconds{10});
    }
    order.lease = stage.between(seconds{2}, seconds{10});
    order.limits = {.calls_max = 3,
                    .total = seconds{20},
                    .busy_wait = Duration{0},
                    .backoff_first = milliseconds{100},
                    .backoff_max = seconds{2}};
    return order;
}

const Subject& Order::add_to(World& world, Stage& stage) const {
    const std::size_t number = world.subjects().size();
    auto scope = Scope::make(fmt::format("tenant{}", number % 3), "order");
    auto key = Key::parse(fmt::format("o{}", number));
    SEMEL_ASSERT(scope && key, "the simulator's names are valid");
    const Operation operation{*scope, *key};
    Policy policy{.on_unknown = OnUnknown::resume, .lease = lease, .effect_deadline = Duration{0}};
    const auto step = [&](std::string_view name, std::size_t which) -> World::StepOf {
        const bool local = which == reserve || which == ship;
        return {local             ? Kind::once
                : which == charge ? Kind::retry
                                  : Kind::refuse,
                *effects::step_operation(operation, name),
                local ? Policy{} : effects::policy_of(which == charge ? charges : notices), fingerprint_of_bytes(name)};
    };
    std::vector<World::StepOf> steps;
    std::vector<std::optional<World::StepOf>> undos;
    for (std::size_t i = 0; i < std::size(step_names); ++i) {
        steps.push_back(step(step_names[i], i));
        undos.emplace_back();
        if (i == reserve || i == charge) undos.back() = step(effects::undo_key(step_names[i]), i);
    }
    stage.count(Tally::workflows);
    return world.add_workflow({Kind::workflow, operation, policy, fingerprint_of_bytes(input_of(operation))}, steps,
                              undos);
}

// ---- what it waits for -----------------------------------------------------------------------------------------

/// As Committer::execute, on a fiber.
class WorkflowHost::Ledger final : public BlockingLedger {
public:
    Ledger(Instance& instance, Fibers& fibers, Store& store) : instance_(instance), fibers_(fibers), store_(store) {}

    GroupAnswer execute(std::vector<Command> commands, Duration wait) override {
        Fiber::check();
        if (wait <= Duration{0}) wait = CommitterOptions{}.timeout;
        bool claims = false;
        for (Command& command : commands) {
            auto* claim = std::get_if<Claim>(&command);
            if (claim == nullptr) continue;
            claims = true;
            claim->attempt = mint_attempt(instance_.stage().random());  // of this seed
        }
        const Awaited<GroupAnswer> answer;
        const auto waiting = std::make_shared<Waiting>();
        instance_.submit(std::move(commands), wait, waiting,
                         [answer](GroupAnswer said) { answer.give(std::move(said)); });
        if (auto said = answer.wait(fibers_, wait)) return std::move(*said);
        if (!waiting->give_up()) return answer.wait();
        if (claims) return Failure{Code::unavailable, "no answer in time; a late grant is released"};
        return Failure{Code::indeterminate, "no answer in time"};
    }
    [[nodiscard]] Store& store() const override { return store_; }

private:
    Instance& instance_;
    Fibers& fibers_;
    Store& store_;
};

/// What is read from the store without deciding.
class WorkflowHost::Reader final : public Store {
public:
    Reader(Instance& instance, Fibers& fibers) : instance_(instance), fibers_(fibers) {}

    Result<std::optional<Record>> find(const OperationId& id) override {
        if (auto fine = travel(); !fine) return fine.failure();
        if (instance_.store().damaged(id)) return Failure{Code::corrupt, "its checksum is wrong"};
        return instance_.store().find(id);
    }
    Result<Page> list(const Filter& filter, const std::string&, std::size_t) override {
        if (auto fine = travel(); !fine) return fine.failure();
        Page page;
        for (auto& [id, record] : instance_.store().records()) {
            if (!record) ++page.corrupt;
            if (!record || record->state != *filter.state || !record->operation) continue;
            if (record->operation->scope.name() == *filter.scope_name) page.records.push_back(*record);
        }
        return page;
    }
    Result<TimePoint> now() override { return instance_.store().clock(); }

    Result<std::unique_ptr<Session>> session() override { return nothing(); }
    [[nodiscard]] std::size_t sessions_max() const override { return 1; }
    Result<Swept> sweep(std::size_t, bool) override { return nothing(); }
    [[nodiscard]] std::string text() const override { return "simulated"; }

private:
    static Failure nothing() { return {Code::invalid, "only read"}; }
    Status travel() {
        fibers_.sleep(trip(instance_.stage()));
        if (instance_.store().down()) return Failure{Code::unavailable, "the store is down"};
        return Done{};
    }
    Instance& instance_;
    Fibers& fibers_;
};

/// Renews as LeaseKeeper does, and knows who holds what.
class WorkflowHost::KeptLeases final : public Leases {
public:
    explicit KeptLeases(Instance& instance) : instance_(instance) {}

    void add(const Holder& holder, Duration lease, Steady sent, Steady until) override {
        Leases::add(holder, lease, sent, until);
        kept_[holder.id] = holder.token;
        tick(holder, lease);
    }
    void remove(const Holder& holder) override {
        Leases::remove(holder);
        if (const auto at = kept_.find(holder.id); at != kept_.end() && at->second == holder.token) kept_.erase(at);
    }
    [[nodiscard]] Token token_of(const OperationId& id) const { return kept_.at(id); }

private:
    void tick(const Holder& holder, Duration lease) {
        instance_.post(lease / 3, [this, holder, lease] {
            const auto at = kept_.find(holder.id);
            if (at == kept_.end() || at->second != holder.token) return;
            for (const Holder& each : due(instance_.stage().steady()))
                instance_.submit({Renew{each}}, renew_patience, std::make_shared<Waiting>(), [](GroupAnswer) {});
            tick(holder, lease);
        });
    }
    Instance& instance_;
    std::map<OperationId, Token> kept_;
};

class WorkflowHost::Time final : public effects::Pace {
public:
    Time(Stage& stage, Fibers& fibers) : stage_(stage), fibers_(fibers) {}
    [[nodiscard]] Steady now() const override { return stage_.steady(); }
    bool wait(Duration how_long, const std::stop_token& stop) override {
        fibers_.sleep(how_long);
        return stop.stop_requested();
    }
    Random& random() override { return stage_.random(); }

private:
    Stage& stage_;
    Fibers& fibers_;
};

/// The database of the local steps: one transaction after another.
class WorkflowHost::Rows final : public Inbox {
public:
    Rows(Instance& instance, Fibers& fibers, World& world) : instance_(instance), fibers_(fibers), world_(world) {}
    ~Rows() override { roll_back(); }
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    /// The one whose transaction a step writes in.
    static Rows* writing() { return writing_; }
    void write() { wrote_ = true; }

    Result<Begun> begin_and_ask(std::string_view, std::span<const SqlValue>) override {
        fibers_.sleep(trip(stage()));
        wrote_ = false;
        tx_ = instance_.store().begin(instance_.process());
        if (!tx_) return Failure{Code::unavailable, "the store is down"};
        return Begun{instance_.store().clock(), {}};
    }
    Result<bool> holds(const OperationId& id, Token token) override {
        if (auto fine = lock(id); !fine) return fine.failure();
        whole_ = &world_.subject(id);
        token_ = token;
        const Found found = instance_.store().see(tx_, id);
        if (const auto* failure = std::get_if<Failure>(&found)) return *failure;
        const auto& record = std::get<std::optional<Record>>(found);
        const bool held = record && record->token == token && record->state == State::running;
        return SEMEL_MUTATION(superseded_writes_on, held, true);
    }
    Result<std::vector<TransactionClaim>> claim(std::span<const InboxClaim> claims) override {
        const InboxClaim& wanted = claims.front();
        step_ = &world_.subject(wanted.operation.id());
        if (auto fine = lock(step_->id); !fine) return fine.failure();
        Claim command{.operation = wanted.operation,
                      .fingerprint = wanted.fingerprint,
                      .attempt = mint_attempt(stage().random()),
                      .policy = {.retention = wanted.retention},
                      .correlation = wanted.correlation};
        command.in_transaction = true;
        auto answer = claim_answer(instance_.store().decide(tx_, std::move(command)));
        if (!answer) return answer.failure();
        std::vector<TransactionClaim> all;
        std::visit([&](auto& each) { all.emplace_back(each); }, *answer);
        return all;
    }
    Status settle(const Operation& operation, const Claimed& claimed, const Outcome& outcome) override {
        if (SimStore::is_over(tx_)) return gone();
        auto answer =
            instance_.store().decide(tx_, Settle{{operation.id(), claimed.token, claimed.attempt}, outcome, true});
        if (!answer) return answer.failure();
        effect_ = outcome.body;
        return Done{};
    }
    Status commit() override {
        std::optional<OwnWork> work;
        if (wrote_) work = OwnWork{step_, effect_, true};
        const Awaited<Status> done;
        // Somebody paused here finds that it had been done, or not.
        instance_.store().commit(
            tx_, *whole_, token_, std::move(work),
            [instance = instance_.shared_from_this(), done](Result<Executed> result) {
                Status said = Done{};
                if (!result) said = result.failure();
                instance->post(Duration{0}, [done, said = std::move(said)]() mutable { done.give(std::move(said)); });
            });
        return done.wait();
    }
    void roll_back() override {
        if (tx_) instance_.store().give_up(tx_);
    }

    Status mark() override { return Done{}; }
    Status return_to_mark() override { return Done{}; }
    [[nodiscard]] bool alive() const override { return !SimStore::is_over(tx_); }
    [[nodiscard]] bool broken() const override { return false; }
    [[nodiscard]] std::uint64_t changes() const override { return ++asked_; }
    [[nodiscard]] bool contended() const override { return false; }
    [[nodiscard]] Transaction transaction() override {
        writing_ = this;
        return {};
    }
    void unclaim(std::span<const OperationId>) override {}
    Result<std::vector<SqlRow>> ask(std::string_view, std::span<const SqlValue>) override {
        return std::vector<SqlRow>{};
    }
    void tell(std::string_view, std::span<const SqlValue>) override {}
    [[nodiscard]] std::string text() const override { return "simulated"; }

private:
    Stage& stage() { return instance_.stage(); }
    static Failure gone() { return {Code::unavailable, "the transaction is over"}; }
    Status lock(const OperationId& id) {
        fibers_.sleep(trip(stage()));
        const Awaited<bool> locked;
        instance_.store().lock(tx_, id, [instance = instance_.shared_from_this(), locked](bool mine) {
            instance->post(Duration{0}, [locked, mine] { locked.give(mine); });
        });
        if (!locked.wait() || SimStore::is_over(tx_)) return Failure{Code::contended, "lock timeout"};
        return Done{};
    }

    static inline Rows* writing_ = nullptr;
    Instance& instance_;
    Fibers& fibers_;
    World& world_;
    SimStore::Tx tx_;
    const Subject* whole_ = nullptr;
    Token token_{};
    const Subject* step_ = nullptr;
    std::string effect_;
    bool wrote_ = false;
    mutable std::uint64_t asked_ = 0;
};

// ---- the engine ------------------------------------------------------------------------------------------------

WorkflowHost::WorkflowHost(std::shared_ptr<Instance> instance, World& world, Judge& judge, const Order& order)
    : instance_(std::move(instance)),
      world_(world),
      judge_(judge),
      stage_(instance_->stage()),
      order_(order),
      fibers_([this](Duration delay, What what) { instance_->post(delay, std::move(what)); }),
      reader_(std::make_unique<Reader>(*instance_, fibers_)),
      ledger_(std::make_unique<Ledger>(*instance_, fibers_, *reader_)),
      leases_(std::make_unique<KeptLeases>(*instance_)),
      time_(std::make_unique<Time>(stage_, fibers_)) {
    effects::WorkflowOptions options;
    options.lease = order_.lease;
    options.limits = order_.limits;
    options.inbox = [this]() -> Result<std::unique_ptr<Inbox>> {
        return std::unique_ptr<Inbox>(std::make_unique<Rows>(*instance_, fibers_, world_));
    };
    auto made = effects::Workflow::make(definition(), std::move(options), {*ledger_, *leases_, *time_});
    SEMEL_ASSERT(made, "the simulator's workflow is valid");
    workflow_ = std::move(*made);
    completing_ = std::make_unique<effects::Completing>(
        *ledger_, stage_.random(), std::vector<effects::Workflow*>{workflow_.get()},
        effects::CompleterOptions{.every = {},
                                  .parallel = 4,
                                  .backoff_first = seconds{1},
                                  .backoff_max = seconds{10},
                                  .log = [this](std::string_view line) { stage_.trace("{}", line); }},
        [this] {
            fibers_.start([this] {
                if (const auto task = completing_->take()) completing_->carry_on(*task, {});
            });
        });
    completes();
}

WorkflowHost::~WorkflowHost() { fibers_.kill(); }

effects::Definition WorkflowHost::definition() {
    using effects::Context;
    const auto local = [](std::string result) {
        return effects::Local{[result](const Context& context, Transaction) {
            Rows::writing()->write();
            return fmt::format("{} {}", result, context.operation().text());
        }};
    };
    const auto external = [this](std::size_t step, bool undo) {
        return effects::External{
            .provider = step == charge ? order_.charges : order_.notices,
            .call = [this, step, undo](const Context& context,
                                       const effects::Call& made) { return call(context, made, step, undo); },
            .lookup = {},
            .limits = order_.limits};
    };
    const auto ships = [](const Context& context, Transaction) -> std::string {
        Rows::writing()->write();
        if (is_out_of_stock(context.operation())) throw effects::StepFailed("out of stock");
        return "shipped for " + context.result("charge");
    };
    effects::Definition order{.name = "order", .version = 1};
    order.steps.push_back({std::string(step_names[reserve]), local("reserved"), local("given back")});
    order.steps.push_back({std::string(step_names[charge]), external(charge, false), external(charge, true)});
    order.steps.push_back({std::string(step_names[notify]), external(notify, false), std::nullopt});
    order.steps.push_back({std::string(step_names[ship]), effects::Local{ships}, std::nullopt});
    return order;
}

effects::Reply WorkflowHost::call(const effects::Context& context, const effects::Call& call, std::size_t step,
                                  bool undo) {
    const Subject& whole = world_.subject(context.operation().id());
    const Subject& subject = undo ? *whole.undos[step] : *whole.steps[step];
    if (stage_.strikes(Fault::effect_not_begun)) return effects::NotSent{"not begun", std::nullopt};
    judge_.sends(subject, leases_->token_of(subject.id), instance_->store().clock());
    stage_.trace("workflow {} sends {}", whole.text(), subject.text());
    struct Answer {
        Reply reply;
        std::string receipt;
    };
    const Awaited<Answer> answer;
    world_.send(subject, call.key.text(), [instance = instance_, answer](Reply reply, const std::string& receipt) {
        instance->post(Duration{0}, [answer, reply, receipt] { answer.give({reply, receipt}); });
    });
    const auto got = answer.wait(fibers_, std::chrono::duration_cast<Duration>(call.deadline - stage_.steady()));
    if (stage_.strikes(Fault::holder_paused)) fibers_.sleep(stage_.between(seconds{1}, order_.lease * 4));
    if (!got) return effects::InDoubt{"no answer in time", std::nullopt};
    switch (got->reply) {
        case Reply::done: return effects::Answered{{status_done, got->receipt, true}, true};
        case Reply::declined: return effects::Answered{Outcome::tombstone(status_declined), true};
        case Reply::try_later: break;
    }
    // Not this time: and under doubt that says nothing about the time before (I11).
    if (call.doubt && stage_.chance(0.8)) return effects::Answered{Outcome::tombstone(status_try_later), false};
    return effects::NotSent{"not now", std::nullopt};
}

// ---- runs ------------------------------------------------------------------------------------------------------

void WorkflowHost::run(const Request& request, Tell tell) {
    stage_.count(Tally::requests);
    judge_.request_begins(instance_->process(), request.number);
    fibers_.start([this, request, tell = std::move(tell)]() mutable {
        const Subject& subject = *request.subject;
        const bool same = request.fingerprint == subject.fingerprint;
        const auto answer = workflow_->run({.tenant = std::string(subject.operation.scope.tenant()),
                                            .key = subject.operation.key,
                                            .input = same ? input_of(subject.operation) : "another order",
                                            .correlation = fmt::format("request-{}", request.number)});
        Told told = Told::unavailable;
        if (answer)
            std::visit(
                match{[&](const effects::Completed& end) { told = end.replayed ? Told::replay : Told::stored; },
                      [&](const effects::Compensated& end) { told = end.replayed ? Told::replay : Told::stored; },
                      [&](const effects::Parked&) { told = Told::unknown; }, [&](const effects::Unfinished&) {},
                      [&](const Busy&) { told = Told::busy; }, [&](const Mismatch&) { told = Told::mismatch; },
                      [&](const effects::Superseded&) {}, [&](const effects::DefinitionChanged&) {}},
                *answer);
        else if (answer.failure().code == Code::corrupt)
            told = Told::corrupt;
        if (told == Told::replay || told == Told::stored)
            stage_.count(told == Told::stored ? Tally::stored : Tally::replays);
        stage_.trace("request {} {} -> {}", request.number, subject.text(), name(told));
        judge_.request_ends(request.number);
        tell(told);
    });
}

void WorkflowHost::complete() {
    fibers_.start([this] { completing_->look({}); });
}

void WorkflowHost::completes() {
    fibers_.start([this] {
        while (!stage_.calm()) {
            completing_->look({});
            fibers_.sleep(completing_->every());
        }
    });
}

}  // namespace semel::sim
