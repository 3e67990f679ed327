// The message loop: one thread talks to the broker, others work.
//
//   pump (the thread of `run`)                        lane (one per worker)
//   fetch, read ── messages, by ordering key ───────> waits, takes what has gathered
//   keep, renew leases while lanes work               engine: claim, handle, commit
//   acknowledge <──── what is committed ───────────── done
//
// Only the pump uses the source, so a slow handler never keeps the broker waiting for a sign of life; only the lane uses its
// inbox. Nothing is acknowledged that a lane has not reported, and a lane reports after its commit. Lanes share no
// transaction: what a crash leaves of one is as if the others were other consumers of the group.
#include "semel/consumer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "consumers/batch.hpp"
#include "consumers/in_transaction.hpp"
#include "consumers/loop.hpp"
#include "semel/keys.hpp"

namespace semel {
namespace {

using Steady = std::chrono::steady_clock;

constexpr Duration idle_wait = std::chrono::milliseconds{200};
constexpr Duration busy_wait = std::chrono::milliseconds{5};   // while there will soon be something to acknowledge
constexpr Duration slow_wait = std::chrono::milliseconds{50};  // while somebody takes his time
constexpr Duration soon = std::chrono::milliseconds{200};
constexpr Duration full_wait = std::chrono::milliseconds{50};
constexpr Duration keep_at_least_every = std::chrono::seconds{1};
constexpr Duration backoff_first = std::chrono::milliseconds{50};
constexpr Duration backoff_max = std::chrono::seconds{5};
constexpr Duration shelf_look_every = std::chrono::seconds{1};
constexpr Duration shelf_look_soonest = std::chrono::milliseconds{20};
constexpr Duration stop_flush_wait = std::chrono::seconds{5};

/// A longer message is read when its turn comes: what has been read takes as much memory again.
constexpr std::size_t read_ahead_bytes_max = std::size_t{64} << 10;

struct Parcel {
    Delivery delivery{};
    Steady::time_point not_before{};
    std::optional<Item> read{};  ///< ahead, without its message; for the first time that it is tried
};

Parcel parcel_of(Delivery delivery, const ConsumerOptions& options) {
    Parcel parcel{std::move(delivery)};
    if (parcel.delivery.message.body.size() > read_ahead_bytes_max) return parcel;
    parcel.read = read_item(parcel.delivery.message, options);
    parcel.read->message = nullptr;  // it is about to move
    return parcel;
}

/// The parcel has to stay where it is for as long as the item is used.
Item item_of(Parcel& parcel, const ConsumerOptions& options) {
    if (!parcel.read) return read_item(parcel.delivery.message, options);
    Item item = *std::exchange(parcel.read, std::nullopt);
    item.message = &parcel.delivery.message;
    return item;
}

}  // namespace

// ---- lanes -----------------------------------------------------------------------------------------------------

class Loop::Lane {
public:
    Lane(Loop& loop, std::size_t number, std::unique_ptr<Inbox> inbox, std::unique_ptr<Engine> engine)
        : loop_(loop), number_(number), inbox_(std::move(inbox)), engine_(std::move(engine)) {}

