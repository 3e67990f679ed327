// Delivers events to an HTTP endpoint: one request at a time, each written to a socket at most once (curl/caller.hpp).
#pragma once

#include <string>

#include "curl/caller.hpp"
#include "relay/request.hpp"
#include "relay/verdict.hpp"
#include "semel/result.hpp"

namespace semel::relay {

struct EndpointOptions {
    RequestOptions request{};
    HttpCallOptions call{};
    bool operator==(const EndpointOptions&) const = default;
};

struct Delivered {
    DeliveryEnd end{};
    std::string content_type{};  ///< of the answer
    std::string body{};
    bool whole = true;  ///< false: the body is longer than answer_bytes_max, and cut
};

/// Used by one thread; have one per worker.
class Endpoint {
public:
    /// `invalid` names the setting that is wrong. The endpoint need not be there.
    static Result<Endpoint> open(EndpointOptions options);

    /// Sends the event and waits for the answer, at most `timeout`. Whatever becomes of it is an answer; `invalid`: this event
    /// cannot be written as a request, and nothing was sent.
    Result<Delivered> deliver(const Parcel& parcel);

private:
    Endpoint(EndpointOptions options, RequestMaker maker, HttpCaller caller);

    EndpointOptions options_;
    RequestMaker maker_;
    HttpCaller caller_;
};

}  // namespace semel::relay
