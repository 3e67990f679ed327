// Intents: an effect at somebody else's API (charge a card, send an SMS) that no transaction of ours covers.
//
//     claim durably; call, carrying a key derived from the operation; settle durably
//
// What each crash leaves:
//   before the claim is durable    nothing
//   claimed, not called            a lease that runs out. Nobody can tell it from the next
//   called, not settled            unknown: resolved by asking again with the same key while the other side remembers it, by a
//                                  lookup that the user gives, or by a person (`semel ops resolve`)
//   settled                        the outcome, and every later perform() is told so
//
// An effect whose provider is declared at_most_once is never repeated without a person.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <variant>

#include "semel/ledger.hpp"

namespace semel {
class Committer;
class LeaseKeeper;
}  // namespace semel

namespace semel::effects {

// ---- the other side --------------------------------------------------------------------------------------------

/// What may be done about an outcome that nobody knows.
enum class Repeating : std::uint8_t {
    never,         ///< at most once: a person decides. A lookup may still find that it happened
    after_lookup,  ///< it has no keys of ours: called again only after the lookup has said that it did not happen
    deduplicated,  ///< it deduplicates by our key: called again with the same key, within its window
};
std::string_view name(Repeating repeating);

/// Who is called, and what is known about it.
struct Provider {
    std::string name{};
    Repeating repeating = Repeating::never;
    Duration dedup_window{0};                           ///< of `deduplicated`: how long it remembers our key
    Duration call_deadline = std::chrono::seconds{30};  ///< a call surely has no effect any more after this
    Duration lease = std::chrono::seconds{30};          ///< how fast a crash is noticed
    /// Of the outcome. The identity is kept for ever unless said otherwise: what is forgotten can happen again.
    Retention retention{.identity = std::nullopt, .response = std::chrono::hours{24 * 30}};

    static Provider deduplicating(std::string name, Duration window);
    static Provider looked_up(std::string name);
    static Provider at_most_once(std::string name);

    // Windows as the providers' documents state them; the shortest where they depend on the endpoint. Square has keys but
    // states no window, so there is no preset for it.
    static Provider stripe();         ///< 24 hours
    static Provider adyen();          ///< 7 days
    static Provider paypal_orders();  ///< 6 hours
    static Provider checkout_com();   ///< 24 hours
    static Provider truelayer();      ///< 30 days
};

// ---- one call --------------------------------------------------------------------------------------------------

/// Outcomes have one meaning of success, as in HTTP: a status of 400 and above says that it was refused for good (a declined
/// card). A failed outcome settles like any other; only an explicit business attempt tries again.
inline constexpr std::int32_t failed_from = 400;
inline bool failed(const Outcome& outcome) { return outcome.status >= failed_from; }

struct Call {
    Key key;                  ///< to be sent along: the same on every try, for ever
    std::uint32_t tries = 1;  ///< claims of this intent, this one included
    bool doubt = false;       ///< an earlier try may have been executed: only a conclusive answer settles (I11)
    std::chrono::steady_clock::time_point deadline{};  ///< return before this
    std::stop_token stop{};                            ///< asked for when the caller no longer wants it
};

/// It was executed, or refused for good. `conclusive`: under doubt this also says what the earlier try came to, as a provider
/// that deduplicates does when it replays.
struct Answered {
    Outcome outcome{};
    bool conclusive = true;
};
/// Surely not executed: not a byte was sent, or the other side says so. It may be tried again.
struct NotSent {
    std::string error{};
    std::optional<Duration> not_before{};  ///< the other side asked for it
};
/// Nobody knows: no answer in time, a connection that broke.
struct InDoubt {
    std::string error{};
    std::optional<Duration> not_before{};
};
using Reply = std::variant<Answered, NotSent, InDoubt>;

/// An answer over HTTP: 2xx was executed, also under doubt; 401, 425 and 429 were not executed and may be tried again; other
/// 4xx were refused for good, which under doubt says nothing of an earlier try. Nobody knows about 408, 3xx and 5xx: a redirect is
/// no receipt, and a 500 may come after the effect. Where a provider says more about a status, judge that yourself first.
Reply http_reply(std::int32_t status, std::string body);

/// Makes one call. What it throws counts as InDoubt.
using CallFunction = std::function<Reply(const Call&)>;

struct Happened {
    Outcome outcome{};
};
struct DidNotHappen {};
struct CannotTell {
    std::string why{};
};
using LookupAnswer = std::variant<Happened, DidNotHappen, CannotTell>;
/// Finds out at the other side what became of a call with this key. Asked only when no earlier call can still have an effect
/// (lease and call_deadline are over). What it throws counts as CannotTell.
using LookupFunction = std::function<LookupAnswer(const Key&)>;

// ---- an intent -------------------------------------------------------------------------------------------------

/// Of one perform().
struct Limits {
    std::uint32_t calls_max = 5;               ///< calls; then it says what is known
    Duration total = std::chrono::minutes{2};  ///< no new try begins after this
    Duration busy_wait = Duration{0};          ///< how long to wait for another holder; zero: Busy is answered
    Duration backoff_first = std::chrono::milliseconds{200};
    Duration backoff_max = std::chrono::seconds{10};
};

struct Intent {
    Operation parent;    ///< what it is done for
    std::string step{};  ///< which effect of it: 1 to 100 characters, as in a scope's name
    /// Grows only by an explicit decision after the attempt before has settled as failed.
    std::uint32_t business_attempt = 1;
    Fingerprint fingerprint{};  ///< of the request: another one under the same key is a Mismatch
    std::string correlation{};
    Provider provider{};
    CallFunction call{};
    LookupFunction lookup{};  ///< optional
    Limits limits{};

