// A Source over one Wire at a time. A ticket is the delivery's tag, shifted past all tickets of earlier connections: so a
// ticket tells by itself whether it is from before.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <thread>

#include "consumers/rabbitmq/wire.hpp"
#include "semel/rabbitmq.hpp"

namespace semel::rabbitmq {
namespace {

using Steady = std::chrono::steady_clock;

/// So that a caller who fetches in a loop does not connect in a loop.
constexpr Duration reconnect_pause = std::chrono::milliseconds{250};
/// How long what is done may wait for one word to the broker about it and others.
constexpr Duration held_for_max = std::chrono::milliseconds{500};

class RabbitmqSource final : public Source {
public:
    RabbitmqSource(Options options, Address address) : options_(std::move(options)), address_(std::move(address)) {}

    Result<std::vector<Delivery>> fetch(std::size_t limit, Duration wait) override;
    Status acknowledge(std::span<const Ticket> done) override;
    Status flush(Duration wait) override;
    Status give_back(std::span<const Ticket> undone) override;
    Status keep(std::span<const Ticket> working) override;
    /// While the connection lives the broker hands nothing on. But heartbeats are sent only inside calls: fetch or keep.
    [[nodiscard]] Duration keep_every() const override { return Duration::zero(); }
    std::vector<Ticket> taken_away() override { return std::exchange(taken_away_, {}); }
    void close() override;
    [[nodiscard]] std::string text() const override { return "rabbitmq:" + options_.queue; }

private:
    Status connect(Steady::time_point deadline);
    Status read_available();
    Failure lost(Failure why);
    Status send_acks(bool all);
    [[nodiscard]] bool held_enough() const;
    std::set<std::uint64_t> take(std::span<const Ticket> tickets);

