// One HTTP/1.1 exchange: a request as it is sent, the answer as it is read, strictly.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.hpp"
#include "semel/result.hpp"
#include "verify/connection.hpp"

namespace semel::verify {

/// How much of an answer's body is read; a longer one is an answer that cannot be judged.
inline constexpr std::size_t answer_bytes_max = 16U << 20;

struct Header {
    std::string name;
    std::string value;
    friend bool operator==(const Header&, const Header&) = default;
};

/// Reads `Name: value`. `invalid`: no colon, a name that is no token, a control character, or a field that only the
/// client itself may write (Host, Content-Length, Connection…).
Result<Header> parse_header(std::string_view text);

struct Request {
    std::string method;
    Url url;
    std::vector<Header> headers;
    std::optional<std::string> body;  ///< nothing: a request without one
};

/// The bytes of the request, with Host, framing and `Connection: close`. `invalid`: something in it cannot be written.
Result<std::string> to_bytes(const Request& request);

struct Response {
    int status = 0;
    std::vector<Header> fields;
    std::string body;

    [[nodiscard]] bool success() const { return status >= 200 && status < 300; }
    /// The first value of that name, upper and lower case aside.
    [[nodiscard]] std::optional<std::string_view> value(std::string_view name) const;
    [[nodiscard]] std::size_t count(std::string_view name) const;
};

/// What came back.
struct Answer {
    std::optional<Response> response;
    std::string problem;   ///< why there is no response: one line
    std::string received;  ///< the head as it came, also of what was refused

    [[nodiscard]] bool success() const { return response && response->success(); }
    /// The status, or 0 without a response.
    [[nodiscard]] int status() const { return response ? response->status : 0; }
    /// `201 Created`, or the problem.
    [[nodiscard]] std::string text() const;
};

/// Reads the answer to a request that was sent on the connection. Interim answers are passed over.
Answer receive(Connection& connection, http::Method method, Deadline deadline);

/// Connects, sends and receives.
Answer exchange(const Request& request, const Tls& tls, Deadline deadline);

}  // namespace semel::verify
