#include "outbox_world.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "ledger/mutation.hpp"

namespace semel::sim {
namespace {

constexpr std::int16_t shard_count = 16;
constexpr Duration receipt_patience = seconds{10};

std::int16_t shard_of(const std::string& key, std::int64_t sequence) {
    if (key.empty()) return static_cast<std::int16_t>(sequence % shard_count);
    std::size_t sum = 0;
    for (const char c : key) sum = sum * 31 + static_cast<unsigned char>(c);
    return static_cast<std::int16_t>(sum % shard_count);
}

}  // namespace

// ---- the judge -------------------------------------------------------------------------------------------------

void OutboxJudge::committed(const OutboxRow& row) {
    const std::string& key = row.staged.ordering_key;
    committed_[row.staged.event.id] = key;
    if (!key.empty()) to_come_[key].push_back(row.staged.event.id);
    if (no_copies_) committed_late_.insert(row.staged.event.id);
    stage_.count(Tally::staged);
}

void OutboxJudge::arrived(const OutboxRow& row) {
    const std::string& id = row.staged.event.id;
    const std::string& key = row.staged.ordering_key;
    stage_.trace("broker: {} of '{}' in {}", id, key, row.staged.topic);
    if (!committed_.contains(id))
        return stage_.violated("only what is committed is published", "{} was not, or not yet", id);
    if (!arrived_.insert(id).second) {
        stage_.count(Tally::published_again);
        if (committed_late_.contains(id))
            stage_.violated("with faults off each event is published once", "{} was published again", id);
        return;
    }
    stage_.count(Tally::published);
    if (key.empty()) return;
    std::deque<std::string>& next = to_come_[key];
    if (next.front() != id)
        stage_.violated("first occurrences in the order of commits", "{} came before {}, of key {}", id, next.front(),
                        key);
    std::erase(next, id);
}

void OutboxJudge::removed(const OutboxRow& row) {
    if (!arrived_.contains(row.staged.event.id))
        stage_.violated("nothing is removed before the broker has it", "{} was", row.staged.event.id);
}

std::size_t OutboxJudge::missing_but(const std::string& key) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        committed_, [&](const auto& each) { return each.second != key && !arrived_.contains(each.first); }));
}

// ---- staging ---------------------------------------------------------------------------------------------------

void OutboxDatabase::stage_events(const std::string& key, std::size_t count) {
    ++open_;
    if (!key.empty() && !locked_.insert(key).second) {
        waiting_[key].push_back({key, count});
        return;
    }
    begin({key, count});
}

/// The key is locked: its sequences are taken in the order of commits. Those of others are not.
void OutboxDatabase::begin(const Staging& staging) {
    std::vector<OutboxRow> rows;
    for (std::size_t i = 0; i < staging.count; ++i) {
        const std::int64_t sequence = ++sequence_;
        OutboxRow row{.place = {shard_of(staging.key, sequence), sequence}, .staged_at = clock(), .staged = {}};
        row.staged.topic = fmt::format("topic{}", stage_.below(2));
        row.staged.ordering_key = staging.key;
        row.staged.event.id = fmt::format("e{}", sequence);
        rows.push_back(std::move(row));
    }
    const bool late = stage_.strikes(Fault::commit_late);
    const bool commits = stage_.calm() || !stage_.chance(0.1);
    const Duration takes =
        late ? stage_.between(milliseconds{100}, seconds{8}) : stage_.between(milliseconds{1}, milliseconds{30});
    stage_.after(takes, [this, key = staging.key, rows = std::move(rows), commits]() mutable {
        end(key, std::move(rows), commits);
    });
}

void OutboxDatabase::end(const std::string& key, std::vector<OutboxRow> rows, bool commits) {
    --open_;
    stage_.trace("staged {} of '{}', {}", rows.front().staged.event.id, key, commits ? "committed" : "rolled back");
    for (OutboxRow& row : rows) {
        if (!commits) continue;
        judge_.committed(row);
        const std::int16_t shard = row.place.shard;
        rows_.emplace(row.place, std::move(row));
        ring(shard);
    }
    if (key.empty()) return;
    std::deque<Staging>& waiting = waiting_[key];
    if (waiting.empty()) {
        locked_.erase(key);
        return;
    }
    const Staging next = waiting.front();
    waiting.pop_front();
    begin(next);
}

