// The hands of a scenario: sends tries of an intent, hangs up on purpose, counts effects, and keeps every exchange.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "verify/counter.hpp"
#include "verify/subject.hpp"
#include "verify/verdict.hpp"

namespace semel::verify {

/// One exchange as it may be shown: credentials are `<redacted>`.
struct Exchange {
    std::string label;     ///< "first try"
    std::string request;   ///< the bytes sent
    std::string response;  ///< the bytes received, chunks joined; empty: none
    std::string problem;   ///< why there is no response; empty: there is one
    std::chrono::milliseconds took{};
};

/// One try of an intent, where it differs from the usual.
struct Try {
    std::string label;
    std::optional<KeySpelling> spelling = {};
    std::optional<std::string> body = {};  ///< instead of the subject's; filled in already
    std::vector<Header> headers = {};      ///< instead of the subject's of the same names
};

/// Whether a 409 without Retry-After is a "not yet" or the answer.
enum class Conflict : std::uint8_t { not_yet, answer };

class Probe {
public:
    /// `counter` may be null: effects are not counted. All have to outlive the probe.
    Probe(const Subject& subject, const Patience& patience, const Tls& tls, Counter* counter)
        : subject_(subject), patience_(patience), tls_(tls), counter_(counter) {}

    [[nodiscard]] const Subject& subject() const { return subject_; }
    [[nodiscard]] const Patience& patience() const { return patience_; }
    [[nodiscard]] bool counts() const { return counter_ != nullptr; }
    [[nodiscard]] bool counts_per_intent() const { return counter_ != nullptr && counter_->per_intent(); }

    /// Connects and sends nothing. A failure: nobody is there.
    Status reach();

    Intent new_intent() { return make_intent(++intents_, subject_.key_format); }
    /// The subject's body for that intent.
    [[nodiscard]] std::optional<std::string> body_of(const Intent& intent) const;
    /// Another body for it: the subject's, or made from the usual one. Nothing: there is none.
    [[nodiscard]] std::optional<std::string> other_body_of(const Intent& intent) const;

    /// Sends once. Thread safe, as long as nobody takes the exchanges.
    Answer send(const Intent& intent, const Try& one);

    /// Sends until the answer is final: not "in progress", "too many requests" or a broken connection. After
    /// patience().retry_within the last answer is returned as it is.
    Answer settle(const Intent& intent, const Try& each, Conflict conflict = Conflict::not_yet);

    /// Sends the same try on `count` connections at the same moment; the answers in no order.
    std::vector<Answer> send_at_once(const Intent& intent, std::size_t count, const std::string& label);

    /// Sends all of a request, and after `pause` closes the connection without having read.
    Status hang_up(const Intent& intent, const Try& one, Duration pause);

    /// How many effects there are now. Without a counter: nothing.
    Result<std::optional<std::int64_t>> count(const Intent& intent);
    /// After a scenario: counts what it left uncounted, so that the next one begins from there.
    void rest();
    /// The last number that was counted.
    [[nodiscard]] std::optional<std::int64_t> last_count() const { return last_count_; }

    std::vector<Exchange> take_exchanges();

private:
    Result<Request> request_of(const Intent& intent, const Try& one) const;
    void keep(const Try& one, const Request& request, const Answer& answer,
              std::chrono::steady_clock::time_point began);
    [[nodiscard]] Deadline deadline() const { return std::chrono::steady_clock::now() + patience_.timeout; }

    const Subject& subject_;
    const Patience& patience_;
    const Tls& tls_;
    Counter* counter_;
    std::uint64_t intents_ = 0;
    std::optional<std::int64_t> last_count_;
    std::atomic<bool> uncounted_ = false;  // whether something was sent since
    std::mutex mutex_;
    std::vector<Exchange> exchanges_;  // guarded by mutex_
};

/// Whether it answers the request, rather than asking to try again later.
bool is_final(const Answer& answer, Conflict conflict);

/// A head with the values of the named headers, of common credential headers and of cookies replaced.
std::string redacted(std::string_view head, const std::vector<std::string>& secret_headers);

/// How many effects an intent had since this was made.
class Effects {
public:
    /// Counts those that there are already.
    Effects(Probe& probe, const Intent& intent);

    /// Waits until there are `expected` more and no further ones come, within patience(). Nothing: so it is, or effects
    /// are not counted. `answer` is what the client was told, for the reason.
    std::optional<Failed> should_be(std::int64_t expected, const Answer& answer);

    /// Waits until the count stands still; at most `most`.
    std::optional<Failed> should_be_at_most(std::int64_t most, const Answer& answer);

    /// The number that was counted last; nothing if effects are not counted.
    [[nodiscard]] std::optional<std::int64_t> seen() const { return seen_; }
    /// ", 1 effect", or nothing if effects are not counted.
    [[nodiscard]] std::string note() const;

private:
    std::optional<Failed> count();
    /// Counts until `enough` of what it saw, then until it stands still.
    std::optional<Failed> wait(const std::function<bool(std::int64_t)>& enough);

    Probe& probe_;
    const Intent intent_;
    std::int64_t before_ = 0;
    std::optional<std::int64_t> seen_;
    std::optional<Failed> broken_;
};

/// "1 effect", "2 effects".
std::string effects_text(std::int64_t count);

}  // namespace semel::verify
