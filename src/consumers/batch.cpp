#include "consumers/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "base/assert.hpp"

namespace semel {
namespace {

/// Of an aggregate that nothing was applied to yet.
constexpr std::int64_t no_sequence = std::numeric_limits<std::int64_t>::min();

bool uses_ledger(const ConsumerOptions& options) { return options.mode == DeliveryMode::effectively_once; }

/// On the shelf: it still has to be handled some time.
bool waits(Fate fate) { return fate == Fate::held || fate == Fate::behind || fate == Fate::failed; }

}  // namespace

Batch::Batch(const ConsumerOptions& options, Inbox& inbox, const Handler& handler)
    : options_(options),
      inbox_(inbox),
      handler_(handler),
      shelf_(inbox, options.name),
      marks_apart_(options.marks_every) {}

void Batch::at(std::string_view point) const {
    if (options_.at) options_.at(point);
}

Status Batch::begin() {
    auto begun = begin_for_group(inbox_, options_.name);
    if (!begun) return begun.failure();
    group_ = *begun;
    now_ = group_.now;
    return Done{};
}

Status Batch::apply(std::vector<Item>& items) {
    if (auto begun = begin(); !begun) return begun;
    auto done = apply_in_transaction(items);
    if (!done) {
        inbox_.roll_back();
        return done;
    }
    at("handled");
    if (auto committed = inbox_.commit(); !committed) return committed;
    at("committed");
    return Done{};
}

Result<FromShelf> Batch::apply_due(std::size_t limit) {
    if (auto begun = begin(); !begun) return begun.failure();
    FromShelf done;
    const auto failed = [&](Failure failure) {
        inbox_.roll_back();
        return failure;
    };
    auto due = shelf_.due(now_, limit);
    if (!due) return failed(due.failure());
    done.shelved = std::move(*due);
    for (const Shelved& shelved : done.shelved) done.items.push_back(read_item(shelved, options_));
    Status applied = done.items.empty() ? Status(Done{}) : apply_in_transaction(done.items);
    if (applied) {
        auto next = shelf_.next_due();
        if (!next) return failed(next.failure());
        done.next = *next;
        applied = inbox_.commit();
    }
    if (applied) return done;
    inbox_.roll_back();
    // One that cannot be done stands in nobody's way.
    const Code code = applied.failure().code;
    if (code != Code::contended && code != Code::invalid && code != Code::corrupt) return applied.failure();
    if (done.items.size() > 1) return apply_due(1);
    if (done.items.size() == 1) {
        if (auto set_back = set_back_one(done.items[0], applied.failure()); !set_back) return set_back.failure();
    }
    return applied.failure();
}

/// A message from the shelf that failed outside of its handler.
Status Batch::set_back_one(const Item& item, const Failure& failure) {
    if (auto begun = begin(); !begun) return begun;
    shelf_.postpone(*item.shelf_number, item.tries - 1, now_ + backoff(options_.retries, item.tries),
                    error_text(failure.message));
    return inbox_.commit();
}

Status Batch::apply_in_transaction(std::vector<Item>& items) {
    if (auto named = name_operations(items, group_.generation); !named) return named;
    find_copies(items);
    if (group_.shelf_in_use && options_.retries.hold_order) {
        if (auto found = find_blocked(items); !found) return found;
    }
    if (uses_ledger(options_)) {
        if (auto claimed = claim(items); !claimed) return claimed;
    }
    at("claimed");
    if (auto ran = run(items); !ran) return ran;
    return put_away(items);
}

Status Batch::name_operations(std::vector<Item>& items, std::uint32_t generation) {
    for (Item& item : items) {
        if (!item.key) continue;
        auto scope = Scope::make(options_.tenant, options_.name, item.shelf_generation.value_or(generation));
        if (!scope) return scope.failure();
        item.operation = Operation{std::move(*scope), *item.key};
        item.id = item.operation->id();
    }
    return Done{};
}

/// Copies of one id share the fate of the first, unless they say something else.
void Batch::find_copies(std::vector<Item>& items) {
    std::map<OperationId, std::size_t> first;
    for (std::size_t i = 0; i < items.size(); ++i) {
        Item& item = items[i];
        if (item.fate != Fate::open) continue;
        const auto [place, is_first] = first.emplace(item.id, i);
        if (is_first) continue;
        if (items[place->second].fingerprint == item.fingerprint) {
            item.fate = Fate::copy;
            item.copy_of = place->second;
        } else {
            item.fate = Fate::dead;
            item.reason = DeadReason::key_reused;
            item.error = "a message with the same id and other content came before it";
        }
    }
}

Status Batch::find_blocked(std::vector<Item>& items) {
    std::set<std::string> keys;
    for (const Item& item : items)
        if (item.fate == Fate::open && !item.shelf_number && !item.message->ordering_key.empty())
            keys.insert(item.message->ordering_key);
    if (keys.empty()) return Done{};
    auto blocked = shelf_.blocked({keys.begin(), keys.end()});
    if (!blocked) return blocked.failure();
    for (Item& item : items)
        if (item.fate == Fate::open && !item.shelf_number &&
            std::ranges::find(*blocked, item.message->ordering_key) != blocked->end())
            item.fate = Fate::behind;
    return Done{};
}

Status Batch::claim(std::vector<Item>& items) {
    std::vector<InboxClaim> claims;
    std::vector<Item*> claiming;
    for (Item& item : items) {
        if (item.fate != Fate::open) continue;
        const std::string* correlation = item.event.extension("correlationid");
        claims.push_back({*item.operation, item.fingerprint, options_.retention,
                          correlation != nullptr && correlation->size() <= 255 ? error_text(*correlation) : ""});
        claiming.push_back(&item);
    }
    auto answers = inbox_.claim(claims);
    if (!answers) return answers.failure();
    for (std::size_t i = 0; i < claiming.size(); ++i) {
        Item& item = *claiming[i];
        const auto dead = [&](DeadReason reason, std::string_view error) {
            item.fate = Fate::dead;
            item.reason = reason;
            item.error = error;
        };
        std::visit(match{[&](Claimed& claimed) { item.claimed = std::move(claimed); },
                         [&](const Replay&) { item.fate = Fate::duplicate; },
                         [&](const Busy& busy) {
                             item.fate = Fate::busy;
                             item.look_again = busy.retry_after;
                         },
                         [&](const Mismatch&) {
                             dead(DeadReason::key_reused,
                                  "a message with the same id and other content came before it");
                         },
                         [&](const Unknown&) {
                             dead(DeadReason::outcome_unknown,
                                  "an earlier holder vanished in mid-effect; `semel ops show` tells more");
                         },
                         [&](const Expired&) {
                             dead(DeadReason::key_expired, "its id is older than the retention: it may have been done");
                         },
                         [&](const RetryTransaction&) {
                             item.fate = Fate::busy;
                             item.look_again = std::chrono::milliseconds{100};
                         }},
                   (*answers)[i]);
    }
    if (options_.retries.hold_order) wait_behind_busy(items);
    return Done{};
}

/// What comes later with the same ordering key does not pass one that somebody else is at.
void Batch::wait_behind_busy(std::vector<Item>& items) {
    std::map<std::string_view, Duration> busy;
    for (Item& item : items) {
        const std::string& key = item.message->ordering_key;
        if (key.empty()) continue;
        if (item.fate == Fate::busy) busy.emplace(key, item.look_again);
        if (item.fate != Fate::open || !busy.contains(key)) continue;
        item.fate = Fate::busy;
        item.look_again = busy.at(key);
    }
}

// ---- handlers --------------------------------------------------------------------------------------------------

Status Batch::run(std::vector<Item>& items) {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < items.size(); ++i)
        if (items[i].fate == Fate::open) open.push_back(i);
    // Order counts within an ordering key only. All consumers of a group take the keys in the same order, so that two of them
    // seldom wait for each other's rows in a circle.
    std::ranges::stable_sort(open, {},
                             [&](std::size_t i) -> const std::string& { return items[i].message->ordering_key; });
    bool any_undone = false;
    bool at_mark = uses_ledger(options_);  // the claims have left one
    for (std::size_t first = 0; first < open.size();) {
        // A message that has failed before is likely to fail again: nobody else is run again for it.
        const std::size_t wanted = items[open[first]].tries > 1 ? 1 : std::max<std::size_t>(1, marks_apart_);
        const std::size_t count = std::min(wanted, open.size() - first);
        if (!at_mark) {
            if (auto marked = inbox_.mark(); !marked) return marked;
        }
        const auto ran = run_chunk(items, std::span(open).subspan(first, count));
        if (!ran) return ran.failure();
        if (*ran != Chunk::done) {
            any_undone = true;
            marks_apart_ = std::min(marks_few, options_.marks_every);  // where one failed there may be more
        }
        at_mark = *ran == Chunk::undone;
        if (!at_mark) first += count;
    }
    if (!any_undone) marks_apart_ = std::min(2 * marks_apart_, options_.marks_every);
    return Done{};
}

