#include "sim_store.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "ledger/keeping.hpp"
#include "ledger/mutation.hpp"

namespace semel::sim {
namespace {

constexpr Duration lock_timeout = milliseconds{50};
constexpr Duration lock_timeout_again = seconds{4};
constexpr Duration lock_timeout_own = seconds{5};

bool is_poison(const Group& group) {
    return std::ranges::any_of(group.commands, [](const Command& command) {
        const auto* claim = std::get_if<Claim>(&command);
        return claim != nullptr && claim->correlation == "poison";
    });
}

/// A person who looked too early is not delivered late: by then it would be another look.
bool may_be_echoed(const std::vector<Group>& groups) {
    return std::ranges::none_of(
        groups, [](const Group& group) { return std::holds_alternative<Resolve>(group.commands.front()); });
}

/// What a store does that finds a record by its operation and forgets to ask for the token.
[[maybe_unused]] void as_current_holders(std::vector<Group>& groups, const std::vector<Found>& found) {
    std::size_t index = 0;
    for (Group& group : groups) {
        for (Command& command : group.commands) {
            const auto* record = std::get_if<std::optional<Record>>(&found[index++]);
            if (record == nullptr || !*record) continue;
            std::visit(match{[](Claim&) {}, [](Resolve&) {},
                             [&](auto& c) {
                                 c.holder = {(*record)->id, (*record)->token, (*record)->attempt};
                             }},
                       command);
        }
    }
}

std::string_view name_of(const Command& command) {
    constexpr std::string_view names[] = {"claim", "renew", "checkpoint", "settle", "release", "abandon", "resolve"};
    return names[command.index()];
}
std::string_view name_of(const Answer& answer) {
    constexpr std::string_view names[] = {"Claimed", "Replay",  "Busy",   "Mismatch", "Unknown", "Expired",
                                          "Ok",      "Settled", "Fenced", "TooEarly", "Late",    "Withheld"};
    return names[answer.index()];
}

}  // namespace

SimStore::SimStore(Stage& stage, World& world, Judge& judge, StoreKind kind)
    : stage_(stage), world_(world), judge_(judge), kind_(kind) {
    if (kind == StoreKind::embedded) owner_.value = 1;
}

// ---- coming in -------------------------------------------------------------------------------------------------

void SimStore::execute(ProcessId process, std::vector<Group> groups, Replied reply) {
    auto tx = std::make_shared<Transaction>();
    tx->number = next_transaction_++;
    tx->process = process;
    tx->again = std::ranges::any_of(groups, [](const Group& group) { return group.again; });
    tx->groups = std::move(groups);
    tx->reply = std::move(reply);
    transactions_[tx->number] = tx;
    if (kind_ == StoreKind::shared && may_be_echoed(tx->groups) && stage_.strikes(Fault::executed_twice)) {
        auto echo = std::make_shared<Transaction>();
        echo->number = next_transaction_++;
        echo->process = process;
        echo->groups = tx->groups;
        echo->again = tx->again;
        echo->echo = true;
        transactions_[echo->number] = echo;
        stage_.after(stage_.between(milliseconds{1}, seconds{20}), [this, echo] { arrive(echo); });
    }
    const bool slow = kind_ == StoreKind::shared && stage_.strikes(Fault::network_slow);
    stage_.after(slow ? stage_.between(milliseconds{100}, seconds{6}) : trip(), [this, tx] { arrive(tx); });
}

void SimStore::execute_own(ProcessId process, Command command, OwnWork work, Replied reply) {
    auto tx = std::make_shared<Transaction>();
    tx->number = next_transaction_++;
    tx->process = process;
    tx->groups.emplace_back();
    tx->groups.back().commands.push_back(std::move(command));
    tx->own = std::move(work);
    tx->reply = std::move(reply);
    transactions_[tx->number] = tx;
    stage_.after(trip(), [this, tx] { arrive(tx); });
}

void SimStore::arrive(const Tx& tx) {
    if (tx->over) return;
    if (stage_.now() < down_until_) {
        roll_back(tx);
        return reply(tx, Failure{Code::unavailable, "the store is down"});
    }
    for (const Group& group : tx->groups)
        for (const Command& command : group.commands) tx->wanted.push_back(id_of(command));
    std::ranges::sort(tx->wanted);
    const auto twice = std::ranges::unique(tx->wanted);
    tx->wanted.erase(twice.begin(), twice.end());
    lock(tx);
}

// ---- locks -----------------------------------------------------------------------------------------------------

void SimStore::lock(const Tx& tx) {
    while (tx->locked < tx->wanted.size()) {
        const OperationId& id = tx->wanted[tx->locked];
        const auto [at, free] = locks_.try_emplace(id, tx->number);
        if (free || at->second == tx->number) {
            ++tx->locked;
            continue;
        }
        if (!tx->waiting) stage_.count(Fault::row_locked);
        // SKIP LOCKED sees rows; an uncommitted insert has to be waited for.
        if (!tx->again && !tx->own && !tx->by_statement && rows_.contains(id)) {
            tx->skipped.insert(id);
            ++tx->locked;
            continue;
        }
        if (!tx->waiting) {
            tx->waiting = true;
            waiting_.push_back(tx);
            const Duration patience = tx->own || tx->by_statement ? lock_timeout_own
                                      : tx->again                 ? lock_timeout_again
                                                                  : lock_timeout;
            stage_.after(patience, [this, tx] { lock_timed_out(tx); });
        }
        return;
    }
    if (tx->waiting) std::erase(waiting_, tx);
    tx->waiting = false;
    if (tx->by_statement) {
        if (auto then = std::exchange(tx->locked_then, nullptr)) then(true);
        return;
    }
    decide(tx);
}

// ---- statement by statement ------------------------------------------------------------------------------------

SimStore::Tx SimStore::begin(ProcessId process) {
    if (down()) return nullptr;
    auto tx = std::make_shared<Transaction>();
    tx->number = next_transaction_++;
    tx->process = process;
    tx->by_statement = true;
    transactions_[tx->number] = tx;
    return tx;
}

bool SimStore::is_over(const Tx& tx) { return tx->over; }

void SimStore::lock(const Tx& tx, const OperationId& id, std::move_only_function<void(bool)> then) {
    if (tx->over) return then(false);
    tx->wanted.push_back(id);
    tx->locked_then = std::move(then);
    lock(tx);
}

Found SimStore::see(const Tx& tx, const OperationId& id) const {
    for (auto each = tx->decided.rbegin(); each != tx->decided.rend(); ++each)
        if (each->wrote && id_of(each->command) == id) return each->next;
    const auto at = rows_.find(id);
    if (at == rows_.end()) return std::optional<Record>{};
    auto record = from_row(at->second);
    if (!record) return record.failure();
    return std::optional<Record>(std::move(*record));
}

GroupAnswer SimStore::decide(const Tx& tx, Command command) {
    tx->now = clock();
    PlanInput input{tx->now, next_token_, owner_, std::nullopt};
    if (stage_.now() < claims_full_until_) input.refuse_claims = Failure{Code::exhausted, "no room for more claims"};
    std::vector<Found> found{see(tx, id_of(command))};
    const auto* before = std::get_if<std::optional<Record>>(&found.front());
    Decided what{command, before == nullptr ? std::optional<Record>{} : *before, Withheld{}, false, {}};
    const bool readable = before != nullptr;
    std::vector<Group> groups(1);
    groups.front().commands.push_back(std::move(command));
    Plan planned = plan(groups, std::move(found), input);
    next_token_.value += planned.tokens_used;
    GroupAnswer answer = std::move(planned.answers.front());
    if (!answer || !readable) return answer;
    what.answer = answer->front();
    for (Write& write : planned.writes) {
        what.wrote = true;
        what.next = write.next;
    }
    judge_.decided(what, tx->now, true);
    stage_.trace("store: tx {} {} {} -> {}{}", tx->number, name_of(what.command),
                 world_.subject(id_of(what.command)).text(), name_of(what.answer), what.wrote ? " *" : "");
    tx->decided.push_back(std::move(what));
    return answer;
}

void SimStore::commit(const Tx& tx, const Subject& whole, Token token, std::optional<OwnWork> work, Replied told) {
    tx->reply = std::move(told);
    if (tx->over) return reply(tx, Failure{Code::unavailable, "the transaction is over"});
    tx->whole = &whole;
    tx->whole_token = token;
    tx->own = std::move(work);
    tx->writes_effect = tx->own.has_value();
    tx->is_decided = true;
    if (stage_.now() < full_until_) {
        roll_back(tx);
        return reply(tx, Failure{Code::exhausted, "no room"});
    }
    plan_end(tx);
}

void SimStore::give_up(const Tx& tx) {
    if (!tx->over && !tx->is_decided) roll_back(tx);
}

void SimStore::lock_timed_out(const Tx& tx) {
    if (tx->over || !tx->waiting) return;
    stage_.trace("store: tx {} waited too long for a lock", tx->number);
    roll_back(tx);
    reply(tx, Failure{Code::contended, "lock timeout"});
}

void SimStore::unlock(const Tx& tx) {
    std::erase_if(locks_, [&](const auto& each) { return each.second == tx->number; });
    if (std::exchange(tx->waiting, false)) std::erase(waiting_, tx);
    if (waiting_.empty()) return;
    stage_.after(Duration{0}, [this] {
        const std::vector<Tx> waiting = waiting_;
        for (const Tx& each : waiting)
            if (!each->over && each->waiting) lock(each);
    });
}

// ---- deciding --------------------------------------------------------------------------------------------------

std::vector<Found> SimStore::read(const Transaction& tx) const {
    std::vector<Found> found;
    for (const Group& group : tx.groups) {
        for (const Command& command : group.commands) {
            const OperationId id = id_of(command);
            if (tx.skipped.contains(id)) {
                found.emplace_back(Locked{});
                continue;
            }
            const auto at = rows_.find(id);
            if (at == rows_.end()) {
                found.emplace_back(std::optional<Record>{});
                continue;
            }
            auto record = from_row(at->second);
            if (record)
                found.emplace_back(std::optional<Record>(std::move(*record)));
            else if (SEMEL_MUTATION(damaged_row_is_absent, false, true))
                found.emplace_back(std::optional<Record>{});
            else
                found.emplace_back(std::move(record).failure());
        }
    }
    return found;
}

void SimStore::decide(const Tx& tx) {
    const auto fail = [&](Code code, std::string why) {
        roll_back(tx);
        reply(tx, Failure{code, std::move(why)});
    };
    if (std::ranges::any_of(tx->groups, is_poison)) return fail(Code::invalid, "a value the column cannot hold");

    tx->now = clock();
    PlanInput input{tx->now, next_token_, owner_, std::nullopt};
    if (stage_.now() < claims_full_until_) input.refuse_claims = Failure{Code::exhausted, "no room for more claims"};
    std::vector<Found> found = read(*tx);
    const std::vector<Found> before = found;
    std::vector<Group> groups = tx->groups;
    if (SEMEL_MUTATION(stale_holder_obeyed, false, true)) as_current_holders(groups, before);
    Plan planned = plan(groups, std::move(found), input);
    const bool full =
        stage_.now() < full_until_ || SEMEL_MUTATION(full_refuses_settling, false, stage_.now() < claims_full_until_);
    if (!planned.writes.empty() && full) return fail(Code::exhausted, "no room");
    // Taken for good, whatever becomes of the transaction (I3).
    next_token_.value += SEMEL_MUTATION(tokens_given_back, planned.tokens_used, 0);

    std::size_t index = 0;
    for (std::size_t g = 0; g < tx->groups.size(); ++g) {
        const Group& group = tx->groups[g];
        for (std::size_t c = 0; c < group.commands.size(); ++c, ++index) {
            if (!planned.answers[g]) {
                if (planned.answers[g].failure().code == Code::corrupt) stage_.count(Tally::corrupt_refused);
                continue;
            }
            const auto* record = std::get_if<std::optional<Record>>(&before[index]);
            if (record == nullptr) continue;
            Decided what{group.commands[c], *record, (*planned.answers[g])[c], false, {}};
            for (Write& write : planned.writes) {
                if (write.command != index) continue;
                what.wrote = true;
                what.next = write.next;
            }
            judge_.decided(what, tx->now, group.commands.size() == 1);
            tx->decided.push_back(std::move(what));
        }
    }
    tx->answers = std::move(planned.answers);
    if (tx->own) decide_own(*tx, planned);
    tx->is_decided = true;
    for (const Decided& what : tx->decided)
        stage_.trace("store: tx {}{} {} {} -> {}{}", tx->number, tx->echo ? " (echo)" : "", name_of(what.command),
                     world_.subject(id_of(what.command)).text(), name_of(what.answer), what.wrote ? " *" : "");
    plan_end(tx);
}

/// The caller's own statements: the effect row and, after a claim, the outcome.
void SimStore::decide_own(Transaction& tx, Plan&) {
    if (tx.decided.empty()) return;  // its row is damaged
    Decided& first = tx.decided.front();
    const bool claimed = std::holds_alternative<Claimed>(first.answer);
    const bool settled = std::holds_alternative<Ok>(first.answer) && first.wrote;
    tx.writes_effect = SEMEL_MUTATION(effect_without_asking, claimed || settled, true);
    if (!claimed || !tx.own->settles) return;
    const auto& grant = std::get<Claimed>(first.answer);
    std::vector<Group> group(1);
    group.front().commands.emplace_back(
        Settle{{first.next->id, grant.token, grant.attempt}, {status_done, tx.own->effect, true}, true});
    std::vector<Found> found;
    found.emplace_back(first.next);
    Plan planned = plan(group, std::move(found), {tx.now, next_token_, owner_, std::nullopt});
    SEMEL_ASSERT(planned.answers.front().ok() && planned.writes.size() == 1, "a transaction settles what it claimed");
    Decided second{group.front().commands.front(), first.next, planned.answers.front()->front(), true,
                   planned.writes.front().next};
    judge_.decided(second, tx.now, true);
    tx.decided.push_back(std::move(second));
}

// ---- ending ----------------------------------------------------------------------------------------------------

void SimStore::plan_end(const Tx& tx) {
    const Duration soon = stage_.between(milliseconds{1}, milliseconds{20});
    [[maybe_unused]] const bool claims = std::ranges::any_of(
        tx->decided, [](const Decided& what) { return std::holds_alternative<Claim>(what.command); });
    if (SEMEL_MUTATION(claim_answered_before_commit, false, claims) ||
        SEMEL_MUTATION(outcome_answered_before_commit, false, !claims))
        reply_answers(tx);
    if (SEMEL_MUTATION(effect_commits_alone, false, true) && tx->writes_effect) {
        effect_rows_[tx->own->subject->id].push_back(tx->own->effect);
        tx->writes_effect = false;
    }
    const Failure in_doubt{Code::indeterminate, "no reply to COMMIT"};
    if (tx->echo) return end_after(tx, soon, true, std::nullopt);
    if (stage_.strikes(Fault::connection_lost))
        return end_after(tx, soon, false, Failure{Code::unavailable, "the connection was lost"});
    if (stage_.strikes(Fault::reply_lost_done)) return end_after(tx, soon, true, in_doubt);
    if (stage_.strikes(Fault::reply_lost_undone)) return end_after(tx, soon, false, in_doubt);
    if (kind_ == StoreKind::shared) {
        const bool late = stage_.strikes(Fault::commit_late);
        if (late || stage_.strikes(Fault::rollback_late)) {
            reply(tx, in_doubt);
            return end_after(tx, stage_.between(milliseconds{100}, seconds{8}), late, std::nullopt);
        }
    }
    end_after(tx, soon, true, std::nullopt);
}

/// The transaction ends so, unless something else ends it before. `instead`: what its client is told.
void SimStore::end_after(const Tx& tx, Duration delay, bool commits, std::optional<Failure> instead) {
    const std::uint64_t end = ++tx->end;
    stage_.after(delay, [this, tx, end, commits, instead = std::move(instead)] {
        if (tx->over || tx->end != end) return;
        if (commits)
            commit(tx);
        else
            roll_back(tx);
        if (instead)
            reply(tx, *instead);
        else if (commits)
            reply_answers(tx);
    });
}

void SimStore::commit(const Tx& tx) {
    tx->over = true;
    stage_.trace("store: tx {} committed", tx->number);
    if (tx->whole != nullptr) judge_.local_step(*tx->whole, tx->whole_token, find(tx->whole->id));
    if (tx->writes_effect) effect_rows_[tx->own->subject->id].push_back(tx->own->effect);
    for (const Decided& what : tx->decided) {
        if (what.wrote) {
            const OperationId id = id_of(what.command);
            if (what.next)
                rows_.insert_or_assign(id, to_row(*what.next));
            else
                rows_.erase(id);
            undamaged_.erase(id);
        }
        judge_.committed(what, tx->now, tx->echo);
    }
    for (const Decided& what : tx->decided) {
        const Subject& subject = world_.subject(id_of(what.command));
        const auto row = rows_.find(subject.id);
        std::optional<Record> record;
        if (row != rows_.end()) {
            auto stored = from_row(row->second);
            if (!stored) continue;
            record = std::move(*stored);
            if (what.wrote && what.next && &what == &tx->decided.back() && *record != *what.next)
                stage_.violated("a record comes back as it was stored", "{}", subject.text());
        }
        judge_.effect_rows(subject, effect_rows_[subject.id].size(), record);
    }
    unlock(tx);
    transactions_.erase(tx->number);
}

void SimStore::roll_back(const Tx& tx) {
    tx->over = true;
    if (tx->is_decided) stage_.trace("store: tx {} rolled back", tx->number);
    if (SEMEL_MUTATION(locks_outlive_rollback, false, true)) {
        if (std::exchange(tx->waiting, false)) std::erase(waiting_, tx);
    } else {
        unlock(tx);
    }
    transactions_.erase(tx->number);
    if (tx->locked_then)
        stage_.after(Duration{0}, [then = std::exchange(tx->locked_then, nullptr)]() mutable { then(false); });
}

void SimStore::reply(const Tx& tx, Result<Executed> result) {
    if (!tx->reply) return;
    if (tx->echo || std::exchange(tx->replied, true)) return;
    if (!result) stage_.trace("store: tx {} replies {}", tx->number, name(result.failure().code));
    stage_.after(trip(), [tx, result = std::move(result)]() mutable { tx->reply(std::move(result)); });
}

void SimStore::reply_answers(const Tx& tx) { reply(tx, Executed{tx->now, tx->answers}); }

// ---- keeping ---------------------------------------------------------------------------------------------------

std::optional<Record> SimStore::find(const OperationId& id) const {
    const auto at = rows_.find(id);
    if (at == rows_.end()) return std::nullopt;
    auto record = from_row(at->second);
    if (!record) return std::nullopt;
    return std::move(*record);
}

std::map<OperationId, std::optional<Record>> SimStore::records() const {
    std::map<OperationId, std::optional<Record>> all;
    for (const auto& [id, row] : rows_) all[id] = find(id);
    return all;
}

void SimStore::sweep() {
    if (stage_.now() < down_until_ || stage_.now() < full_until_) return;
    const TimePoint now = clock();
    if (!check_sweep_clock(last_sweep_, now, false)) return;
    last_sweep_ = now;
    constexpr std::size_t limit = 5;
    std::size_t done = 0;
    for (auto at = rows_.begin(); at != rows_.end() && done < limit;) {
        const auto here = at++;
        // Locked rows wait for the next sweep; so do damaged ones.
        if (locks_.contains(here->first)) continue;
        const auto record = from_row(here->second);
        if (!record) continue;
        const Decision decision = semel::sweep(*record, now);
        if (!decision.changed) continue;
        ++done;
        judge_.swept(*record, decision.next, now);
        stage_.trace("store: sweep {} {}", world_.subject(here->first).text(), decision.next ? "body" : "record");
        if (decision.next)
            here->second = to_row(*decision.next);
        else
            rows_.erase(here);
    }
}

// ---- faults ----------------------------------------------------------------------------------------------------

std::vector<SimStore::Tx> SimStore::living() const {
    std::vector<Tx> all;
    for (const auto& [number, tx] : transactions_)
        if (!tx->over) all.push_back(tx);
    return all;
}

void SimStore::client_died(ProcessId process) {
    for (const Tx& tx : living()) {
        if (tx->process != process || tx->echo || tx->replied) continue;
        tx->replied = true;
        tx->locked_then = nullptr;
        if (tx->by_statement && !tx->is_decided) {
            roll_back(tx);
            continue;
        }
        const bool lucky = stage_.chance(0.5);
        if (kind_ == StoreKind::embedded) {
            if (tx->is_decided && lucky)
                commit(tx);
            else
                roll_back(tx);
        } else if (tx->is_decided) {
            stage_.count(lucky ? Fault::commit_late : Fault::rollback_late);
            end_after(tx, stage_.between(milliseconds{1}, seconds{8}), lucky, std::nullopt);
        } else if (!lucky) {
            roll_back(tx);
        }
    }
}

void SimStore::owner_restarts() {
    for (auto at = rows_.begin(); at != rows_.end();) {
        const auto here = at++;
        const auto record = from_row(here->second);
        if (!record) continue;
        const Decision decision = expire_owner(*record, owner_, clock());
        if (!decision.changed) continue;
        judge_.owner_died(*record, decision.next);
        if (decision.next)
            here->second = to_row(*decision.next);
        else
            rows_.erase(here);
    }
    ++owner_.value;
}

void SimStore::outage(Duration how_long) {
    stage_.trace("store: down for {} ms", how_long / milliseconds{1});
    down_until_ = std::max(down_until_, stage_.now() + how_long);
    for (const Tx& tx : living()) {
        if (tx->wanted.empty() && !tx->by_statement) continue;  // still on its way
        if (!tx->is_decided) {
            roll_back(tx);
            reply(tx, Failure{Code::unavailable, "the store went down"});
            continue;
        }
        if (stage_.chance(0.5))
            commit(tx);
        else
            roll_back(tx);
        reply(tx, Failure{Code::indeterminate, "the store went down"});
    }
}

void SimStore::full(bool for_claims_only, Duration how_long) {
    stage_.trace("store: full{} for {} ms", for_claims_only ? " for claims" : "", how_long / milliseconds{1});
    (for_claims_only ? claims_full_until_ : full_until_) = stage_.now() + how_long;
    if (!for_claims_only) judge_.store_is_full(stage_.steady() + how_long);
}

void SimStore::clock_jumps(Duration by) {
    stage_.trace("store: clock jumps by {} ms", by / milliseconds{1});
    offset_ += by;
    world_.clock_jumped(by);
}

void SimStore::damage_a_row() {
    if (rows_.empty()) return;
    auto at = rows_.begin();
    std::advance(at, static_cast<std::ptrdiff_t>(stage_.below(rows_.size())));
    const OperationId id = at->first;
    if (locks_.contains(id) || undamaged_.contains(id)) return;
    undamaged_.emplace(id, at->second);
    std::string& bytes = at->second.record;
    const std::size_t where = stage_.below(bytes.size());
    bytes[where] = static_cast<char>(bytes[where] ^ (1 << stage_.below(8)));
    stage_.trace("store: damaged the row of {}", world_.subject(id).text());
    stage_.after(stage_.between(milliseconds{100}, seconds{10}), [this, id] {
        const auto saved = undamaged_.find(id);
        if (saved == undamaged_.end()) return;
        rows_.insert_or_assign(id, saved->second);
        undamaged_.erase(saved);
    });
}

void SimStore::heal() {
    down_until_ = full_until_ = claims_full_until_ = Duration{0};
    for (auto& [id, row] : undamaged_) rows_.insert_or_assign(id, row);
    undamaged_.clear();
}

}  // namespace semel::sim
