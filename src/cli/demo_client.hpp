// A client of the demo: one request on a connection of its own, as impatient as clients are.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/demo_api.hpp"

namespace semel::cli::demo {

struct PaymentRequest {
    std::string key;  ///< as it stands in the header: bare, or in quotes
    std::string body;
    Fault fault = Fault::none;
};

struct Response {
    int status = 0;
    std::vector<std::pair<std::string, std::string>> fields;  ///< those of the answer itself: none of this connection
    std::string body;
    bool replayed = false;  ///< not part of what is compared
    /// The same answer, byte for byte.
    [[nodiscard]] bool same_as(const Response& other) const {
        return status == other.status && fields == other.fields && body == other.body;
    }
    /// The last part of a problem document's type: "in-progress"; empty for any other answer.
    [[nodiscard]] std::string_view problem() const;
};

inline constexpr std::chrono::milliseconds answer_within{30'000};

/// Sends a payment to the gateway at `port`. Nothing: no whole answer came within `patience`; then it has hung up.
/// `unavailable`: nobody listens.
Result<std::optional<Response>> send_payment(std::uint16_t port, const PaymentRequest& request,
                                             std::chrono::milliseconds patience = answer_within);

}  // namespace semel::cli::demo
