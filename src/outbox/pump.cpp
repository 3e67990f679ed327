#include "outbox/pump.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ledger/mutation.hpp"
#include "outbox/points.hpp"

namespace semel::outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A round that has waited this long for receipts looks whether there is something else to do.
constexpr milliseconds round_max{100};
/// Less is not read at once for turns that fail.
constexpr std::size_t batch_min = 64;
/// So many rows in a turn mean that the next one finds more without being told.
constexpr std::size_t busy_rows = 256;
constexpr milliseconds pause_first{100};
constexpr milliseconds pause_max{5000};
constexpr milliseconds sleep_slice{100};
constexpr milliseconds deaf_poll{100};
/// While a transaction may still be open that began before the bell was asked for.
constexpr milliseconds fresh_poll{50};
constexpr seconds fresh_for{1};
constexpr seconds look_every{2};
constexpr seconds tell_every{60};
constexpr seconds drain_max{5};

Duration longer(Duration pause) { return std::clamp<Duration>(pause * 2, pause_first, pause_max); }

double in_seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

Pump::Pump(OutboxTable& table, Publisher& publisher, PumpOptions options, Say say, const Clock& clock)
    : table_(table),
      publisher_(publisher),
      options_(options),
      say_(std::move(say)),
      clock_(clock),
      batch_(options.batch) {}

template <class Change>
void Pump::note(Change change) {
    const std::lock_guard lock(mutex_);
    change(state_);
}

PumpState Pump::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

void Pump::run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        if (clock_.steady() >= hold_next_) hold();
        look_after();
        switch (round()) {
            case Went::on: break;
            case Went::idle: listen(stop); break;
            case Went::wrong: sleep(stop, std::max(broker_pause_, store_pause(Part::turn))); break;
        }
    }
    drain(drain_max);
    table_.leave();
}

// ---- the lease -----------------------------------------------------------------------------------------------------

/// With nothing on its way: a shard that is let go here is not published from two places.
void Pump::hold() {
    const bool over = clock_.steady() >= held_until_;
    if (!over) drain(seconds{1});
    const auto sent = clock_.steady();
    auto held = table_.hold(options_.lease);
    if (!held) {
        store_failed(Part::hold, held.failure());
        hold_next_ = clock_.steady() + store_pause(Part::hold);
        if (over) shards_.clear();
        return;
    }
    if (held->shards != shards_)
        say_("info", fmt::format("{} of the shards are this relay's, of {} relays", held->shards.size(), held->relays));
    shards_ = std::move(held->shards);
    held_until_ = sent + options_.lease;
    hold_next_ =
        sent + (shards_.size() < held->share ? std::min<Duration>(options_.lease / 3, seconds{1}) : options_.lease / 3);
    note([&](PumpState& state) {
        state.shards = shards_.size();
        state.relays = held->relays;
    });
    store_answered(Part::hold);
}

// ---- one round -----------------------------------------------------------------------------------------------------

Pump::Went Pump::round() {
    if (!turn()) return Went::wrong;
    if (ready_.empty() && on_their_way_.empty()) {
        // Nothing waits for the broker, so nothing is known against it.
        if (std::exchange(broker_pause_, {}).count() != 0) note([](PumpState& state) { state.broker_down.clear(); });
        return Went::idle;
    }
    reach(Point::after_read);
    // Without the lease nothing more is handed over; what is on its way is waited for all the same.
    const bool held = clock_.steady() < held_until_;
    if (!held) forget_unsent();
    const Steady round_until = clock_.steady() + round_max;
    const Steady until =
        SEMEL_MUTATION(not_waited_without_the_lease, held, true) ? std::min(round_until, held_until_) : round_until;
    bool well = true;
    while (well && (!ready_.empty() || !on_their_way_.empty())) {
        const auto left = std::chrono::duration_cast<Duration>(until - clock_.steady());
        if (left <= Duration{0}) break;
        well = send_ready();
        if (!well) break;
        reach(Point::after_publish);
        well = collect(left);
    }
    forget_unsent();
    return well ? Went::on : Went::wrong;
}

/// All of them are a batch. Shards that had more than their share get what the others may do without.
std::vector<OutboxReading> Pump::shares() const {
    const std::size_t count = shards_.size();
    const auto full =
        static_cast<std::size_t>(std::ranges::count_if(shards_, [&](auto shard) { return full_.contains(shard); }));
    const std::size_t batch = std::max(batch_, count);
    const std::size_t even = batch / std::max<std::size_t>(1, count);
    const std::size_t least = full == 0 || full == count ? even : std::max<std::size_t>(1, even / 2);
    const std::size_t most = full == 0 ? even : (batch - least * (count - full)) / full;
    std::vector<OutboxReading> all;
    for (const std::int16_t shard : shards_) all.push_back({shard, full_.contains(shard) ? most : least});
    return all;
}