void OutboxDatabase::ring(std::int16_t shard) {
    const auto lease = leases_.find(shard);
    if (lease != leases_.end() && !lease->second.bell) return;
    for (auto& [relay, bell] : bells_) bell();
}

std::optional<std::string> OutboxDatabase::first_of(const std::string& key) const {
    for (const auto& [place, row] : rows_)
        if (row.staged.ordering_key == key && !judge_.has_arrived(row.staged.event.id)) return row.staged.event.id;
    return std::nullopt;
}

// ---- relaying --------------------------------------------------------------------------------------------------

OutboxTable::Held OutboxDatabase::hold(const std::string& relay, Duration lease) {
    const TimePoint now = clock();
    relays_[relay] = now + lease;
    for (std::int16_t shard = 0; shard < shard_count; ++shard) leases_.try_emplace(shard);
    OutboxTable::Held held;
    held.relays =
        static_cast<std::size_t>(std::ranges::count_if(relays_, [&](const auto& each) { return each.second > now; }));
    held.share = (shard_count - 1 + held.relays) / held.relays;
    std::size_t mine = 0;
    for (auto& [shard, each] : leases_) {
        if (each.relay != relay) continue;
        if (mine < held.share) {
            ++mine;
            each.until = now + lease;
        } else {
            each = {};
        }
    }
    for (auto& [shard, each] : leases_) {
        const bool over = SEMEL_MUTATION(dead_relay_keeps_its_shards, each.until < now, false);
        if (mine >= held.share || (!each.relay.empty() && !over) || each.relay == relay) continue;
        each = {relay, now + lease, true};
        ++mine;
    }
    for (const auto& [shard, each] : leases_)
        if (each.relay == relay) held.shards.push_back(shard);
    return held;
}

void OutboxDatabase::leave(const std::string& relay) {
    relays_.erase(relay);
    for (auto& [shard, each] : leases_)
        if (each.relay == relay) each = {};
    for (auto& [other, bell] : bells_) bell();
}

void OutboxDatabase::set_bell(const std::string& relay, bool wanted) {
    for (auto& [shard, each] : leases_)
        if (each.relay == relay) each.bell = wanted;
}

bool OutboxDatabase::stopped(const OutboxRow& row) const {
    const TimePoint now = clock();
    return std::ranges::any_of(stuck_, [&](const auto& each) {
        const auto& [place, stuck] = each;
        if (stuck.retry_at <= now) return false;
        if (SEMEL_MUTATION(stuck_event_stops_its_shard, false, place.shard == row.place.shard)) return true;
        const bool same_key = !row.staged.ordering_key.empty() && row.staged.ordering_key == stuck.key;
        return place == row.place || SEMEL_MUTATION(stuck_event_is_passed, same_key, false);
    });
}

std::vector<OutboxRow> OutboxDatabase::turn(const Turn& turn) {
    for (const OutboxPlace& place : turn.done) {
        const auto at = rows_.find(place);
        if (at == rows_.end()) continue;
        judge_.removed(at->second);
        rows_.erase(at);
        stuck_.erase(place);
    }
    for (const OutboxRefusal& each : turn.refused) {
        if (!rows_.contains(each.place)) continue;
        stage_.count(Tally::stuck);
        stuck_[each.place] = {each.ordering_key, clock() + each.again_after};
    }
    std::vector<OutboxRow> read;
    for (const OutboxReading& each : turn.read) {
        const std::int16_t shard = each.shard;
        std::size_t left = each.limit;
        for (auto at = rows_.lower_bound({shard, 0}); at != rows_.end() && at->first.shard == shard && left > 0; ++at) {
            if (stopped(at->second)) continue;
            // What a poller does that remembers where it was.
            if (SEMEL_MUTATION(late_commits_are_passed, false, at->first.sequence < read_up_to_[shard])) continue;
            read_up_to_[shard] = at->first.sequence;
            read.push_back(at->second);
            --left;
        }
    }
    return read;
}

OutboxTable::Health OutboxDatabase::health() const {
    OutboxTable::Health health{.now = clock()};
    for (const auto& [place, row] : rows_)
        health.oldest = health.oldest ? std::min(*health.oldest, row.staged_at) : row.staged_at;
    health.stuck = stuck_.size();
    return health;
}

// ---- a relay's connection to the database ----------------------------------------------------------------------

