#include "outbox/pump.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "ledger/mutation.hpp"
#include "ledger/staged_event.hpp"
#include "outbox/points.hpp"

namespace semel::outbox {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What was read of a shard this long ago and is not all published is read again, beside what has been staged since.
constexpr milliseconds round_max{100};
/// While a turn is on its way receipts are waited for no longer than this: a part of the time that it has taken so far.
constexpr milliseconds answer_slice_min{1};
constexpr milliseconds answer_slice_max{20};
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
        if (!asked_) look_after();
        switch (round()) {
            case Went::on: break;
            case Went::idle: listen(stop); break;
            case Went::wrong:
                finish_turn();
                sleep(stop, std::max(broker_pause_, store_pause(Part::turn)));
                break;
        }
    }
    finish_turn();
    drain(drain_max);
    table_.leave();
}

// ---- the lease -----------------------------------------------------------------------------------------------------

/// With nothing on its way: a shard that is let go here is not published from two places.
void Pump::hold() {
    finish_turn();
    forget_unsent();
    stopped_.clear();  // what is read from now on is read anew
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

/// Looks after the turn, hands over what may be handed over, and waits for what comes first.
Pump::Went Pump::round() {
    if (!asked_ && due()) begin_turn();
    if (asked_) {
        const bool nothing_else = ready_.empty() && on_their_way_ == 0;
        const bool whole = asked_->wanted.size() == shards_.size();
        if (auto read = table_.turned(nothing_else ? Duration{sleep_slice} : Duration{0})) {
            if (!hear(std::move(*read))) return Went::wrong;
            if (whole && ready_.empty() && on_their_way_ == 0 && confirmed_.empty() && refused_.empty()) {
                // Nothing waits for the broker, so nothing is known against it.
                if (std::exchange(broker_pause_, {}).count() != 0)
                    note([](PumpState& state) { state.broker_down.clear(); });
                return Went::idle;
            }
        }
    }
    // Without the lease nothing more is handed over; what is on its way is waited for all the same.
    if (clock_.steady() >= held_until_) forget_unsent();
    if (ready_.empty() && on_their_way_ == 0) return Went::on;
    if (!send_ready()) return Went::wrong;
    reach(Point::after_publish);
    return collect(patience()) ? Went::on : Went::wrong;
}

/// How long to wait for receipts before something else may have to be done.
Duration Pump::patience() const {
    const auto now = clock_.steady();
    Duration most = round_max;
    if (SEMEL_MUTATION(not_waited_without_the_lease, now < held_until_, true))
        most = std::min(most, std::chrono::duration_cast<Duration>(held_until_ - now));
    if (asked_)
        most = std::min(most, std::clamp<Duration>(std::chrono::duration_cast<Duration>(now - asked_->at) / 4,
                                                   answer_slice_min, answer_slice_max));
    return std::max(most, Duration{0});
}

// ---- turns ---------------------------------------------------------------------------------------------------------

/// Whether it is time for the next turn: nothing is in hand; or as many shards have been worked off as are being worked on;
/// or there is one that takes long, in which others should not wait.
bool Pump::due() const {
    if (ready_.empty() && on_their_way_ == 0) return true;
    const auto now = clock_.steady();
    std::size_t at_work = 0;
    for (const auto& [number, shard] : by_shard_) {
        if (shard.rows == 0) continue;
        if (now - shard.read_at >= round_max) return true;
        ++at_work;
    }
    const auto worked_off = static_cast<std::size_t>(std::ranges::count_if(shards_, [&](std::int16_t number) {
        const auto found = by_shard_.find(number);
        return found == by_shard_.end() || (found->second.rows == 0 && !found->second.quiet);
    }));
    return worked_off > 0 && worked_off >= at_work;
}

/// Asks for what was confirmed to be removed, what was refused to be noted, and what is left of the shards of which nothing
/// waits to be handed over. Of those that take long what waits is read again.
void Pump::begin_turn() {
    const auto now = clock_.steady();
    if (now >= held_until_) shards_.clear();
    const bool nothing_to_do = ready_.empty() && on_their_way_ == 0;
    forget_unsent(now - round_max);
    asked_ = Asked{};
    Asked& asked = *asked_;
    for (const OutboxReading& each : shares()) {
        const Shard& shard = by_shard_[each.shard];
        if (nothing_to_do || shard.rows == 0 || now - shard.read_at >= round_max) asked.wanted.push_back(each);
    }
    for (auto& [number, shard] : by_shard_)
        if (now - shard.read_at >= round_max) shard.read_at = now;  // also of one that is no longer ours
    asked.done = confirmed_.size();
    asked.refused = refused_.size();
    asked.at = now;
    ++turns_;
    table_.begin_turn({.done = confirmed_, .refused = refused_, .read = asked.wanted});
    if (asked.done > 0) reach(Point::after_ask);
}

/// The answer to a turn. Since it was asked for, receipts have come: what they are about may be among what it has read. False:
/// the database did not answer.
bool Pump::hear(Result<std::vector<OutboxRow>> read) {
    const Asked asked = *std::exchange(asked_, std::nullopt);
    if (!read) {
        store_failed(Part::turn, read.failure());
        batch_ = std::max(std::min(batch_min, options_.batch), batch_ / 2);
        forget_unsent();
        return false;
    }
    if (asked.done > 0) reach(Point::after_remove);
    store_answered(Part::turn);
    batch_ = std::min(options_.batch, batch_ + std::max<std::size_t>(1, batch_ / 8));
    const auto all = SEMEL_MUTATION(confirmed_later_is_forgotten, asked.done, confirmed_.size());
    confirmed_.erase(confirmed_.begin(), confirmed_.begin() + static_cast<std::ptrdiff_t>(all));
    refused_.erase(refused_.begin(), refused_.begin() + static_cast<std::ptrdiff_t>(asked.refused));
    look_at(asked.wanted, *read);
    if (bell_ && read->size() >= busy_rows && table_.ring(false)) bell_ = false;
    std::unordered_set<OutboxPlace, PlaceHash> settled;
    for (const OutboxPlace& place : confirmed_) settled.insert(place);
    for (const OutboxRefusal& each : refused_) settled.insert(each.place);
    for (OutboxRow& row : *read)
        if (SEMEL_MUTATION(confirmed_later_is_taken, !settled.contains(row.place), true)) take(std::move(row));
    if (!ready_.empty()) reach(Point::after_read);
    return true;
}

/// What a turn tells of the shards that it has read.
void Pump::look_at(const std::vector<OutboxReading>& wanted, const std::vector<OutboxRow>& read) {
    std::map<std::int16_t, std::size_t> came;
    for (const OutboxReading& each : wanted) came[each.shard] = 0;
    for (const OutboxRow& row : read) ++came[row.place.shard];
    for (const OutboxReading& each : wanted) {
        Shard& shard = by_shard_[each.shard];
        shard.read_at = clock_.steady();
        shard.full = came[each.shard] >= each.limit;
        shard.quiet = came[each.shard] == 0;
    }
    // Nothing is in hand of a key that was stopped before its shard was asked for: the database has been told why.
    std::erase_if(stopped_, [&](const auto& each) {
        const Stopped& stopped = each.second;
        return came.contains(stopped.shard) && SEMEL_MUTATION(stopped_later_goes_on, stopped.turn < turns_, true);
    });
}

/// What it has read is not taken: by the time that it could be handed over it may have changed.
void Pump::finish_turn() {
    while (asked_)
        if (auto read = table_.turned(sleep_slice)) {
            if (*read) (*read)->clear();
            static_cast<void>(hear(std::move(*read)));
            for (auto& [number, shard] : by_shard_) shard.quiet = false;
        }
}

/// All of them are a batch. Shards that had more than their share get what the others may do without.
std::vector<OutboxReading> Pump::shares() const {
    const auto is_full = [&](std::int16_t shard) {
        const auto found = by_shard_.find(shard);
        return found != by_shard_.end() && found->second.full;
    };
    const std::size_t count = shards_.size();
    const auto full = static_cast<std::size_t>(std::ranges::count_if(shards_, is_full));
    const std::size_t batch = std::max(batch_, count);
    const std::size_t even = batch / std::max<std::size_t>(1, count);
    const std::size_t least = full == 0 || full == count ? even : std::max<std::size_t>(1, even / 2);
    const std::size_t most = full == 0 ? even : (batch - least * (count - full)) / full;
    std::vector<OutboxReading> all;
    for (const std::int16_t shard : shards_) {
        const std::size_t limit = is_full(shard) ? most : least;
        all.push_back({.shard = shard, .limit = limit, .bytes = outbox_read_bytes_max * limit / batch});
    }
    return all;
}

// ---- events --------------------------------------------------------------------------------------------------------

/// A row that was read: to be handed over now, or behind the one before it.
void Pump::take(OutboxRow row) {
    const OutboxPlace place = row.place;
    if (stopped_.contains(row.staged.ordering_key)) return;  // since it was read
    const auto [found, fresh] = rows_.try_emplace(place, InHand{std::move(row)});
    if (!fresh) return;  // on its way
    ++by_shard_[place.shard].rows;
    const std::string& key = found->second.row.staged.ordering_key;
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
    while (!ready_.empty() && on_their_way_ < publisher_.on_their_way_max()) {
        const OutboxPlace place = ready_.front();
        ready_.pop_front();
        InHand& held = rows_.at(place);
        const std::string& key = held.row.staged.ordering_key;
        if (!key.empty() && (stopped_.contains(key) || !may_follow(held.row))) {
            stopped_.try_emplace(key, Stopped{place.shard, turns_});  // with those behind it
            forget(place);
            continue;
        }
        held.on_its_way = true;
        ++on_their_way_;
        if (!key.empty()) {
            Going& going = going_[key];
            if (going.count++ == 0) going.topic = held.row.staged.topic;
        }
        const auto handed = publisher_.publish(held.row);
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
    std::uint64_t published = 0;
    std::uint64_t duplicates = 0;
    for (const Receipt& receipt : *came) {
        if (!settle(receipt)) continue;
        ++published;
        if (receipt.what == Receipt::What::duplicate) ++duplicates;
    }
    if (broker_pause_.count() != 0 && !came->empty()) {
        broker_pause_ = {};
        say_("info", fmt::format("{} answers again", publisher_.text()));
    }
    note([&](PumpState& state) {
        state.published += published;
        state.duplicates += duplicates;
        state.on_their_way = on_their_way_;
        if (!came->empty()) state.broker_down.clear();
    });
    return true;
}

/// What became of an event that is on its way. True: the broker has it.
bool Pump::settle(const Receipt& receipt) {
    const auto found = rows_.find(receipt.place);
    if (found == rows_.end() || !found->second.on_its_way) return false;
    const OutboxRow row = std::move(found->second.row);
    --on_their_way_;
    forget(receipt.place);
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
        if (SEMEL_MUTATION(refused_stops_nothing, !key.empty(), false)) stopped_[key] = {row.place.shard, turns_};
        say_("error", fmt::format("event {} for {} is stuck, and its ordering key with it: {}", row.staged.event.id,
                                  row.staged.topic, receipt.why));
        note([](PumpState& state) { ++state.refused; });
    }
    if (key.empty()) return taken;
    const auto next = behind_.find(key);
    if (taken && next != behind_.end()) {
        ready_.push_back(next->second.front());
        next->second.pop_front();
        if (next->second.empty()) behind_.erase(next);
        return true;
    }
    busy_.erase(key);
    if (next == behind_.end()) return taken;
    for (const OutboxPlace& place : next->second) forget(place);
    behind_.erase(next);
    return taken;
}

void Pump::forget(const OutboxPlace& place) {
    rows_.erase(place);
    --by_shard_[place.shard].rows;
}

/// What was not handed over, of shards that were read by then, is read again: it may have changed, or be somebody else's.
void Pump::forget_unsent(Steady read_by) {
    const auto goes = [&](const OutboxPlace& place) { return by_shard_[place.shard].read_at <= read_by; };
    if (rows_.size() == on_their_way_) return;
    std::erase_if(ready_, goes);
    std::erase_if(behind_, [&](const auto& each) { return goes(each.second.front()); });
    std::erase_if(rows_, [&](const auto& each) {
        const auto& [place, held] = each;
        if (held.on_its_way || !goes(place)) return false;
        if (SEMEL_MUTATION(unsent_is_not_read_again, false, true)) return false;
        --by_shard_[place.shard].rows;
        return true;
    });
    busy_.clear();
    for (const auto& [place, held] : rows_)
        if (SEMEL_MUTATION(key_on_its_way_is_free, !held.row.staged.ordering_key.empty(), false))
            busy_.insert(held.row.staged.ordering_key);
}

/// Without a turn on its way. Nothing more is handed over.
void Pump::drain(Duration most) {
    forget_unsent();
    const auto until = clock_.steady() + most;
    while (on_their_way_ > 0 && clock_.steady() < until)
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
        for (const auto& [place, held] : rows_)
            if (held.on_its_way) confirmed_.push_back(place);
    for (auto& [place, held] : rows_) held.on_its_way = false;
    on_their_way_ = 0;
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