/// What failed after it had written takes the others of its chunk with it. A small chunk is run again here, until those that
/// are left have run; a large one is to be run again in smaller ones.
Result<Batch::Chunk> Batch::run_chunk(std::vector<Item>& items, std::span<const std::size_t> chunk) {
    for (Chunk what = Chunk::done;; what = Chunk::done_again) {
        bool undone = false;
        for (const std::size_t i : chunk) {
            Item& item = items[i];
            if (item.fate != Fate::open) continue;
            const auto ran = run_one(item);
            if (!ran) return ran.failure();
            if (*ran == Ran::well) continue;
            if (*ran == Ran::failed) {
                // Back to the mark, and the others once more without this one and those that have to wait behind it.
                if (auto back = inbox_.return_to_mark(); !back) return back.failure();
                for (const std::size_t k : chunk)
                    if (items[k].fate == Fate::applied || items[k].fate == Fate::stale || items[k].fate == Fate::held)
                        items[k].fate = Fate::open;
                undone = true;
            }
            if (options_.retries.hold_order) wait_behind_failed(items);
            if (undone) break;
        }
        if (!undone) return what;
        if (chunk.size() > marks_few) return Chunk::undone;
    }
}

/// Whatever comes later in this batch with the same ordering key waits behind those that failed.
void Batch::wait_behind_failed(std::vector<Item>& items) {
    std::set<std::string_view> failed;
    for (Item& item : items) {
        const std::string& key = item.message->ordering_key;
        if (key.empty()) continue;
        if (item.fate == Fate::failed) failed.insert(key);
        if (item.fate == Fate::open && failed.contains(key)) item.fate = Fate::behind;
    }
}

