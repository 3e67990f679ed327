// What the demo will do: payments, and what happens to each on its way. The same seed gives the same plan.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "semel/operation.hpp"

namespace semel::cli::demo {

/// Why a payment arrives more than once.
enum class Trouble : std::uint8_t {
    none,
    client_timeout,  ///< the client hangs up before the answer, and tries again
    double_click,    ///< several times at once
    proxy_retry,     ///< the same again on another connection
    late_retry,      ///< the same again when everything else is over
    other_spelling,  ///< the same again, its key in quotes
    key_reuse,       ///< the key again with another amount
    server_error,    ///< the API charges and answers 500
    server_busy,     ///< the API answers 503 and has charged nothing
    answer_lost,     ///< the API charges and hangs up
    server_crash,    ///< the API charges and dies, and all others that it serves with it
};
inline constexpr std::array all_troubles{
    Trouble::client_timeout, Trouble::double_click, Trouble::proxy_retry, Trouble::late_retry,  Trouble::other_spelling,
    Trouble::key_reuse,      Trouble::server_error, Trouble::server_busy, Trouble::answer_lost, Trouble::server_crash};
std::string_view name(Trouble trouble);
/// What its clients are told.
std::string_view told(Trouble trouble);

struct Step {
    Key key;
    std::int64_t cents = 0;
    Trouble trouble = Trouble::none;

    /// The request's body.
    [[nodiscard]] std::string json() const;
};

struct Plan {
    std::vector<Step> steps;
};

inline constexpr std::uint64_t payments_max = 100'000;

/// Every trouble is there at least once if there are as many payments as troubles, which are dealt from the first on.
Plan make_plan(std::uint64_t payments, std::uint64_t seed);

}  // namespace semel::cli::demo
