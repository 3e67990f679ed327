// A Source over a durable pull consumer. A delivery is acknowledged by a word to the subject that came with it, on
// whatever connection: so a ticket outlives a lost connection and a restarted server. It ends when ack_wait has passed
// without a word; then the server delivers the message again. (To acknowledge even later would still be taken: an
// acknowledgement is no fence.)
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <thread>
#include <unordered_map>

#include "consumers/nats/servers.hpp"
#include "consumers/nats/wire.hpp"
#include "semel/nats.hpp"

namespace semel::nats {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view ack = "+ACK";
constexpr std::string_view nak = "-NAK";
constexpr std::string_view in_progress = "+WPI";

/// So that a caller who fetches in a loop does not connect in a loop.
constexpr Duration reconnect_pause = milliseconds{250};
/// How often a wait looks whether the connection is still there.
constexpr Duration glance = milliseconds{50};
/// The least a request lives at the server, so that it can be answered at all.
constexpr Duration request_min = milliseconds{5};
/// How much longer than the request its end is awaited.
constexpr Duration end_grace = milliseconds{80};
/// After a message the next one of the same request comes at once or, at the limit of unacknowledged ones, not soon.
constexpr Duration gap_max = milliseconds{20};
/// Before asking again after a request was ended early with nothing: others are ahead of us.
constexpr Duration ask_again = milliseconds{10};

Duration until(Steady::time_point deadline) {
    return std::max(std::chrono::duration_cast<Duration>(deadline - Steady::now()), Duration::zero());
}

class NatsSource final : public Source {
public:
    explicit NatsSource(Options options) : options_(std::move(options)) { terms_.ack_wait = options_.ack_wait; }

    Result<std::vector<Delivery>> fetch(std::size_t limit, Duration wait) override;
    Status acknowledge(std::span<const Ticket> done) override;
    Status flush(Duration wait) override;
    Status give_back(std::span<const Ticket> undone) override;
    Status keep(std::span<const Ticket> working) override;
    [[nodiscard]] Duration keep_every() const override { return terms_.ack_wait / 3; }
    std::vector<Ticket> taken_away() override;
    void close() override;
    [[nodiscard]] std::string text() const override { return "nats:" + options_.stream; }

private:
    struct Held {
        std::string reply{};
        std::uint64_t sequence = 0;
        Steady::time_point until{};  ///< later than this the server thinks it lost
    };
    using HeldOnes = std::map<Ticket, Held>;

    Status prepare(Steady::time_point deadline);
    Status pull(std::vector<Delivery>& into, std::size_t limit, Steady::time_point deadline);
    Status ended(const Ended& end);
    void add(std::vector<Delivery>& into, Delivered delivered);
    void take_left_over(std::vector<Delivery>& into, std::size_t limit);
    void give_up_overdue();
    Status say(const Held& about, std::string_view word);
    HeldOnes::iterator forget(HeldOnes::iterator held);
    Failure unavailable(std::string_view what, std::string_view why) const;

