#include "relay/relay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

namespace semel::relay {
namespace {

/// Messages that wait beside each one that is being delivered.
constexpr std::size_t waiting_per_worker = 4;
/// How often a paused endpoint is tried.
constexpr Duration try_paused_every = std::chrono::seconds{1};

Result<std::unique_ptr<Source>> open_source(const Relay& relay) {
    return std::visit(match{[](const kafka::Options& options) { return kafka::open(options); },
                            [](const rabbitmq::Options& options) { return rabbitmq::open(options); },
                            [](const nats::Options& options) { return nats::open(options); },
                            [](const redis::Options& options) { return redis::open(options); }},
                      relay.from);
}

/// `permanent` as the ledger can count it.
constexpr Duration window_max = std::chrono::hours{24 * 365 * 100};

Policy policy_of(const Relay& relay) {
    Policy policy{.lease = relay.lease, .effect_deadline = relay.to.call.timeout, .retention = relay.retention};
    if (relay.rules.deduplicates) {
        policy.on_unknown = OnUnknown::retry;
        // What is sent inside of the window has to arrive inside of it as well.
        policy.dedup_window = std::min(*relay.rules.deduplicates, window_max) - relay.to.call.timeout;
    }
    return policy;
}

/// What the ledger would refuse with every message, and so send to the dead letters one by one.
Status check_policy(const Relay& relay) {
    if (relay.rules.deduplicates && *relay.rules.deduplicates <= relay.to.call.timeout)
        return Failure{Code::invalid,
                       "deduplicates has to be longer than timeout: what is sent again would come too late"};
    auto scope = Scope::make("", relay.name);
    if (!scope) return scope.failure();
    auto key = Key::parse("a");
    if (!key) return key.failure();
    return validate(
        Claim{.operation = {std::move(*scope), std::move(*key)}, .policy = policy_of(relay), .correlation = {}});
}

Failure at(const Relay& relay, const Failure& failure) {
    return {failure.code, fmt::format("{}: relay {}: {}", relay.mark.text(), relay.name, failure.message)};
}

/// The ledger judges the window of `deduplicates` at the next claim, from the first one on, and parks what is too old.
constexpr Duration window_is_the_ledgers{0};

/// What is wrong with an endpoint that cannot be reached is not the message, and waiting does no harm.
Verdict judge(const EndpointRules& rules, const Before& before, const DeliveryEnd& end) {
    if (end.how == DeliveryEnd::How::not_sent) return Pause{end.reason};
    return verdict(rules, before, end);
}

EffectAnswer answer_of(Verdict verdict, bool deduplicates) {
    return std::visit(
        match{[](const Settle& settled) -> EffectAnswer { return Succeeded{Outcome::tombstone(settled.status)}; },
              [&](Retry& retry) -> EffectAnswer {
                  if (retry.surely_not_executed) return NotDone{std::move(retry.why), retry.after};
                  return InDoubt{std::move(retry.why), deduplicates, retry.after};
              },
              [](Pause& pause) -> EffectAnswer { return semel::Pause{std::move(pause.why)}; },
              [](DeadLetter& dead) -> EffectAnswer { return Refused{std::move(dead.why)}; },
              [](Park& park) -> EffectAnswer {
                  return InDoubt{std::move(park.why), false, std::nullopt};
              }},
        verdict);
}

}  // namespace

/// One relay: its loop, its thread, its workers' endpoints.
class Relays::One {
public:
    One(Relay relay, LogLine log) : relay_(std::move(relay)), log_(std::move(log)) {}

    Status make(Committer& committer, const OpenInbox& open_inbox) {
        auto source = open_source(relay_);
        if (!source) return source.failure();
        source_text_ = (*source)->text();
        ConsumerOptions options;
        options.name = relay_.name;
        options.envelope = relay_.envelope;
        options.key = relay_.key;
        options.retention = relay_.retention;
        options.retries = {.tries_max = static_cast<std::uint32_t>(relay_.retries.limit) + 1,
                           .first = relay_.retries.first,
                           .max = relay_.retries.max,
                           .hold_order = relay_.order == Order::key};
        options.batch_max = 1;
        options.batches_ahead = waiting_per_worker;
        options.lease = relay_.lease;
        options.log = [this](std::string_view line) { log_("warning", relay_.name, line); };
        if (auto fine = semel::check(options); !fine) return fine;
        if (auto fine = check_policy(relay_); !fine) return fine;
        loop_ = std::make_unique<Loop>(std::move(options), std::move(*source));
        auto keeper = std::make_shared<LeaseKeeper>(committer);
        for (std::size_t i = 0; i < relay_.concurrency; ++i) {
            auto inbox = open_inbox();
            if (!inbox) return inbox.failure();
            auto endpoint = Endpoint::open(relay_.to);
            if (!endpoint) return endpoint.failure();
            auto shared = std::make_shared<Endpoint>(std::move(*endpoint));
            Inbox& mine = **inbox;
            loop_->add_lane(std::move(*inbox),
                            std::make_unique<Leased>(loop_->options(), policy_of(relay_), mine, committer, keeper,
                                                     [this, shared](const Item& item, const Claimed& claimed, Inbox&) {
                                                         return deliver(*shared, item, claimed);
                                                     }));
        }
        loop_->one_at_a_time();
        return Done{};
    }

