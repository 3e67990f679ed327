// What the demo will do: payments, and where each of them is made to arrive twice. The same seed gives the same plan.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "semel/operation.hpp"

namespace semel::cli::demo {

/// The five places where duplicates arise.
enum class Duplicate {
    client_retry,          ///< the client did not hear the answer and sends the request again
    lost_acknowledgement,  ///< the consumer committed, the broker did not hear of it
    broker_replay,         ///< the broker goes back to an earlier place in its log
    consumer_crash,        ///< killed between the effect and its commit
    database_reply_lost,   ///< committed, but whoever asked did not hear of it and asks again
};
inline constexpr std::array all_duplicates{Duplicate::client_retry, Duplicate::lost_acknowledgement,
                                           Duplicate::broker_replay, Duplicate::consumer_crash,
                                           Duplicate::database_reply_lost};
std::string_view name(Duplicate duplicate);
/// What makes it harmless.
std::string_view absorbed_by(Duplicate duplicate);

struct Payment {
    Key key;
    std::string account;
    std::int64_t cents = 0;
    std::string correlation;

    /// The request's body and the message's data.
    [[nodiscard]] std::string json() const;
};

struct Step {
    Payment payment;
    bool client_retries = false;
    bool retry_overtakes = false;   ///< the retry is sent while the first request is still under way
    bool claim_reply_lost = false;  ///< of the ledger's commits
    bool settle_reply_lost = false;
    bool consumer_crashes = false;
    bool consumer_reply_lost = false;
    bool acknowledgement_lost = false;
    std::size_t broker_goes_back = 0;  ///< afterwards the broker delivers this many messages again
};

struct Plan {
    std::vector<std::string> accounts;
    std::vector<Step> steps;
};

inline constexpr std::uint64_t payments_max = 100'000;

Plan make_plan(std::uint64_t payments, std::uint64_t seed);

}  // namespace semel::cli::demo