Result<Batch::Ran> Batch::run_one(Item& item) {
    std::string error;
    bool no_further_try = false;
    const std::uint64_t before = inbox_.changes();
    try {
        if (options_.order != OrderGuard::off) {
            auto now = in_order(item);
            if (!now) return now.failure();
            if (!*now) return Ran::well;
        }
        Work work{item.event, *item.message, *item.operation, inbox_.transaction(), item.tries};
        handler_(work);
        if (!inbox_.alive())
            return Failure{
                Code::unavailable,
                fmt::format("{}: the connection to {} was lost while a handler ran, or the handler ended the "
                            "transaction itself",
                            options_.name, inbox_.text())};
        if (!inbox_.broken()) {
            const bool plain = work.outcome == Outcome::tombstone(message_status::handled);
            if (!plain && item.claimed) {
                if (auto settled = inbox_.settle(*item.operation, *item.claimed, work.outcome); !settled)
                    return settled.failure();
            }
            item.fate = Fate::applied;
            return Ran::well;
        }
        error = "a statement of the handler failed and the handler did not say so";
    } catch (const Reject& reject) {
        error = reject.what();
        no_further_try = true;
    } catch (...) {
        error = what_was_thrown();
    }
    if (!inbox_.alive())
        return Failure{Code::unavailable, fmt::format("{}: the connection to {} was lost while a handler ran: {}",
                                                      options_.name, inbox_.text(), error)};
    if (inbox_.broken() && inbox_.contended())
        return Failure{Code::contended, fmt::format("{}: {}: {}", options_.name, item.operation->text(), error)};
    fail(item, error, no_further_try);
    return !inbox_.broken() && inbox_.changes() == before ? Ran::failed_before_it_wrote : Ran::failed;
}

void Batch::fail(Item& item, std::string_view error, bool no_further_try) {
    item.error = error_text(error);
    if (no_further_try || item.tries >= options_.retries.tries_max) {
        item.fate = Fate::dead;
        item.reason = no_further_try ? DeadReason::rejected : DeadReason::tries_exhausted;
    } else {
        item.fate = Fate::failed;
    }
    if (options_.log)
        options_.log(fmt::format("{}: {} failed, try {} of {}: {}", options_.name, item.operation->text(), item.tries,
                                 options_.retries.tries_max, item.error));
}

// ---- the order guard -------------------------------------------------------------------------------------------

/// Under which name this generation's marks are kept: a deliberate replay goes through the whole order once more.
std::string Batch::order_book() const {
    return group_.generation == 0 ? options_.name : fmt::format("{}#{}", options_.name, group_.generation);
}

