// A client of the demo: every request on a connection of its own, as impatient as clients are.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "cli/demo_api.hpp"
#include "verify/client.hpp"

namespace semel::cli::demo {

struct PaymentRequest {
    std::string key;  ///< as it stands in the header: bare, or in quotes
    std::string body;
    Fault fault = Fault::none;
};

inline constexpr std::chrono::milliseconds answer_within{30'000};

/// Thread safe.
class Client {
public:
    /// Of whoever listens on that port of loopback.
    explicit Client(std::uint16_t port);

    /// Nothing: no whole answer came within `patience`, and it has hung up. `unavailable`: nobody listens.
    [[nodiscard]] Result<std::optional<verify::Response>> pay(const PaymentRequest& request,
                                                              std::chrono::milliseconds patience = answer_within) const;

private:
    http::Url url_;
    verify::Tls tls_;
};

/// The same answer, byte for byte, but for the fields of the connection and what the gateway says of a replay.
bool same_answer(const verify::Response& a, const verify::Response& b);
bool is_replay(const verify::Response& response);
/// The last part of a problem document's type, "in-progress"; empty for any other answer.
std::string_view problem_of(const verify::Response& response);

}  // namespace semel::cli::demo