/// Removes what was confirmed, notes what was refused, and reads what is left. False: the database did not answer.
bool Pump::turn() {
    const bool removes = !confirmed_.empty();
    if (clock_.steady() >= held_until_) shards_.clear();
    const std::vector<OutboxReading> wanted = shares();
    auto read = table_.turn({.done = confirmed_, .refused = refused_, .read = wanted});
    if (!read) {
        store_failed(Part::turn, read.failure());
        batch_ = std::max(std::min(batch_min, options_.batch), batch_ / 2);
        return false;
    }
    if (removes) reach(Point::after_remove);
    store_answered(Part::turn);
    batch_ = std::min(options_.batch, batch_ + std::max<std::size_t>(1, batch_ / 8));
    confirmed_.clear();
    refused_.clear();
    stopped_.clear();
    std::map<std::int16_t, std::size_t> came;
    for (const OutboxRow& row : *read) ++came[row.place.shard];
    full_.clear();
    for (const auto& [shard, limit] : wanted)
        if (came[shard] >= limit) full_.insert(shard);
    if (bell_ && read->size() >= busy_rows && table_.ring(false)) bell_ = false;
    for (OutboxRow& row : *read) take(std::move(row));
    return true;
}

/// A row that was read: to be handed over now, or behind the one before it.
void Pump::take(OutboxRow row) {
    const OutboxPlace place = row.place;
    const std::string key = row.staged.ordering_key;
    if (!rows_.try_emplace(place, std::move(row)).second) return;  // on its way
    const bool in_turn = SEMEL_MUTATION(key_is_not_waited_for, key.empty() || publisher_.keeps_order(), true);
    if (!in_turn && !busy_.insert(key).second)
        behind_[key].push_back(place);
    else
        ready_.push_back(place);
}

/// Whether it may be handed over while those of its key are on their way.
bool Pump::may_follow(const OutboxRow& row) const {
    const auto going = going_.find(row.staged.ordering_key);
    return SEMEL_MUTATION(topics_are_mixed, going == going_.end() || going->second.topic == row.staged.topic, true);
}

bool Pump::send_ready() {
    while (!ready_.empty() && on_their_way_.size() < publisher_.on_their_way_max()) {
        const OutboxPlace place = ready_.front();
        ready_.pop_front();
        const OutboxRow& row = rows_.at(place);
        const std::string& key = row.staged.ordering_key;
        if (!key.empty() && (stopped_.contains(key) || !may_follow(row))) {
            stopped_.insert(key);  // with those behind it, until the next turn reads them again
            rows_.erase(place);
            continue;
        }
        on_their_way_.insert(place);
        if (!key.empty()) {
            Going& going = going_[key];
            going.topic = row.staged.topic;
            ++going.count;
        }
        const auto handed = publisher_.publish(row);
        if (!handed) {
            broker_failed(handed.failure());
            return false;
        }
        if (SEMEL_MUTATION(handed_over_is_confirmed, false, true)) confirmed_.push_back(place);
        if (!handed->refused.empty()) settle({place, Receipt::What::refused, handed->refused});
    }
    return true;
}

bool Pump::collect(Duration wait) {
    auto came = publisher_.receipts(wait);
    if (!came) {
        broker_failed(came.failure());
        return false;
    }
    if (!came->empty()) reach(Point::after_confirm);
    for (const Receipt& receipt : *came) settle(receipt);
    const std::size_t left = on_their_way_.size();
    if (broker_pause_.count() != 0 && !came->empty()) {
        broker_pause_ = {};
        say_("info", fmt::format("{} answers again", publisher_.text()));
    }
    note([&](PumpState& state) {
        state.on_their_way = left;
        if (!came->empty()) state.broker_down.clear();
    });
    return true;
}

void Pump::settle(const Receipt& receipt) {
    const auto found = rows_.find(receipt.place);
    if (on_their_way_.erase(receipt.place) == 0 || found == rows_.end()) return;
    const OutboxRow row = std::move(found->second);
    rows_.erase(found);
    const std::string& key = row.staged.ordering_key;
    if (const auto going = going_.find(key); going != going_.end() && --going->second.count == 0) going_.erase(going);
    const bool taken = receipt.what != Receipt::What::refused;
    if (taken) {
        confirmed_.push_back(row.place);
        tries_.erase(row.place);
    } else {
        const std::uint64_t tries = ++tries_[row.place];
        const Duration pause = std::min<Duration>(
            options_.retry_max, options_.retry_first * (1LL << std::min<std::uint64_t>(tries - 1, 20)));
        refused_.push_back({.place = row.place, .ordering_key = key, .error = receipt.why, .again_after = pause});
        if (SEMEL_MUTATION(refused_stops_nothing, !key.empty(), false)) stopped_.insert(key);
        say_("error", fmt::format("event {} for {} is stuck, and its ordering key with it: {}", row.staged.event.id,
                                  row.staged.topic, receipt.why));
    }
    note([&](PumpState& state) {
        state.published += taken ? 1 : 0;
        state.duplicates += receipt.what == Receipt::What::duplicate ? 1 : 0;
        state.refused += taken ? 0 : 1;
    });
    const auto next = behind_.find(key);
    if (key.empty() || publisher_.keeps_order()) return;
    if (taken && next != behind_.end() && !next->second.empty()) {
        ready_.push_back(next->second.front());
        next->second.pop_front();
        return;
    }
    busy_.erase(key);
    if (next == behind_.end()) return;
    for (const OutboxPlace& place : next->second) rows_.erase(place);
    behind_.erase(next);
}