    /// Reads them, too: the lane's time is that of its transactions.
    void put(std::vector<Delivery> deliveries) {
        std::vector<Parcel> parcels;
        parcels.reserve(deliveries.size());
        for (Delivery& delivery : deliveries) parcels.push_back(parcel_of(std::move(delivery), loop_.options_));
        {
            const std::lock_guard lock(mutex_);
            std::ranges::move(parcels, std::back_inserter(ready_));
            load_ = ready_.size() + taken_;
            news_ = true;
        }
        wake_.notify_one();
    }
    /// How many messages it has, begun or not. Of any thread.
    [[nodiscard]] std::size_t load() const { return load_; }
    void start() {
        thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    }
    void ask_to_stop() {
        thread_.request_stop();
        wake_.notify_one();
    }
    /// Waits for what is under way; returns what was not begun.
    std::vector<Ticket> join() {
        if (thread_.joinable()) thread_.join();
        std::vector<Ticket> left;
        const std::lock_guard lock(mutex_);
        for (const Parcel& parcel : ready_) left.push_back(parcel.delivery.ticket);
        ready_.clear();
        return left;
    }
    /// Deliveries that have become the broker's again need not be begun.
    void drop(std::span<const Ticket> taken_away, std::size_t& dropped) {
        const std::lock_guard lock(mutex_);
        dropped += std::erase_if(ready_, [&](const Parcel& parcel) {
            return std::ranges::find(taken_away, parcel.delivery.ticket) != taken_away.end();
        });
        load_ = ready_.size() + taken_;
    }
    /// The last one that is not begun and that no order binds to this lane.
    std::optional<Parcel> give() {
        const std::lock_guard lock(mutex_);
        const auto now = Steady::now();
        const auto free = std::find_if(ready_.rbegin(), ready_.rend(), [&](const Parcel& parcel) {
            return parcel.not_before <= now && !loop_.has_its_lane(parcel.delivery.message);
        });
        if (free == ready_.rend()) return std::nullopt;
        std::optional<Parcel> given(std::move(*free));
        ready_.erase(std::next(free).base());
        load_ = ready_.size() + taken_;
        return given;
    }
    /// With the thread ended.
    Inbox& inbox() { return *inbox_; }

private:
    void run(const std::stop_token& stop);
    std::vector<Parcel> take(const std::stop_token& stop);
    std::vector<Parcel> help();
    void work(std::vector<Parcel> parcels, const std::stop_token& stop);
    bool apply(std::vector<Parcel>& parcels, const std::stop_token& stop);
    void refuse(const Parcel& parcel, const Failure& failure);
    void report(std::vector<Parcel>& parcels, const std::vector<Item>& items);
    void look_at_shelf();
    bool note_progress();
    bool rest(Duration wait, const std::stop_token& stop);

