// The HTTP request that delivers an event. Pure.
//
//   binary      CloudEvents: attributes in ce- headers, percent-encoded; the body is the data
//   structured  CloudEvents: application/cloudevents+json
//   plain       method, URL, headers and body as the configuration writes them; the data where it writes no body
//
// Every request carries `Idempotency-Key`, derived from the operation: the same on every delivery of the same message, for
// ever. Beside it the operation (Semel-…), the correlation id and, where the event has it, traceparent.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "relay/template.hpp"
#include "semel/http.hpp"
#include "semel/keys.hpp"
#include "semel/message.hpp"
#include "semel/operation.hpp"

namespace semel::relay {

enum class DeliveryMode : std::uint8_t { binary, structured, plain };
std::string_view name(DeliveryMode mode);

/// Those that carry a body and may change something.
inline constexpr auto delivery_methods = std::to_array<std::string_view>({"POST", "PUT", "PATCH", "DELETE"});

/// What a request is made of. Templates as in template.hpp.
struct RequestOptions {
    std::string url{};  ///< http:// or https://, without user
    std::string method = "POST";
    DeliveryMode mode = DeliveryMode::binary;
    std::vector<HttpField> headers{};   ///< besides those of the mode; values are templates
    std::optional<std::string> body{};  ///< of plain: a template of JSON
    std::string correlation_header = "X-Correlation-Id";
    bool operator==(const RequestOptions&) const = default;
};

/// Whether a configuration may set this header: those that frame the request, and those that are set here, it may not.
bool is_own_header(std::string_view name);

/// One delivery of one event.
struct Parcel {
    const Event& event;
    const Operation& operation;
    std::string_view correlation;
    std::uint32_t tries = 1;  ///< this one included
};

/// The key that the endpoint deduplicates by.
inline Key delivery_key(const Operation& operation) { return derive(operation, "relay"); }

class RequestMaker {
public:
    /// `invalid` names what is wrong: "to.url: …".
    static Result<RequestMaker> make(RequestOptions options);

    /// `invalid`: this event cannot be written so, whoever tries it.
    [[nodiscard]] Result<HttpRequest> request(const Parcel& parcel) const;

private:
    RequestMaker(RequestOptions options, Template url) : options_(std::move(options)), url_(std::move(url)) {}
    [[nodiscard]] Status fill_plain(const Parcel& parcel, const Template::Values& values, HttpRequest& request) const;

    RequestOptions options_;
    Template url_;
    std::vector<Template> headers_{};  ///< of options_.headers, in their order
    std::optional<Template> body_{};
};

/// As CloudEvents write a value in a header: everything percent-encoded but 0x21–0x7E, and of that `"` and `%`, too.
std::string percent_encoded_header(std::string_view text);

}  // namespace semel::relay