/// What was read and not handed over is read again: it may have changed, or be somebody else's by then.
void Pump::forget_unsent() {
    ready_.clear();
    behind_.clear();
    busy_.clear();
    std::erase_if(rows_, [&](const auto& each) {
        return SEMEL_MUTATION(unsent_is_not_read_again, !on_their_way_.contains(each.first), false);
    });
    for (const auto& [place, row] : rows_)
        if (!row.staged.ordering_key.empty()) busy_.insert(row.staged.ordering_key);
}

void Pump::drain(Duration most) {
    const auto until = clock_.steady() + most;
    while (!on_their_way_.empty() && clock_.steady() < until)
        if (!collect(std::chrono::duration_cast<Duration>(until - clock_.steady()))) break;
    if (confirmed_.empty() && refused_.empty()) return;
    auto written = table_.turn({.done = confirmed_, .refused = refused_});
    if (!written) return store_failed(Part::turn, written.failure());
    confirmed_.clear();
    refused_.clear();
}

// ---- what goes wrong -------------------------------------------------------------------------------------------------

/// All that has no receipt begins again from the table, after a pause.
void Pump::broker_failed(const Failure& failure) {
    publisher_.start_over();
    if (SEMEL_MUTATION(lost_is_confirmed, false, true))
        confirmed_.insert(confirmed_.end(), on_their_way_.begin(), on_their_way_.end());
    on_their_way_.clear();
    going_.clear();
    forget_unsent();
    broker_pause_ = longer(broker_pause_);
    const bool news = state().broker_down.empty();
    note([&](PumpState& state) {
        state.broker_down = failure.message;
        state.on_their_way = 0;
        ++state.restarts;
    });
    if (news) say_("error", failure.message);
}

void Pump::store_failed(Part part, const Failure& failure) {
    store_pause(part) = longer(store_pause(part));
    const bool news = state().store_down.empty();
    note([&](PumpState& state) { state.store_down = failure.message; });
    if (news) say_("error", failure.message);
}

/// It is well again when everything is.
void Pump::store_answered(Part part) {
    if (std::exchange(store_pause(part), {}).count() == 0) return;
    if (std::ranges::any_of(store_pauses_, [](Duration pause) { return pause.count() != 0; })) return;
    note([](PumpState& state) { state.store_down.clear(); });
}

// ---- waiting ---------------------------------------------------------------------------------------------------------

void Pump::sleep(const std::stop_token& stop, Duration time) {
    const auto until = std::min<Steady>(clock_.steady() + time, std::max(hold_next_, clock_.steady() + pause_first));
    while (!stop.stop_requested() && clock_.steady() < until)
        static_cast<void>(table_.wait(
            std::min<Duration>(sleep_slice, std::chrono::duration_cast<Duration>(until - clock_.steady()))));
}

/// Until something is staged, as far as we are told; else for a while.
void Pump::listen(const std::stop_token& stop) {
    if (!bell_) {
        if (auto rung = table_.ring(true); !rung) {
            store_failed(Part::bell, rung.failure());
            return sleep(stop, store_pause(Part::bell));
        }
        store_answered(Part::bell);
        bell_ = true;
        bell_since_ = clock_.steady();
        return;  // what was staged before anybody rang is found by one more look
    }
    const bool fresh = clock_.steady() - bell_since_ < fresh_for;
    const Duration time = fresh ? Duration{fresh_poll} : table_.hears() ? options_.poll : Duration{deaf_poll};
    const auto until = std::min<Steady>(clock_.steady() + time, hold_next_);
    while (!stop.stop_requested() && clock_.steady() < until) {
        const auto left = std::chrono::duration_cast<Duration>(until - clock_.steady());
        if (table_.wait(std::min<Duration>(sleep_slice, left))) return;
    }
}

/// What an operator wants to know, now and then.
void Pump::look_after() {
    if (clock_.steady() < look_next_) return;
    look_next_ = clock_.steady() + look_every;
    auto health = table_.health();
    if (!health) return store_failed(Part::look, health.failure());
    store_answered(Part::look);
    const Duration oldest = health->oldest ? std::max(Duration{0}, health->now - *health->oldest) : Duration{0};
    const Duration held_up = health->held_up_for.value_or(Duration{0});
    note([&](PumpState& state) {
        state.stuck = health->stuck;
        state.oldest_seconds = in_seconds(oldest);
        state.held_up_seconds = in_seconds(held_up);
    });
    if (clock_.steady() - told_ < tell_every) return;
    if (held_up >= options_.alarm) {
        told_ = clock_.steady();
        say_("warning",
             fmt::format("{} has staged events and has been open for {:.0f} s: others that stage for the same "
                         "ordering keys wait for it",
                         health->held_up_by, in_seconds(held_up)));
    } else if (oldest >= options_.alarm) {
        told_ = clock_.steady();
        say_("warning", fmt::format("the oldest event that is not published was staged {:.0f} s ago; {} are stuck",
                                    in_seconds(oldest), health->stuck));
    }
}

}  // namespace semel::outbox
