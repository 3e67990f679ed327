// What the end of a delivery means for its message. Pure; the table of the design's "Relay answers":
//
//   not one byte was sent                          retry: surely not executed
//   marked Idempotent-Replayed                     final: 2xx settles, anything else is a dead letter
//   2xx                                            settle
//   a problem of Semel's that says what is known   in-progress, and whatever says retryable: retry; outcome-not-retained: by
//                                                  the status that was answered then; outcome-unknown: park
//   a status of retry_on                           retry: the endpoint declares that it was not executed
//   408, 425, 429; 409 with Retry-After            retry
//   401, 403, 404; 301, 307, 308                   pause the endpoint: the message is not what is wrong
//   other 4xx                                      dead letter; under doubt park, since an earlier delivery may have executed
//   anything else                                  unknown: repeated within the window in which the endpoint deduplicates,
//                                                  else parked for a person
//
// Every retry carries the same key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "curl/answer.hpp"
#include "semel/time.hpp"

namespace semel::relay {

/// What an endpoint promises.
struct EndpointRules {
    std::vector<int> retry_on{};                         ///< statuses by which it says: not executed, send it again
    std::optional<Duration> deduplicates{};              ///< for how long it executes a key once; empty: it does not
    Duration retry_after_max = std::chrono::minutes{5};  ///< a Retry-After beyond it counts as this
    bool operator==(const EndpointRules&) const = default;
};

/// How a delivery ended.
struct DeliveryEnd {
    enum class How : std::uint8_t {
        not_sent,  ///< no connection: not one byte of the request was written
        answered,  ///< a whole answer
        timeout,   ///< sent, perhaps in part; no whole answer in time
        broken,    ///< sent, perhaps in part; reset, closed, half an answer, or one that is no HTTP
    };
    How how = How::not_sent;
    // Of answered.
    int status = 0;
    bool replayed = false;
    std::optional<Duration> retry_after{};
    std::optional<SemelProblem> problem{};
    std::string reason{};  ///< otherwise: for people, without credentials
};

/// What is known of this message's deliveries before this one.
struct Before {
    bool doubt = false;           ///< one of them may have executed
    Duration since_first_send{};  ///< zero: this was the first
};

struct Settle {
    int status = 0;
    bool operator==(const Settle&) const = default;
};
struct Retry {
    std::optional<Duration> after{};   ///< asked for by the endpoint; empty: the usual backoff
    bool surely_not_executed = false;  ///< otherwise there is doubt from here on
    std::string why{};
    bool operator==(const Retry&) const = default;
};
/// Nothing more is sent to the endpoint until it has been looked at, or some time has passed; the message stays.
struct Pause {
    std::string why{};
    bool operator==(const Pause&) const = default;
};
struct DeadLetter {
    int status = 0;
    std::string why{};
    bool operator==(const DeadLetter&) const = default;
};
/// The outcome is unknown and must not be tried out: a person decides.
struct Park {
    std::string why{};
    bool operator==(const Park&) const = default;
};
using Verdict = std::variant<Settle, Retry, Pause, DeadLetter, Park>;

Verdict verdict(const EndpointRules& rules, const Before& before, const DeliveryEnd& end);

}  // namespace semel::relay