    const Options options_;
    std::unique_ptr<Wire> wire_;
    bool ready_ = false;  ///< the consumer was found on the server
    bool found_once_ = false;
    bool closed_ = false;
    Terms terms_;
    std::uint64_t last_ticket_ = 0;
    HeldOnes held_;
    std::unordered_map<std::uint64_t, Ticket> by_sequence_;
    std::string unflushed_;              ///< the reply subject of the last acknowledgement since the last flush
    std::uint64_t unflushed_epoch_ = 0;  ///< the connection on which the first of them was sent
    std::vector<Ticket> taken_away_;
};

Failure NatsSource::unavailable(std::string_view what, std::string_view why) const {
    return {Code::unavailable, fmt::format("{} {}/{} at {}: {}", what, options_.stream, options_.durable,
                                           without_credentials(servers_of(options_.url)), why)};
}

/// A connection, and a consumer at its other end.
Status NatsSource::prepare(Steady::time_point deadline) {
    if (wire_ != nullptr && wire_->closed()) {
        wire_.reset();
        ready_ = false;
    }
    Status done = Done{};
    if (wire_ == nullptr) {
        auto connected = Wire::connect(options_);
        if (connected)
            wire_ = std::move(*connected);
        else
            done = std::move(connected).failure();
    }
    if (done) {
        while (!wire_->connected()) {
            if (until(deadline) == Duration::zero() || wire_->closed())
                return unavailable("fetch", "the connection is lost, the server does not answer (url)");
            std::this_thread::sleep_for(std::min(until(deadline), glance));
        }
        if (ready_) return Done{};
        auto found = wire_->find_consumer(options_, !found_once_);
        if (found) {
            terms_ = *found;
            ready_ = found_once_ = true;
            return Done{};
        }
        done = std::move(found).failure();
    }
    std::this_thread::sleep_for(std::min(until(deadline), reconnect_pause));
    return done;
}

Result<std::vector<Delivery>> NatsSource::fetch(std::size_t limit, Duration wait) {
    if (closed_) return Failure{Code::invalid, fmt::format("fetch {}: this source was closed", options_.stream)};
    const auto deadline = Steady::now() + wait;
    give_up_overdue();
    if (auto prepared = prepare(deadline); !prepared) return std::move(prepared).failure();
    std::vector<Delivery> fetched;
    take_left_over(fetched, limit);
    while (fetched.empty()) {
        if (auto pulled = pull(fetched, limit, deadline); !pulled) return std::move(pulled).failure();
        if (until(deadline) == Duration::zero()) break;
        if (fetched.empty()) std::this_thread::sleep_for(std::min(until(deadline), ask_again));
    }
    return fetched;
}

void NatsSource::take_left_over(std::vector<Delivery>& into, std::size_t limit) {
    while (into.size() < limit && wire_->waiting() > 0) {
        auto next = wire_->next(request_min);
        if (!next) return;
        if (auto* delivered = std::get_if<Delivered>(&*next)) add(into, std::move(*delivered));
    }
}

/// One request and what it brings.
Status NatsSource::pull(std::vector<Delivery>& into, std::size_t limit, Steady::time_point deadline) {
    Duration expires = std::max(until(deadline), request_min);
    if (terms_.request_max > Duration::zero()) expires = std::min(expires, terms_.request_max);
    if (terms_.batch_max > 0) limit = std::min(limit, static_cast<std::size_t>(terms_.batch_max));
    const auto epoch = wire_->epoch();
    if (auto asked = wire_->request(limit, expires); !asked) return asked;
    auto patience = Steady::now() + expires + end_grace;
    while (into.size() < limit && until(patience) > Duration::zero()) {
        auto next = wire_->next(std::min(until(patience), glance));
        if (!next) return std::move(next).failure();
        if (auto* delivered = std::get_if<Delivered>(&*next)) {
            add(into, std::move(*delivered));
            patience = Steady::now() + gap_max;
        } else if (const auto* end = std::get_if<Ended>(&*next)) {
            return into.empty() ? ended(*end) : Done{};
        } else if (!wire_->connected() || wire_->epoch() != epoch) {
            if (!into.empty()) return Done{};
            return unavailable("fetch", "the connection was lost (url)");
        }
    }
    return Done{};
}

/// Whether the end of a request that brought nothing is a failure.
Status NatsSource::ended(const Ended& end) {
    if (end.status == 404 || end.status == 408) return Done{};
    // Passing: too many requests of others wait.
    if (end.status == 409 && end.text.starts_with("Exceeded MaxWaiting")) return Done{};
    ready_ = false;  // deleted, moved to another server, or the server has just started: to be looked for again
    return unavailable("fetch", fmt::format("{} {}", end.status, end.text));
}

void NatsSource::add(std::vector<Delivery>& into, Delivered delivered) {
    const Ticket ticket{++last_ticket_};
    if (const auto earlier = by_sequence_.find(delivered.sequence); earlier != by_sequence_.end()) {
        // It has come again before we thought that time was up.
        taken_away_.push_back(earlier->second);
        forget(held_.find(earlier->second));
    }
    held_.emplace_hint(held_.end(), ticket,
                       Held{std::move(delivered.reply), delivered.sequence, Steady::now() + terms_.ack_wait});
    by_sequence_.emplace(delivered.sequence, ticket);
    into.push_back({ticket, std::move(delivered.message)});
}

NatsSource::HeldOnes::iterator NatsSource::forget(HeldOnes::iterator held) {
    by_sequence_.erase(held->second.sequence);
    return held_.erase(held);
}

Status NatsSource::say(const Held& about, std::string_view word) {
    if (wire_ == nullptr) return unavailable("acknowledge", "there is no connection (url)");
    return wire_->say(about.reply, word);
}

void NatsSource::give_up_overdue() {
    const auto now = Steady::now();
    for (auto held = held_.begin(); held != held_.end();) {
        if (held->second.until > now) {
            ++held;
            continue;
        }
        taken_away_.push_back(held->first);
        held = forget(held);
    }
}

std::vector<Ticket> NatsSource::taken_away() {
    give_up_overdue();
    return std::exchange(taken_away_, {});
}

Status NatsSource::acknowledge(std::span<const Ticket> done) {
    if (unflushed_.empty() && wire_ != nullptr) unflushed_epoch_ = wire_->epoch();
    for (const Ticket ticket : done) {
        const auto held = held_.find(ticket);
        if (held == held_.end()) continue;
        if (auto said = say(held->second, ack); !said) return said;
        unflushed_ = std::move(held->second.reply);
        forget(held);
    }
    return Done{};
}

Status NatsSource::flush(Duration wait) {
    if (unflushed_.empty()) return Done{};
    const auto deadline = Steady::now() + wait;
    while (wire_ != nullptr && !wire_->connected() && !wire_->closed() && until(deadline) > Duration::zero())
        std::this_thread::sleep_for(std::min(until(deadline), glance));
    // What was on its way when a connection was lost has not arrived.
    if (wire_ == nullptr || !wire_->connected() || wire_->epoch() != unflushed_epoch_) {
        unflushed_.clear();
        return unavailable("flush", "the connection was lost; some of what was acknowledged may come again (url)");
    }
    // The consumer takes acknowledgements in order, and the same one twice does no harm: its receipt is for all.
    auto confirmed = wire_->confirm(unflushed_, ack, until(deadline));
    if (confirmed) unflushed_.clear();
    return confirmed;
}

Status NatsSource::give_back(std::span<const Ticket> undone) {
    for (const Ticket ticket : undone) {
        const auto held = held_.find(ticket);
        if (held == held_.end()) continue;
        if (auto said = say(held->second, nak); !said) return said;
        forget(held);
    }
    return Done{};
}

Status NatsSource::keep(std::span<const Ticket> working) {
    give_up_overdue();
    for (const Ticket ticket : working) {
        const auto held = held_.find(ticket);
        if (held == held_.end()) continue;
        if (auto said = say(held->second, in_progress); !said) return said;
        held->second.until = Steady::now() + terms_.ack_wait;
    }
    return Done{};
}

void NatsSource::close() {
    if (std::exchange(closed_, true) || wire_ == nullptr) return;
    // The server does not mind who leaves: without a word it would wait for ack_wait.
    std::vector<Delivery> left_over;
    take_left_over(left_over, wire_->waiting());
    for (const auto& [ticket, held] : held_)
        if (!say(held, nak)) break;
    (void)flush(options_.connect_timeout);
    wire_->close(options_.connect_timeout);
    held_.clear();
    by_sequence_.clear();
    taken_away_.clear();
}

std::string problems_of(const Options& options) {
    std::string problems;
    const auto check = [&](bool good, std::string_view problem) {
        if (!good) problems += fmt::format("{}{}", problems.empty() ? "" : "; ", problem);
    };
    const auto is_name = [](const std::string& name) {
        return !name.empty() && name.find_first_of(" \t\r\n.*>/\\") == std::string::npos;
    };
    check(!servers_of(options.url).empty(), "url: expected nats://host:port or tls://host:port, several with commas");
    check(is_name(options.stream), "stream: expected a name without blanks . * > / \\");
    check(is_name(options.durable), "durable: expected a name without blanks . * > / \\");
    check(options.ack_wait >= milliseconds{100}, "ack_wait: expected 100ms or more");
    check(options.ack_pending_max > 0, "ack_pending_max: expected 1 or more");
    check(options.connect_timeout > Duration::zero(), "connect_timeout: expected more than nothing");
    return problems;
}

}  // namespace

Result<std::unique_ptr<Source>> open(Options options) {
    if (auto problems = problems_of(options); !problems.empty()) return Failure{Code::invalid, std::move(problems)};
    return std::unique_ptr<Source>(std::make_unique<NatsSource>(std::move(options)));
}

}  // namespace semel::nats