    void start() {
        running_ = true;
        thread_ = std::jthread([this](const std::stop_token& stop) {
            const Status ended = loop_->run(stop);
            if (!ended) log_("error", relay_.name, ended.failure().message);
            const std::lock_guard lock(mutex_);
            running_ = false;
            if (!ended) ended_ = ended.failure().message;
        });
    }
    void ask_to_stop() { thread_.request_stop(); }
    void join() {
        if (thread_.joinable()) thread_.join();
    }

    [[nodiscard]] RelayState state() const {
        const std::lock_guard lock(mutex_);
        return {.name = relay_.name,
                .source = source_text_,
                .key_source = semel::name(relay_.key.source),
                .counts = loop_->counts(),
                .deliveries = deliveries_,
                .in_flight = in_flight_,
                .running = running_,
                .ended = ended_,
                .paused = paused_};
    }

private:
    /// Never throws: what goes wrong with a delivery is one of its answers.
    EffectAnswer deliver(Endpoint& endpoint, const Item& item, const Claimed& claimed) {
        if (auto why = held_back()) return semel::Pause{std::move(*why)};
        const std::string* correlation = item.event.extension("correlationid");
        const Parcel parcel{item.event, *item.operation, correlation == nullptr ? "" : std::string_view(*correlation),
                            item.tries};
        ++in_flight_;
        const auto delivered = endpoint.deliver(parcel);
        --in_flight_;
        const Before before{.doubt = claimed.doubt, .since_first_send = window_is_the_ledgers};
        Verdict judged =
            delivered ? judge(relay_.rules, before, delivered->end) : unwritable(before, delivered.failure().message);
        note(judged, delivered.ok());
        return answer_of(std::move(judged), relay_.rules.deduplicates.has_value());
    }

    /// Nothing was sent now; what an earlier delivery under other settings came to is another matter.
    static Verdict unwritable(const Before& before, const std::string& why) {
        if (before.doubt) return Park{fmt::format("{}; an earlier delivery may have been executed", why)};
        return DeadLetter{0, why};
    }

    /// Why nothing is to be sent now. A paused endpoint is tried by one delivery at a time.
    std::optional<std::string> held_back() {
        const std::lock_guard lock(mutex_);
        if (paused_.empty()) return std::nullopt;
        const auto now = std::chrono::steady_clock::now();
        if (now < try_at_) return paused_;
        try_at_ = now + relay_.to.call.timeout + try_paused_every;
        return std::nullopt;
    }

    void note(const Verdict& judged, bool reached) {
        const std::lock_guard lock(mutex_);
        ++std::visit(match{[&](const Settle&) -> std::uint64_t& { return deliveries_.settled; },
                           [&](const Retry&) -> std::uint64_t& { return deliveries_.again; },
                           [&](const Pause&) -> std::uint64_t& { return deliveries_.paused; },
                           [&](const DeadLetter&) -> std::uint64_t& { return deliveries_.refused; },
                           [&](const Park&) -> std::uint64_t& { return deliveries_.parked; }},
                     judged);
        const auto* pause = std::get_if<Pause>(&judged);
        if (pause != nullptr) {
            if (paused_.empty()) log_("warning", relay_.name, fmt::format("paused: {}", pause->why));
            paused_ = pause->why;
            try_at_ = std::chrono::steady_clock::now() + try_paused_every;
        } else if (!paused_.empty() && reached) {
            log_("info", relay_.name, "the endpoint is well again");
            paused_.clear();
        } else if (!paused_.empty()) {
            try_at_ = {};
        }
    }

    Relay relay_;
    LogLine log_;
    std::string source_text_;
    std::unique_ptr<Loop> loop_;
    std::atomic<std::size_t> in_flight_ = 0;
    mutable std::mutex mutex_;
    bool running_ = false;  // guarded by mutex_, as are the following
    std::string ended_;
    std::string paused_;
    std::chrono::steady_clock::time_point try_at_{};
    DeliveryCounts deliveries_{};
    std::jthread thread_;
};

std::vector<Failure> Relays::check(const RelayConfig& config) {
    std::vector<Failure> found;
    for (const Relay& relay : config.relays) {
        const auto look = [&](const Status& fine) {
            if (!fine) found.push_back(at(relay, fine.failure()));
        };
        look(check_policy(relay));
        if (auto source = open_source(relay); !source) look(source.failure());
        if (auto endpoint = Endpoint::open(relay.to); !endpoint) look(endpoint.failure());
    }
    return found;
}

Result<std::unique_ptr<Relays>> Relays::start(const RelayConfig& config, Committer& committer, OpenInbox open_inbox,
                                              LogLine log) {
    std::unique_ptr<Relays> relays(new Relays);
    for (const Relay& relay : config.relays) {
        auto one = std::make_unique<One>(relay, log);
        if (auto made = one->make(committer, open_inbox); !made) return at(relay, made.failure());
        relays->all_.push_back(std::move(one));
    }
    for (auto& one : relays->all_) one->start();
    return relays;
}

Relays::~Relays() { stop(); }

void Relays::stop() {
    for (auto& one : all_) one->ask_to_stop();
    for (auto& one : all_) one->join();
}

std::vector<RelayState> Relays::states() const {
    std::vector<RelayState> states;
    for (const auto& one : all_) states.push_back(one->state());
    return states;
}

}  // namespace semel::relay