    const Options options_;
    const Address address_;
    std::unique_ptr<Wire> wire_;
    bool closed_ = false;
    std::uint64_t before_ = 0;         ///< the last ticket of earlier connections
    std::uint64_t last_tag_ = 0;       ///< the last tag handed out on this connection
    std::set<std::uint64_t> working_;  ///< tags handed out and neither acknowledged nor given back
    /// Done, and not told the broker yet: one word for many is worth a wait, since a quorum queue logs each word it gets.
    std::set<std::uint64_t> held_;
    Steady::time_point held_since_{};
    bool unflushed_ = false;  ///< acknowledged on this connection since the last flush
    bool acks_lost_ = false;  ///< a connection was lost with such ones
    std::vector<Ticket> taken_away_;
};

Status RabbitmqSource::connect(Steady::time_point deadline) {
    if (wire_ != nullptr) return Done{};
    auto connected = Wire::connect(options_, address_);
    if (connected) {
        wire_ = std::move(*connected);
        return Done{};
    }
    const auto left = std::chrono::duration_cast<Duration>(deadline - Steady::now());
    std::this_thread::sleep_for(std::clamp(left, Duration::zero(), reconnect_pause));
    return std::move(connected).failure();
}

Failure RabbitmqSource::lost(Failure why) {
    wire_.reset();
    for (const auto tag : working_) taken_away_.push_back({before_ + tag});
    working_.clear();
    held_.clear();
    before_ += last_tag_;
    last_tag_ = 0;
    if (std::exchange(unflushed_, false)) acks_lost_ = true;
    return why;
}

/// All that is there, whatever is wanted of it: the prefetch bounds it, and a heartbeat or the end of the connection may
/// come after it.
Status RabbitmqSource::read_available() {
    while (true) {
        const auto read = wire_->read(Duration::zero());
        if (!read) return lost(read.failure());
        if (!*read) return Done{};
    }
}

Result<std::vector<Delivery>> RabbitmqSource::fetch(std::size_t limit, Duration wait) {
    if (closed_) return Failure{Code::invalid, fmt::format("fetch {}: this source was closed", options_.queue)};
    const auto deadline = Steady::now() + wait;
    if (auto connected = connect(deadline); !connected) return std::move(connected).failure();
    while (true) {
        if (!held_.empty())
            if (auto sent = send_acks(held_enough()); !sent) return std::move(sent).failure();
        if (!wire_->arrived().empty()) break;
        const auto until = held_.empty() ? deadline : std::min(deadline, held_since_ + held_for_max);
        const auto left = std::chrono::duration_cast<Duration>(until - Steady::now());
        const auto read = wire_->read(std::max(left, Duration::zero()));
        if (!read) return lost(read.failure());
        if (!*read && Steady::now() >= deadline) break;
    }
    if (auto read = read_available(); !read) return std::move(read).failure();
    std::vector<Delivery> fetched;
    auto& arrived = wire_->arrived();
    fetched.reserve(std::min(limit, arrived.size()));
    while (fetched.size() < limit && !arrived.empty()) {
        last_tag_ = arrived.front().tag;
        working_.insert(working_.end(), last_tag_);
        fetched.push_back({{before_ + last_tag_}, std::move(arrived.front().message)});
        arrived.pop_front();
    }
    return fetched;
}

/// The tags of those that are this connection's and open, no longer open: what is told twice is sent once, since the
/// second time would close the channel.
std::set<std::uint64_t> RabbitmqSource::take(std::span<const Ticket> tickets) {
    std::set<std::uint64_t> taken;
    for (const Ticket ticket : tickets) {
        if (ticket.value <= before_) continue;
        const auto found = working_.find(ticket.value - before_);
        if (found != working_.end()) taken.insert(working_.extract(found));
    }
    return taken;
}

Status RabbitmqSource::acknowledge(std::span<const Ticket> done) {
    auto tags = take(done);
    if (tags.empty()) return Done{};
    unflushed_ = true;
    if (held_.empty()) held_since_ = Steady::now();
    held_.merge(tags);
    return send_acks(held_enough());
}

/// Whether what is held is told now, one by one if need be: its time is over, or the broker sends nothing more before it
/// hears what is done.
bool RabbitmqSource::held_enough() const {
    const bool starved = wire_->arrived().empty() && working_.size() + held_.size() >= options_.prefetch;
    return starved || Steady::now() >= held_since_ + held_for_max;
}

/// Tells the broker what is done below the lowest open tag, by one word; and with `all` the others one by one.
Status RabbitmqSource::send_acks(bool all) {
    // Messages that have arrived and were not fetched have higher tags than all that were.
    const auto first_open = working_.empty() ? last_tag_ + 1 : *working_.begin();
    const auto beyond = held_.lower_bound(first_open);
    if (beyond != held_.begin()) {
        if (auto sent = wire_->ack(*std::prev(beyond), true); !sent) return lost(std::move(sent).failure());
        held_.erase(held_.begin(), beyond);
    }
    if (!all) return Done{};
    for (const auto tag : held_)
        if (auto sent = wire_->ack(tag, false); !sent) return lost(std::move(sent).failure());
    held_.clear();
    return Done{};
}

Status RabbitmqSource::flush(Duration wait) {
    const auto failed = [&](std::string_view why) {
        return Failure{Code::unavailable,
                       fmt::format("flush {} at {}: {}; some of what was acknowledged may come again", options_.queue,
                                   address_.text(), why)};
    };
    const Status sent = held_.empty() ? Status(Done{}) : send_acks(true);
    // What got lost is the broker's again: nothing is left to wait for the next time.
    if (std::exchange(acks_lost_, false)) return failed(sent ? "the connection was lost" : sent.failure().message);
    if (!unflushed_) return Done{};
    const auto answered = wire_->round_trip(wait);
    if (!answered) {
        const Failure why = lost(answered.failure());
        acks_lost_ = false;
        return failed(why.message);
    }
    if (!*answered) return failed(fmt::format("no answer in {} ms", wait / std::chrono::milliseconds{1}));
    unflushed_ = false;
    return Done{};
}

Status RabbitmqSource::give_back(std::span<const Ticket> undone) {
    for (const auto tag : take(undone))
        if (auto sent = wire_->nack(tag); !sent) return lost(std::move(sent).failure());
    return Done{};
}

Status RabbitmqSource::keep(std::span<const Ticket>) {
    if (wire_ == nullptr) return Done{};
    if (!held_.empty())
        if (auto sent = send_acks(held_enough()); !sent) return sent;
    return read_available();
}

void RabbitmqSource::close() {
    if (std::exchange(closed_, true) || wire_ == nullptr) return;
    (void)flush(options_.connect_timeout);
    if (wire_ != nullptr) wire_->close(options_.connect_timeout);
    lost({});
    taken_away_.clear();
}

std::string problems_of(const Options& options) {
    std::string problems;
    const auto check = [&](bool good, std::string_view problem) {
        if (!good) problems += fmt::format("{}{}", problems.empty() ? "" : "; ", problem);
    };
    check(!options.queue.empty() && options.queue.size() <= 255, "queue: expected a name of 1 to 255 bytes");
    check(options.prefetch > 0, "prefetch: expected 1 to 65535");
    check(options.heartbeat >= std::chrono::seconds{1} && options.heartbeat <= std::chrono::hours{1},
          "heartbeat: expected 1s to 1h");
    check(options.connect_timeout > Duration::zero(), "connect_timeout: expected more than nothing");
    return problems;
}

}  // namespace

Result<std::unique_ptr<Source>> open(Options options) {
    if (auto problems = problems_of(options); !problems.empty()) return Failure{Code::invalid, std::move(problems)};
    auto address = parse_address(options.url);
    if (!address) return std::move(address).failure();
    return std::unique_ptr<Source>(std::make_unique<RabbitmqSource>(std::move(options), *std::move(address)));
}

}  // namespace semel::rabbitmq