    Loop& loop_;
    std::size_t number_;
    std::unique_ptr<Inbox> inbox_;
    std::unique_ptr<Engine> engine_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::deque<Parcel> ready_;  // guarded by mutex_, as are the following
    bool news_ = false;         // something was put there since it was looked through
    std::size_t taken_ = 0;     // being worked on
    std::atomic<std::size_t> load_ = 0;
    Steady::time_point shelf_at_{};
    Steady::time_point progress_at_{};
    Duration backoff_ = backoff_first;
    std::jthread thread_;
};

void Loop::Lane::run(const std::stop_token& stop) {
    // Nothing is settled before the sweep knows of this member.
    while (!note_progress())
        if (!rest(backoff_max, stop)) return;
    while (!stop.stop_requested()) {
        auto parcels = take(stop);
        if (parcels.empty() && !stop.stop_requested()) parcels = help();
        if (!parcels.empty()) work(std::move(parcels), stop);
        if (stop.stop_requested()) return;
        if (Steady::now() >= shelf_at_) look_at_shelf();
        if (Steady::now() >= progress_at_) note_progress();
    }
}

/// What may be begun now, up to a batch; nothing when it is time for something else. One that has to wait keeps those with
/// its ordering key behind it.
std::vector<Parcel> Loop::Lane::take(const std::stop_token& stop) {
    std::vector<Parcel> taken;
    std::unique_lock lock(mutex_);
    const auto until = std::min(shelf_at_, progress_at_);
    while (!stop.stop_requested()) {
        const auto now = Steady::now();
        auto next = until;
        std::set<std::string> waiting;
        news_ = false;
        for (auto parcel = ready_.begin(); parcel != ready_.end() && taken.size() < loop_.parcels_max_;) {
            const std::string& key = parcel->delivery.message.ordering_key;
            const bool behind = loop_.is_bound(parcel->delivery.message) && waiting.contains(key);
            if (parcel->not_before > now || behind) {
                if (!behind) next = std::min(next, parcel->not_before);
                waiting.insert(key);
                ++parcel;
                continue;
            }
            taken.push_back(std::move(*parcel));
            parcel = ready_.erase(parcel);
        }
        taken_ = taken.size();
        load_ = ready_.size() + taken_;
        if (!taken.empty() || now >= until) return taken;
        wake_.wait_until(lock, stop, next, [&] { return news_; });
    }
    return taken;
}

/// One of those that wait behind a slow message in another lane; asked for whenever there is nothing else to do.
std::vector<Parcel> Loop::Lane::help() {
    std::vector<Parcel> given;
    for (auto& lane : loop_.lanes_) {
        if (lane.get() == this) continue;
        auto parcel = lane->give();
        if (!parcel) continue;
        given.push_back(std::move(*parcel));
        const std::lock_guard lock(mutex_);
        taken_ = given.size();
        load_ = ready_.size() + taken_;
        break;
    }
    return given;
}

bool Loop::Lane::rest(Duration wait, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    wake_.wait_until(lock, stop, Steady::now() + wait, [&] { return stop.stop_requested(); });
    return !stop.stop_requested();
}

void Loop::Lane::work(std::vector<Parcel> parcels, const std::stop_token& stop) {
    if (apply(parcels, stop)) return;
    // Stopped before it was done, or before that was known: it stays with the rest, to be given back.
    loop_.doubt();
    const std::lock_guard lock(mutex_);
    std::ranges::move(parcels, std::back_inserter(ready_));
}

/// False: a stop was asked for before it could be done.
bool Loop::Lane::apply(std::vector<Parcel>& parcels, const std::stop_token& stop) {
    for (int contended = 0;;) {
        std::vector<Item> items;
        items.reserve(parcels.size());
        for (Parcel& parcel : parcels) items.push_back(item_of(parcel, loop_.options_));
        const Status done = engine_->apply(items);
        if (done) {
            backoff_ = backoff_first;
            report(parcels, items);
            return true;
        }
        const Failure& failure = done.failure();
        loop_.complain(failure);
        if (loop_.options_.mode == DeliveryMode::at_most_once && failure.code == Code::indeterminate) {
            loop_.lost(parcels.size());  // perhaps done, and no ledger to ask: not again
            report(parcels, {});
            return true;
        }
        const bool one = parcels.size() == 1;
        const bool refused = failure.code == Code::invalid || failure.code == Code::corrupt;
        if (one && refused) {
            refuse(parcels[0], failure);
            return true;
        }
        if (failure.code == Code::contended && contended++ == 0) continue;
        if (!one && (refused || failure.code == Code::contended)) {
            // The one that fails is found by itself; the others are done.
            while (!parcels.empty()) {
                std::vector<Parcel> single;
                single.push_back(std::move(parcels.front()));
                parcels.erase(parcels.begin());
                if (!apply(single, stop)) {
                    parcels.insert(parcels.begin(), std::move(single.front()));
                    return false;
                }
            }
            return true;
        }
        if (!rest(backoff_, stop)) return false;
        backoff_ = std::min(backoff_ * 2, backoff_max);
    }
}

/// The ledger or the database cannot take this message, now or later.
void Loop::Lane::refuse(const Parcel& parcel, const Failure& failure) {
    Item item = read_item(parcel.delivery.message, loop_.options_);
    auto buried = in_transaction(*inbox_, [&](TimePoint now) -> Status {
        bury(*inbox_, {.consumer = loop_.options_.name,
                       .reason = std::string(name(DeadReason::refused)),
                       .error = error_text(failure.message),
                       .tries = item.tries,
                       .at = now,
                       .message = parcel.delivery.message});
        return Done{};
    });
    std::vector<Parcel> parcels;
    parcels.push_back(parcel);
    if (!buried) {
        loop_.complain(buried.failure());
        parcels[0].not_before = Steady::now() + backoff_max;
        const std::lock_guard lock(mutex_);
        ready_.push_front(std::move(parcels[0]));
        return;
    }
    item.fate = Fate::dead;
    std::vector<Item> items;
    items.push_back(std::move(item));
    report(parcels, items);
}

void Loop::Lane::report(std::vector<Parcel>& parcels, const std::vector<Item>& items) {
    std::vector<Ticket> done;
    std::vector<Parcel> again;
    if (items.empty())
        for (const Parcel& parcel : parcels) done.push_back(parcel.delivery.ticket);
    for (std::size_t i = 0; i < items.size(); ++i) {
        const Item& item = items[i].fate == Fate::copy ? items[items[i].copy_of] : items[i];
        loop_.count(items[i]);
        if (item.fate == Fate::busy) {
            parcels[i].not_before = Steady::now() + std::max<Duration>(item.look_again, backoff_first);
            again.push_back(std::move(parcels[i]));
        } else {
            done.push_back(parcels[i].delivery.ticket);
        }
    }
    loop_.done(number_, done, engine_->began());
    if (std::ranges::any_of(items, [](const Item& item) {
            return item.fate == Fate::failed || item.fate == Fate::behind || item.fate == Fate::applied;
        }))
        shelf_at_ = std::min(shelf_at_, Steady::now() + loop_.shelf_soon());
    if (again.empty()) return;
    const std::lock_guard lock(mutex_);
    // Before those that came later.
    ready_.insert(ready_.begin(), std::move_iterator(again.begin()), std::move_iterator(again.end()));
}

void Loop::Lane::look_at_shelf() {
    auto done = engine_->apply_due(loop_.parcels_max_);
    if (!done) {
        loop_.complain(done.failure());
        shelf_at_ = Steady::now() + shelf_look_every;
        return;
    }
    for (const Item& item : done->items) loop_.count(item);
    Duration wait = shelf_look_every;
    if (done->next)
        wait = std::clamp<Duration>(std::chrono::duration_cast<Duration>(*done->next - engine_->began()),
                                    shelf_look_soonest, shelf_look_every);
    shelf_at_ = Steady::now() + wait;
}

bool Loop::Lane::note_progress() {
    progress_at_ = Steady::now() + loop_.options_.progress_every;
    auto noted = in_transaction(*inbox_, [&](TimePoint now) { return loop_.note_progress(number_, *inbox_, now); });
    if (!noted) loop_.complain(noted.failure());
    return noted.ok();
}

// ---- the pump --------------------------------------------------------------------------------------------------

Loop::Loop(ConsumerOptions options, std::unique_ptr<Source> source)
    : options_(std::move(options)),
      source_(std::move(source)),
      member_(mint_uuid4().text()),
      parcels_max_(options_.batch_max) {}

Loop::~Loop() = default;

void Loop::add_lane(std::unique_ptr<Inbox> inbox, std::unique_ptr<Engine> engine) {
    lanes_.push_back(std::make_unique<Lane>(*this, lanes_.size(), std::move(inbox), std::move(engine)));
    began_.emplace_back();
}

Status Loop::run(const std::stop_token& stop) {
    for (auto& lane : lanes_) lane->start();
    const std::stop_callback wake(stop, [this] { done_wake_.notify_all(); });
    Status ended = Done{};
    while (!stop.stop_requested()) {
        acknowledge();
        keep();
        if (Steady::now() >= flush_at_) flush(Duration{std::chrono::seconds{1}});
        const std::size_t room = in_flight_max() - std::min(in_flight_max(), working_.size());
        if (room == 0) {
            wait_for_done(full_wait, stop);
            continue;
        }
        const Duration in_work = Steady::now() < done_at_ + soon ? busy_wait : slow_wait;
        auto fetched = source_->fetch(std::min(room, options_.batch_max), working_.empty() ? idle_wait : in_work);
        drop_taken_away();
        if (!fetched) {
            complain(fetched.failure());
            if (fetched.failure().code == Code::invalid) {
                ended = fetched.failure();
                break;
            }
            if (fetched.failure().code == Code::corrupt) {
                ++lost_;
                continue;
            }
            wait_for_done(fetch_backoff_, stop);
            fetch_backoff_ = std::min(fetch_backoff_ * 2, backoff_max);
            continue;
        }
        fetch_backoff_ = backoff_first;
        hand_out(std::move(*fetched));
    }
    stop_lanes();
    return ended;
}

std::size_t Loop::in_flight_max() const {
    return options_.batch_max * (options_.batches_ahead + 1) * std::max<std::size_t>(1, lanes_.size());
}

void Loop::hand_out(std::vector<Delivery> deliveries) {
    if (deliveries.empty()) return;
    received_ += deliveries.size();
    TimePoint now;  // by the database's clock, or a little earlier
    {
        const std::lock_guard lock(mutex_);
        now = std::ranges::max(began_);
    }
    if (working_.empty()) done_at_ = Steady::now();
    for (const Delivery& delivery : deliveries) working_.emplace(delivery.ticket, now);
    if (options_.mode == DeliveryMode::at_most_once) {
        // Acknowledged for sure before anything is done with it.
        std::vector<Ticket> tickets;
        for (const Delivery& delivery : deliveries) tickets.push_back(delivery.ticket);
        if (auto gone = source_->acknowledge(tickets); !gone) complain(gone.failure());
        if (auto gone = source_->flush(std::chrono::seconds{5}); !gone) {
            complain(gone.failure());
            for (const Ticket& ticket : tickets) working_.erase(ticket);
            return;
        }
    }
    if (lanes_.size() == 1) return lanes_[0]->put(std::move(deliveries));
    // The same ordering key, the same lane; without one, any.
    std::vector<std::vector<Delivery>> by_lane(lanes_.size());
    for (Delivery& delivery : deliveries) {
        const std::size_t lane = has_its_lane(delivery.message)
                                     ? std::hash<std::string>{}(delivery.message.ordering_key)
                                     : least_loaded(by_lane);
        by_lane[lane % lanes_.size()].push_back(std::move(delivery));
    }
    for (std::size_t i = 0; i < lanes_.size(); ++i)
        if (!by_lane[i].empty()) lanes_[i]->put(std::move(by_lane[i]));
}

/// The lane with the least to do, so that a slow message has few behind it; of equals one after the other.
std::size_t Loop::least_loaded(const std::vector<std::vector<Delivery>>& by_lane) {
    const std::size_t first = next_lane_++;
    const auto load = [&](std::size_t i) {
        return lanes_[i % lanes_.size()]->load() + by_lane[i % lanes_.size()].size();
    };
    std::size_t best = first;
    for (std::size_t i = first + 1; i < first + lanes_.size(); ++i)
        if (load(i) < load(best)) best = i;
    return best;
}

void Loop::acknowledge() {
    std::vector<Ticket> done;
    {
        const std::lock_guard lock(mutex_);
        done = std::exchange(done_, {});
    }
    if (done.empty()) return;
    done_at_ = Steady::now();
    for (const Ticket& ticket : done) working_.erase(ticket);
    if (options_.mode == DeliveryMode::at_most_once) return;
    if (auto acknowledged = source_->acknowledge(done); !acknowledged) {
        complain(acknowledged.failure());
        doubt();
    }
    if (options_.at) options_.at("acknowledged");
}

void Loop::keep() {
    if (Steady::now() < keep_at_) return;
    const Duration every = source_->keep_every();
    keep_at_ = Steady::now() + (every == Duration{0} ? keep_at_least_every : std::min(every, keep_at_least_every));
    std::vector<Ticket> tickets;
    for (const auto& [ticket, handed_out] : working_) tickets.push_back(ticket);
    if (auto kept = source_->keep(tickets); !kept) complain(kept.failure());
}

void Loop::drop_taken_away() {
    const auto gone = source_->taken_away();
    if (gone.empty()) return;
    std::size_t dropped = 0;
    for (auto& lane : lanes_) lane->drop(gone, dropped);
    std::size_t mine = 0;
    for (const Ticket& ticket : gone) mine += working_.erase(ticket);
    // Some of it may be settled, and is the broker's again.
    if (mine > dropped) doubt();
}

void Loop::wait_for_done(Duration wait, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    done_wake_.wait_for(lock, wait, [&] { return !done_.empty() || stop.stop_requested(); });
}

/// What was settled may not have been acknowledged: until it has come again for sure, nothing that was settled since is
/// forgotten.
void Loop::doubt() {
    const std::lock_guard lock(mutex_);
    doubt_until_ = Steady::now() + silence_max;
    candidate_.reset();
}

void Loop::done(std::size_t lane, const std::vector<Ticket>& tickets, TimePoint began) {
    {
        const std::lock_guard lock(mutex_);
        std::ranges::copy(tickets, std::back_inserter(done_));
        began_[lane] = began;
    }
    ++batches_;
    done_wake_.notify_all();
}

/// Tells the broker everything that is done, and waits until it has taken it.
bool Loop::flush(Duration wait) {
    TimePoint began;
    {
        const std::lock_guard lock(mutex_);
        began = std::ranges::min(began_);
    }
    acknowledge();
    // A broker that keeps one position per partition knows nothing of what is done behind the oldest that is not.
    for (const auto& [ticket, handed_out] : working_) began = std::min(began, handed_out);
    flush_at_ = Steady::now() + options_.progress_every;
    if (auto flushed = source_->flush(wait); !flushed) {
        complain(flushed.failure());
        doubt();
        return false;
    }
    // One flush later: if the connection was lost in the meantime, the source has said so by then.
    const std::lock_guard lock(mutex_);
    if (Steady::now() < doubt_until_) return true;
    if (candidate_) progress_ = *candidate_;
    candidate_ = began;
    return true;
}

Status Loop::note_progress(std::size_t lane, Inbox& inbox, TimePoint now) {
    TimePoint progress;
    bool first = false;
    {
        const std::lock_guard lock(mutex_);
        first = began_[lane] == TimePoint{};
        if (since_ == TimePoint{}) since_ = now;
        progress = progress_;
        // This lane is at nothing else: what it settles from here on is settled later than now, and what it has settled is
        // among what the next flush tells the broker.
        began_[lane] = now;
    }
    // Not in a batch: the first ones of the other lanes would wait for all of it.
    if (first) {
        if (auto made = make_group(inbox, options_.name); !made) return made;
    }
    return semel::note_progress(inbox, options_.name, member_, progress, now, since_);
}

void Loop::stop_lanes() {
    for (auto& lane : lanes_) lane->ask_to_stop();
    std::vector<Ticket> left;
    // A handler that takes its time is waited for, and the broker is kept informed meanwhile.
    std::jthread waiting([&] {
        for (auto& lane : lanes_) std::ranges::copy(lane->join(), std::back_inserter(left));
        const std::lock_guard lock(mutex_);
        joined_ = true;
        done_wake_.notify_all();
    });
    while (true) {
        {
            std::unique_lock lock(mutex_);
            if (done_wake_.wait_for(lock, full_wait, [&] { return joined_; })) break;
        }
        keep();
    }
    waiting.join();
    acknowledge();
    if (options_.mode == DeliveryMode::at_most_once) lost(left.size());
    if (!left.empty()) {
        if (auto given = source_->give_back(left); !given) complain(given.failure());
    }
    const bool all = flush(stop_flush_wait);
    source_->close();
    {
        const std::lock_guard lock(mutex_);
        if (!all || lanes_.empty() || Steady::now() < doubt_until_) return;
    }
    Inbox& inbox = lanes_[0]->inbox();
    auto gone = in_transaction(inbox, [&](TimePoint) { return leave_group(inbox, options_.name, member_); });
    if (!gone) complain(gone.failure());
}

void Loop::complain(const Failure& failure) {
    if (!options_.log) return;
    // The same again and again is said once, then now and then.
    const std::lock_guard lock(log_mutex_);
    const auto now = Steady::now();
    if (failure.message == last_complaint_ && now < complain_again_) return;
    last_complaint_ = failure.message;
    complain_again_ = now + std::chrono::seconds{30};
    options_.log(fmt::format("{}: {}: {}", options_.name, name(failure.code), failure.message));
}

void Loop::count(const Item& item) {
    switch (item.fate) {
        case Fate::open:
        case Fate::busy: break;
        case Fate::applied: ++applied_; break;
        case Fate::duplicate:
        case Fate::copy: ++duplicates_; break;
        case Fate::stale: ++stale_; break;
        case Fate::held: ++held_; break;
        case Fate::behind: ++behind_; break;
        case Fate::failed: ++failed_; break;
        case Fate::dead: ++dead_; break;
    }
}

ConsumerCounts Loop::counts() const {
    return {.received = received_,
            .applied = applied_,
            .duplicates = duplicates_,
            .stale = stale_,
            .held = held_,
            .behind = behind_,
            .failed = failed_,
            .dead = dead_,
            .lost = lost_,
            .batches = batches_};
}

Duration Loop::shelf_soon() const {
    return std::max<Duration>(shelf_look_soonest, std::min<Duration>(options_.retries.first / 2, shelf_look_every));
}

// ---- the consumer ----------------------------------------------------------------------------------------------

std::string_view name(DeliveryMode mode) {
    switch (mode) {
        case DeliveryMode::effectively_once: return "effectively_once";
        case DeliveryMode::at_least_once: return "at_least_once";
        case DeliveryMode::at_most_once: return "at_most_once";
    }
    return "unknown";
}

std::string_view name(OrderGuard guard) {
    switch (guard) {
        case OrderGuard::off: return "off";
        case OrderGuard::latest: return "latest";
        case OrderGuard::gapless: return "gapless";
    }
    return "unknown";
}

Status check(const ConsumerOptions& options) {
    const auto invalid = [&](std::string_view what) {
        return Failure{Code::invalid, fmt::format("consumer {}: {}", options.name, what)};
    };
    if (auto scope = Scope::make(options.tenant, options.name, 0); !scope) return scope.failure();
    if (auto fine = check(options.envelope); !fine) return fine;
    if (auto fine = check(options.key); !fine) return fine;
    if (options.batch_max < 1 || options.batch_max > 1024) return invalid("batch_max must be from 1 to 1024");
    if (options.progress_every < std::chrono::milliseconds{10}) return invalid("progress_every must be at least 10 ms");
    if (options.retries.tries_max < 1) return invalid("retries.tries_max must be at least 1");
    if (options.retries.first <= Duration{0} || options.retries.max < options.retries.first)
        return invalid("retries.first must be positive and not above retries.max");
    if (options.lease < std::chrono::milliseconds{100}) return invalid("lease must be at least 100 ms");
    return Done{};
}

Consumer::Consumer(std::unique_ptr<semel::Loop> loop) : loop_(std::move(loop)) {}
Consumer::~Consumer() = default;

namespace {

/// A handler and the engine that calls it.
struct BatchEngine final : Engine {
    BatchEngine(const ConsumerOptions& options, Inbox& inbox, Handler given)
        : handler(std::move(given)), batch(options, inbox, handler) {}
    Status apply(std::vector<Item>& items) override { return batch.apply(items); }
    Result<FromShelf> apply_due(std::size_t limit) override { return batch.apply_due(limit); }
    [[nodiscard]] TimePoint began() const override { return batch.began(); }
    Handler handler;
    Batch batch;
};

}  // namespace

Result<std::unique_ptr<Consumer>> Consumer::make(ConsumerOptions options, std::unique_ptr<Source> source,
                                                 std::unique_ptr<Inbox> inbox, Handler handler) {
    std::vector<std::unique_ptr<Inbox>> inboxes;
    inboxes.push_back(std::move(inbox));
    return make(std::move(options), std::move(source), std::move(inboxes), std::move(handler));
}

Result<std::unique_ptr<Consumer>> Consumer::make(ConsumerOptions options, std::unique_ptr<Source> source,
                                                 std::vector<std::unique_ptr<Inbox>> inboxes, Handler handler) {
    if (auto fine = check(options); !fine) return fine.failure();
    if (inboxes.empty())
        return Failure{Code::invalid, fmt::format("consumer {}: it needs an inbox to work with", options.name)};
    for (const std::unique_ptr<Inbox>& inbox : inboxes) {
        if (inbox && inbox->text() == inboxes.front()->text()) continue;
        return Failure{Code::invalid, fmt::format("consumer {}: its inboxes have to be of one database", options.name)};
    }
    auto loop = std::make_unique<Loop>(std::move(options), std::move(source));
    loop->keep_keys_together();
    for (std::unique_ptr<Inbox>& inbox : inboxes) {
        Inbox& mine = *inbox;
        loop->add_lane(std::move(inbox), std::make_unique<BatchEngine>(loop->options(), mine, handler));
    }
    return std::unique_ptr<Consumer>(new Consumer(std::move(loop)));
}

Result<std::unique_ptr<Consumer>> Consumer::make(ConsumerOptions options, std::unique_ptr<Source> source,
                                                 std::unique_ptr<Inbox> inbox, StepHandler handler,
                                                 Committer& committer) {
    if (auto fine = check(options); !fine) return fine.failure();
    if (options.order != OrderGuard::off || options.mode != DeliveryMode::effectively_once)
        return Failure{
            Code::invalid,
            fmt::format("consumer {}: a handler with steps is effectively_once and has no order guard", options.name)};
    const Policy policy{.on_unknown = OnUnknown::resume, .lease = options.lease, .retention = options.retention};
    auto loop = std::make_unique<Loop>(std::move(options), std::move(source));
    auto keeper = std::make_shared<LeaseKeeper>(committer);
    Inbox& mine = *inbox;
    loop->add_lane(std::move(inbox), std::make_unique<Leased>(loop->options(), policy, mine, committer, keeper,
                                                              run_steps(loop->options(), std::move(handler))));
    loop->one_at_a_time();
    return std::unique_ptr<Consumer>(new Consumer(std::move(loop)));
}

Status Consumer::run(const std::stop_token& stop) { return loop_->run(stop); }
ConsumerCounts Consumer::counts() const { return loop_->counts(); }

}  // namespace semel