/// True: it is its turn, and the mark has been moved on. False: it is stale or held.
Result<bool> Batch::in_order(Item& item) {
    SEMEL_ASSERT(item.sequence, "with a guard every readable message has a sequence");
    const std::string book = order_book();
    // The row is made before it is locked: two transactions that meet a new aggregate wait for each other, too.
    const std::int64_t nothing =
        options_.order == OrderGuard::gapless && options_.sequence_first ? *options_.sequence_first - 1 : no_sequence;
    const SqlValue floor[] = {book, item.aggregate, nothing};
    inbox_.tell(
        "insert into semel.order_mark (consumer, aggregate, last) values ($1, $2, $3) "
        "on conflict (consumer, aggregate) do nothing",
        floor);
    const SqlValue which[] = {book, item.aggregate};
    auto rows =
        inbox_.ask("select last from semel.order_mark where consumer = $1 and aggregate = $2 for update", which);
    if (!rows) return rows.failure();
    std::optional<std::int64_t> last;
    if (!rows->empty()) last = std::get<std::int64_t>((*rows)[0][0]);
    if (last == no_sequence) last.reset();
    if (last && *item.sequence <= *last) {
        item.fate = Fate::stale;
        return false;
    }
    // Without a first sequence the first event that is met begins the aggregate: there is history before the consumer.
    if (options_.order == OrderGuard::gapless && last && *item.sequence > *last + 1) {
        item.fate = Fate::held;
        return false;
    }
    const SqlValue next[] = {book, item.aggregate, *item.sequence};
    auto moved = inbox_.ask("update semel.order_mark set last = $3 where consumer = $1 and aggregate = $2", next);
    if (!moved) return moved.failure();
    return true;
}

// ---- what is left to be written --------------------------------------------------------------------------------

Status Batch::put_away(std::vector<Item>& items) {
    // The claims of messages that wait go with them: their next try claims anew.
    std::vector<OperationId> unclaimed;
    for (const Item& item : items)
        if (item.claimed && (waits(item.fate) || item.fate == Fate::busy)) unclaimed.push_back(item.id);
    if (!unclaimed.empty()) inbox_.unclaim(unclaimed);
    for (Item& item : items)
        if (auto done = put_away_one(item); !done) return done;
    if (options_.order != OrderGuard::gapless) return Done{};
    // Whatever is held and has become the next of its aggregate goes on: it may have been put there just now.
    std::set<std::string> moved;
    for (const Item& item : items)
        if (item.fate == Fate::applied || item.fate == Fate::held) moved.insert(item.aggregate);
    for (const std::string& aggregate : moved) shelf_.let_go(aggregate, order_book(), now_);
    return Done{};
}

Status Batch::put_away_one(Item& item) {
    const auto shelve = [&](std::uint32_t tries, bool held, TimePoint ready_at) -> Status {
        if (item.shelf_number && !held) {
            shelf_.postpone(*item.shelf_number, tries, ready_at, item.error);
            return Done{};
        }
        if (item.shelf_number) shelf_.remove(*item.shelf_number);
        shelf_.put({.generation = item.shelf_generation.value_or(group_.generation),
                    .aggregate = item.aggregate,
                    .sequence = item.sequence,
                    .held = held,
                    .ready_at = ready_at,
                    .tries = tries,
                    .first_at = item.shelf_number ? item.first_at : now_,
                    .error = item.error,
                    .message = *item.message});
        return Done{};
    };
    switch (item.fate) {
        case Fate::open: SEMEL_ASSERT(false, "every message has met its fate"); break;
        case Fate::copy: break;  // acknowledged with the first: if that one waits, it waits for both
        case Fate::busy:
            if (item.shelf_number) return shelve(item.tries - 1, false, now_ + item.look_again);
            break;
        case Fate::applied:
        case Fate::duplicate:
            if (item.shelf_number) shelf_.remove(*item.shelf_number);
            break;
        case Fate::stale:
            if (item.claimed) {
                if (auto settled =
                        inbox_.settle(*item.operation, *item.claimed, Outcome::tombstone(message_status::stale));
                    !settled)
                    return settled;
            }
            if (item.shelf_number) shelf_.remove(*item.shelf_number);
            break;
        case Fate::held: return shelve(item.tries - 1, true, now_);
        case Fate::behind: return shelve(item.shelf_number ? item.tries - 1 : 0, false, now_);
        case Fate::failed: return shelve(item.tries, false, now_ + backoff(options_.retries, item.tries));
        case Fate::dead: {
            if (item.claimed) {
                if (auto settled =
                        inbox_.settle(*item.operation, *item.claimed, Outcome::tombstone(message_status::dead));
                    !settled)
                    return settled;
            }
            const DeadLetter letter{.consumer = options_.name,
                                    .generation = item.shelf_generation.value_or(group_.generation),
                                    .operation = item.operation,
                                    .reason = std::string(name(item.reason)),
                                    .error = item.error,
                                    .tries = item.tries,
                                    .at = now_,
                                    .message = *item.message};
            bury(inbox_, letter);
            if (item.shelf_number) shelf_.remove(*item.shelf_number);
            break;
        }
    }
    return Done{};
}

}  // namespace semel
