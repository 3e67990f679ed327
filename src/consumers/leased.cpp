#include "consumers/leased.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "async/terms.hpp"
#include "consumers/in_transaction.hpp"

namespace semel {
namespace {

/// What is busy is looked at again this soon: whoever is at it is mostly done long before its lease is over.
constexpr Duration look_again_after = std::chrono::milliseconds{200};
/// How soon a message from the shelf is tried again when nothing can be delivered.
constexpr Duration paused_for = std::chrono::seconds{1};
/// How long it is tried to settle what is done while the store is away. A late settlement counts; a lost one is unknown.
constexpr Duration settle_patience = std::chrono::minutes{1};
constexpr Duration group_look_every = std::chrono::seconds{1};

}  // namespace

// ---- messages --------------------------------------------------------------------------------------------------

Leased::Leased(const ConsumerOptions& options, Policy policy, Inbox& inbox, Committer& committer,
               std::shared_ptr<LeaseKeeper> keeper, LeasedEffect effect)
    : options_(options),
      policy_(policy),
      inbox_(inbox),
      committer_(committer),
      keeper_(std::move(keeper)),
      effect_(std::move(effect)),
      shelf_(inbox, options.name) {}

void Leased::at(std::string_view point) const {
    if (options_.at) options_.at(point);
}

Status Leased::apply(std::vector<Item>& items) {
    if (auto known = look_up_group(); !known) return known;
    for (Item& item : items)
        if (auto done = apply_one(item); !done) return done;
    return Done{};
}

Result<FromShelf> Leased::apply_due(std::size_t limit) {
    if (auto known = look_up_group(); !known) return known.failure();
    FromShelf done;
    auto taken = in_transaction(inbox_, [&](TimePoint now) -> Result<std::vector<Shelved>> {
        auto due = shelf_.due(now, limit);
        if (!due) return due.failure();
        // Nobody else takes it up while we are at it; if we die, it is due again when our lease has run out.
        for (const Shelved& shelved : *due)
            shelf_.postpone(shelved.number, shelved.tries, now + policy_.lease, shelved.error);
        return std::move(*due);
    });
    if (!taken) return taken.failure();
    done.shelved = std::move(*taken);
    for (const Shelved& shelved : done.shelved) {
        done.items.push_back(read_item(shelved, options_));
        if (done.items.back().fate == Fate::open) done.items.back().error = shelved.error;
    }
    // Those behind one that has to wait wait with it.
    std::set<std::string> waiting;
    for (Item& item : done.items) {
        const std::string& key = item.message->ordering_key;
        if (options_.retries.hold_order && waiting.contains(key)) {
            item.fate = Fate::behind;
            if (auto put = put_back(item, Duration{0}); !put) return put.failure();
            continue;
        }
        if (auto applied = apply_one(item); !applied) return applied.failure();
        if (!key.empty() && (item.fate == Fate::failed || item.fate == Fate::busy)) waiting.insert(key);
    }
    auto next = in_transaction(inbox_, [&](TimePoint) { return shelf_.next_due(); });
    if (!next) return next.failure();
    done.next = *next;
    return done;
}

/// The generation cannot change while there are members: a look now and then is enough.
Status Leased::look_up_group() {
    if (std::chrono::steady_clock::now() < look_again_at_) return Done{};
    auto known = begin_for_group(inbox_, options_.name);
    if (!known) return known.failure();
    group_ = *known;
    now_ = group_.now;
    look_again_at_ = std::chrono::steady_clock::now() + group_look_every;
    return inbox_.commit();
}

/// Whether a message with the same ordering key waits for its next try.
Result<bool> Leased::has_to_wait(const Item& item) {
    if (item.shelf_number || !options_.retries.hold_order || item.message->ordering_key.empty()) return false;
    // In a file with one owner, whoever is behind a failed message comes to the lane that failed it. Elsewhere it may have
    // been another process's until a moment ago.
    if (!group_.shelf_in_use && inbox_.transaction().sqlite != nullptr) return false;
    auto blocked = in_transaction(
        inbox_, [&](TimePoint) { return shelf_.blocked(std::vector<std::string>{item.message->ordering_key}); });
    if (!blocked) return blocked.failure();
    return !blocked->empty();
}

Status Leased::apply_one(Item& item) {
    if (item.fate == Fate::dead) return bury_item(item, item.reason, item.error);
    auto scope = Scope::make(options_.tenant, options_.name, item.shelf_generation.value_or(group_.generation));
    if (!scope) return scope.failure();
    item.operation = Operation{std::move(*scope), *item.key};
    item.id = item.operation->id();
    if (auto waits = has_to_wait(item); !waits) {
        return waits.failure();
    } else if (*waits) {
        auto put = in_transaction(inbox_, [&](TimePoint now) -> Status {
            shelf_.put({.generation = group_.generation, .ready_at = now, .first_at = now, .message = *item.message});
            return Done{};
        });
        if (put) item.fate = Fate::behind;
        return put;
    }
    const std::string* correlation = item.event.extension("correlationid");
    const auto sent = std::chrono::steady_clock::now();
    auto answer = committer_.claim(
        {.operation = *item.operation,
         .fingerprint = item.fingerprint,
         .attempt = {},
         .policy = policy_,
         .key_time = std::nullopt,
         .correlation = correlation != nullptr && correlation->size() <= 255 ? error_text(*correlation) : ""});
    if (!answer) return answer.failure();
    return std::visit(match{[&](const Claimed& claimed) {
                                item.claimed = claimed;
                                return perform(item, claimed, sent);
                            },
                            [&](const Replay&) {
                                item.fate = Fate::duplicate;
                                return forget_shelf(item);
                            },
                            [&](const Busy& busy) -> Status {
                                item.fate = Fate::busy;
                                item.look_again = std::min(busy.retry_after, look_again_after);
                                return put_back(item, busy.retry_after);
                            },
                            [&](const Mismatch&) {
                                return bury_item(item, DeadReason::key_reused,
                                                 "a message with the same id and other content came before it");
                            },
                            [&](const Unknown&) {
                                return bury_item(
                                    item, DeadReason::outcome_unknown,
                                    "nobody knows whether an earlier try was executed; `semel ops show` tells more, "
                                    "`semel ops resolve` decides");
                            },
                            [&](const Expired&) {
                                return bury_item(item, DeadReason::key_expired,
                                                 "its id is older than the retention: it may have been done");
                            }},
                      *answer);
}

Status Leased::perform(Item& item, const Claimed& claimed, std::chrono::steady_clock::time_point sent) {
    at("claimed");
    const Holder holder{item.id, claimed.token, claimed.attempt};
    const auto terms = terms_of(committer_.store(), item.id, claimed, policy_);
    // I4: no effect begins that might outlive its lease unnoticed.
    if (!terms || std::chrono::steady_clock::now() >= begin_before(sent, terms->lease)) {
        (void)committer_.release(holder);
        item.fate = Fate::busy;
        return Done{};
    }
    EffectAnswer answer = [&] {
        const KeptLease kept(*keeper_, holder, terms->lease, sent);
        return effect_(item, claimed, inbox_);
    }();
    at("handled");
    return conclude(item, claimed, std::move(answer));
}

Status Leased::conclude(Item& item, const Claimed& claimed, EffectAnswer answer) {
    const Holder holder{item.id, claimed.token, claimed.attempt};
    /// False: somebody else has taken over.
    const auto settle = [&](const Outcome& outcome) -> Result<bool> {
        auto settled = committer_.settle(holder, outcome, true, settle_patience);
        if (!settled) return settled.failure();
        at("committed");
        return !std::holds_alternative<Fenced>(*settled);
    };
    const auto leave_unknown = [&](std::string_view why) -> Status {
        auto abandoned = committer_.abandon(holder);
        if (!abandoned) return abandoned.failure();
        return bury_item(item, DeadReason::outcome_unknown, why);
    };
    const auto let_go = [&]() -> Status {
        auto released = committer_.release(holder);
        if (!released) return released.failure();
        return Done{};
    };
    return std::visit(match{[&](Succeeded& done) -> Status {
                                auto settled = settle(done.outcome);
                                if (!settled) return settled.failure();
                                if (*settled) {
                                    item.fate = Fate::applied;
                                    return forget_shelf(item);
                                }
                                // Done when whoever has it now says so.
                                item.fate = Fate::busy;
                                item.look_again = look_again_after;
                                return put_back(item, look_again_after);
                            },
                            [&](const NotDone& failed) -> Status {
                                const bool last = item.tries >= options_.retries.tries_max;
                                // I11: not done this time, and nobody knows about the time before.
                                if (last && claimed.doubt && policy_.on_unknown == OnUnknown::retry)
                                    return leave_unknown(failed.error);
                                if (last) return bury_item(item, DeadReason::tries_exhausted, failed.error, &claimed);
                                // In this order: dying in between leaves nothing, and it comes again. The other way round would leave a
                                // lease behind, and so doubt about what was not done for sure.
                                if (auto released = let_go(); !released) return released;
                                return retry_later(item, failed.error, failed.not_before);
                            },
                            [&](const InDoubt& doubt) -> Status {
                                if (!doubt.repeat || item.tries >= options_.retries.tries_max)
                                    return leave_unknown(doubt.error);
                                auto abandoned = committer_.abandon(holder);
                                if (!abandoned) return abandoned.failure();
                                // The next claim asks the ledger whether it still may be repeated.
                                return retry_later(item, doubt.error, doubt.not_before);
                            },
                            [&](const Refused& refused) -> Status {
                                return bury_item(item, DeadReason::rejected, refused.error, &claimed);
                            },
                            [&](const Pause& pause) -> Status {
                                if (auto released = let_go(); !released) return released;
                                if (auto put = put_back(item, paused_for); !put) return put;
                                return Failure{Code::unavailable, pause.error};
                            }},
                      answer);
}

Status Leased::retry_later(Item& item, std::string_view error, std::optional<Duration> not_before) {
    item.error = error_text(error);
    const Duration wait = std::max(backoff(options_.retries, item.tries), not_before.value_or(Duration{0}));
    auto shelved = in_transaction(inbox_, [&](TimePoint now) -> Status {
        if (item.shelf_number) {
            shelf_.postpone(*item.shelf_number, item.tries, now + wait, item.error);
            return Done{};
        }
        shelf_.put({.generation = group_.generation,
                    .ready_at = now + wait,
                    .tries = item.tries,
                    .first_at = now,
                    .error = item.error,
                    .message = *item.message});
        return Done{};
    });
    if (!shelved) return shelved;
    group_.shelf_in_use = true;
    item.fate = Fate::failed;
    if (options_.log)
        options_.log(fmt::format("{}: {} failed, try {} of {}: {}", options_.name, item.operation->text(), item.tries,
                                 options_.retries.tries_max, item.error));
    return Done{};
}

/// With the settlement of what is held, in one transaction: neither is there without the other.
Status Leased::bury_item(Item& item, DeadReason reason, std::string_view error, const Claimed* held) {
    item.reason = reason;
    item.error = error_text(error);
    auto buried = in_transaction(inbox_, [&](TimePoint now) -> Status {
        const DeadLetter letter{.consumer = options_.name,
                                .generation = item.shelf_generation.value_or(group_.generation),
                                .operation = item.operation,
                                .reason = std::string(name(reason)),
                                .error = item.error,
                                .tries = item.tries,
                                .at = now,
                                .message = *item.message};
        if (held != nullptr) {
            if (auto settled = inbox_.settle(*item.operation, *held, Outcome::tombstone(message_status::dead));
                !settled)
                return settled;
        }
        bury(inbox_, letter);
        if (item.shelf_number) shelf_.remove(*item.shelf_number);
        return Done{};
    });
    if (buried) item.fate = Fate::dead;
    return buried;
}

/// One from the shelf that was not tried after all.
Status Leased::put_back(const Item& item, Duration wait) {
    if (!item.shelf_number) return Done{};
    return in_transaction(inbox_, [&](TimePoint now) -> Status {
        shelf_.postpone(*item.shelf_number, item.tries - 1, now + wait, item.error);
        return Done{};
    });
}

Status Leased::forget_shelf(const Item& item) {
    if (!item.shelf_number) return Done{};
    return in_transaction(inbox_, [&](TimePoint) -> Status {
        shelf_.remove(*item.shelf_number);
        return Done{};
    });
}

}  // namespace semel