SimTable::SimTable(Stage& stage, OutboxDatabase& database, Fibers& fibers, std::string relay, bool hears)
    : stage_(stage), database_(database), fibers_(fibers), relay_(std::move(relay)), hears_(hears) {
    if (!hears_) return;
    database_.listen(relay_, [this] {
        rang_ = true;
        if (!bell_) return;
        fibers_.post(Duration{0}, [bell = *bell_] { bell.give(true); });
    });
}

/// `work` keeps what it needs: it may be done when its client is gone.
template <class Work>
auto SimTable::ask(Work work) -> Result<decltype(work())> {
    SEMEL_ASSERT(!asking_, "a connection does one thing at a time");
    asking_ = true;
    struct Asked {
        bool& asking;
        ~Asked() { asking = false; }
    } asked{asking_};
    const Failure lost{Code::indeterminate, "no reply to COMMIT"};
    const auto trip = [&] { return stage_.between(milliseconds{1}, milliseconds{10}); };
    fibers_.sleep(stage_.strikes(Fault::network_slow) ? stage_.between(milliseconds{100}, seconds{6}) : trip());
    if (database_.down()) return Failure{Code::unavailable, "the database is down"};
    if (stage_.strikes(Fault::connection_lost)) return Failure{Code::unavailable, "the connection was lost"};
    if (stage_.strikes(Fault::reply_lost_undone)) return lost;
    if (stage_.strikes(Fault::commit_late)) {
        stage_.after(stage_.between(milliseconds{100}, seconds{8}), [work]() mutable { work(); });
        return lost;
    }
    auto answer = work();
    const bool told = !stage_.strikes(Fault::reply_lost_done);
    fibers_.sleep(trip());
    if (!told) return lost;
    return answer;
}

Result<OutboxTable::Held> SimTable::hold(Duration lease) {
    return ask([&database = database_, relay = relay_, lease] { return database.hold(relay, lease); });
}

void SimTable::leave() {
    static_cast<void>(ask([&database = database_, relay = relay_] {
        database.leave(relay);
        return Done{};
    }));
}

/// On a fiber of its own: the relay goes on meanwhile.
void SimTable::begin_turn(const OutboxTable::Turn& turn) {
    Fiber::check();
    OutboxDatabase::Turn mine{.done = {turn.done.begin(), turn.done.end()},
                              .refused = {turn.refused.begin(), turn.refused.end()},
                              .read = {turn.read.begin(), turn.read.end()}};
    turn_.emplace();
    if (mine.done.empty() && mine.refused.empty() && mine.read.empty()) return turn_->give(std::vector<OutboxRow>{});
    fibers_.start([this, mine = std::move(mine), reply = *turn_] {
        auto answer = ask([&database = database_, mine] { return database.turn(mine); });
        fibers_.post(Duration{0}, [reply, answer = std::move(answer)] { reply.give(answer); });
    });
}

std::optional<Result<std::vector<OutboxRow>>> SimTable::turned(Duration wait) {
    Fiber::check();
    if (!turn_->given() && wait.count() == 0) return std::nullopt;
    auto answer = turn_->wait(fibers_, wait);
    if (answer) turn_.reset();
    return answer;
}

Status SimTable::ring(bool wanted) {
    return ask([&database = database_, relay = relay_, wanted] {
        database.set_bell(relay, wanted);
        return Done{};
    });
}

bool SimTable::wait(Duration time) {
    if (!rang_) {
        bell_.emplace();
        bell_->wait(fibers_, time);
        bell_.reset();
    }
    return std::exchange(rang_, false);
}

Result<OutboxTable::Health> SimTable::health() {
    return ask([&database = database_] { return database.health(); });
}

// ---- the broker ------------------------------------------------------------------------------------------------

SimBroker::SimBroker(Stage& stage, OutboxJudge& judge)
    : stage_(stage), judge_(judge), keeps_order_(stage.below(3) == 0), deduplicates_(stage.below(2) == 0) {}

bool SimBroker::refuses(const std::string& id) {
    if (looked_at_.insert(id).second && stage_.strikes(Fault::event_refused))
        refuse(id, stage_.now() + stage_.between(seconds{1}, seconds{20}));
    const auto at = refused_.find(id);
    return at != refused_.end() && stage_.now() < at->second;
}