    /// Its own operation: scope `parent:step`, key derive(parent, step, business_attempt), which the provider is sent too.
    [[nodiscard]] Result<Operation> operation() const;
};

// What perform() can answer, besides semel::Busy and semel::Mismatch.
struct Performed {
    Outcome outcome{};
    bool replayed = false;  ///< settled before this perform()
};
struct Failed {
    Outcome outcome{};
    bool replayed = false;
};
/// It may have happened, and this perform() does not repeat it: it never may be, or its limits are reached, or it was asked to
/// stop. The same intent performed again tells what is known then.
struct OutcomeUnknown {
    std::optional<TimePoint> since{};
    std::string why{};
};
/// It surely did not happen; the same intent may be performed again.
struct NotPerformed {
    std::string error{};
};
/// Somebody took it over while this process was away; what that one settles counts, and perform() again tells it.
struct Superseded {};
using Performance = std::variant<Performed, Failed, Busy, Mismatch, OutcomeUnknown, NotPerformed, Superseded>;

struct IntentOptions {
    /// For tests: called at named points ("claimed", "called", "settled", "released", "abandoned", "resolved").
    std::function<void(std::string_view)> at{};
};

/// Performs intents, each on the thread of its caller; renews their leases on one of its own. Thread safe. The committer
/// must outlive it.
class Intents {
public:
    explicit Intents(Committer& committer, IntentOptions options = {});
    ~Intents();
    Intents(const Intents&) = delete;
    Intents& operator=(const Intents&) = delete;

    /// Blocks until something is known, a limit is reached or `stop` is asked for. Failures: `invalid` (nothing was sent: an
    /// option, or a business attempt whose predecessor has not settled as failed), `unavailable` and `exhausted` (nothing was
    /// sent), `indeterminate` (it was called, and the store could not be told: it becomes unknown).
    Result<Performance> perform(const Intent& intent, const std::stop_token& stop = {});

private:
    Committer& committer_;
    IntentOptions options_;
    std::unique_ptr<LeaseKeeper> keeper_;
};

}  // namespace semel::effects