bool SimBroker::take(const OutboxRow& row) {
    const bool known = !has_.insert(row.staged.event.id).second && deduplicates_;
    // One that deduplicates drops a copy; nobody sees it.
    if (!known) judge_.arrived(row);
    return known;
}

SimPublisher::SimPublisher(Stage& stage, SimBroker& broker, Fibers& fibers)
    : stage_(stage), broker_(broker), fibers_(fibers) {
    constexpr std::size_t most[] = {1, 3, 1000};
    most_ = most[stage_.below(3)];
}

Result<outbox::Handed> SimPublisher::publish(const OutboxRow& row) {
    Fiber::check();
    if (broker_.down()) return Failure{Code::unavailable, "the broker is down"};
    if (link_ && link_->broken) return Failure{Code::unavailable, "the connection to the broker was lost"};
    if (!link_) {
        fibers_.sleep(stage_.between(milliseconds{1}, milliseconds{50}));
        link_ = std::make_shared<Link>();
        link_->fibers = &fibers_;
    }
    if (keeps_order() && broker_.refuses(row.staged.event.id)) return outbox::Handed{"it is too large"};
    const std::string& key = row.staged.ordering_key;
    if (!keeps_order() && !key.empty())
        for (const auto& [place, waiting] : link_->waiting)
            if (waiting.key == key)
                stage_.violated("one event of a key is on its way at a time", "{} follows one without a receipt",
                                row.staged.event.id);
    link_->waiting[row.place] = {stage_.now(), key};
    const bool slow = stage_.chance(0.05) && !stage_.calm();
    Duration takes =
        slow ? stage_.between(milliseconds{100}, seconds{5}) : stage_.between(milliseconds{1}, milliseconds{30});
    if (keeps_order()) {
        // In the order of a topic.
        Duration& last = link_->last_arrival[row.staged.topic];
        last = std::max(last, stage_.now() + takes);
        takes = last - stage_.now();
    }
    stage_.after(takes, [&stage = stage_, &broker = broker_, link = link_, row] { arrive(stage, broker, link, row); });
    if (stage_.strikes(Fault::broker_lost)) cut();
    return outbox::Handed{};
}

void SimPublisher::arrive(Stage& stage, SimBroker& broker, const Connection& link, const OutboxRow& row) {
    bool lost = broker.down();
    if (lost) link->broken = true;
    if (!link->open) lost = lost || stage.chance(0.5);
    if (broker.keeps_order()) {
        bool& cut_off = link->cut_off[row.staged.topic];
        lost = cut_off = cut_off || lost;
    }
    if (lost) return;
    if (!broker.keeps_order() && broker.refuses(row.staged.event.id))
        return tell(stage, link, {row.place, outbox::Receipt::What::refused, "it is too large"});
    const bool known = broker.take(row);
    tell(stage, link, {row.place, known ? outbox::Receipt::What::duplicate : outbox::Receipt::What::confirmed, ""});
}

void SimPublisher::tell(Stage& stage, const Connection& link, outbox::Receipt receipt) {
    if (stage.strikes(Fault::receipt_lost)) return;
    stage.after(stage.between(milliseconds{1}, milliseconds{20}), [link, receipt = std::move(receipt)] {
        if (!link->open) return;
        link->waiting.erase(receipt.place);
        link->receipts.push_back(receipt);
        if (link->came) link->fibers->post(Duration{0}, [came = *link->came] { came.give(true); });
    });
}

void SimPublisher::cut() {
    if (!link_) return;
    link_->open = false;
    link_->broken = true;
}

Result<std::vector<outbox::Receipt>> SimPublisher::receipts(Duration wait) {
    Fiber::check();
    if (!link_) return std::vector<outbox::Receipt>{};
    const auto late = [&] {
        return std::ranges::any_of(
            link_->waiting, [&](const auto& each) { return stage_.now() - each.second.since > receipt_patience; });
    };
    if (link_->receipts.empty() && !link_->broken && !late()) {
        link_->came.emplace();
        const auto came = *link_->came;
        came.wait(fibers_, wait);
        link_->came.reset();
    }
    if (link_->broken) return Failure{Code::unavailable, "the connection to the broker was lost"};
    if (late()) return Failure{Code::unavailable, "no receipt from the broker in time"};
    return std::exchange(link_->receipts, {});
}

void SimPublisher::start_over() {
    cut();
    link_.reset();
}

}  // namespace semel::sim
