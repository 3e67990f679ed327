// Delivers events to an HTTP endpoint, by libcurl: one request at a time, over a connection that is kept open.
//
// A delivery is written to a socket at most once: libcurl's own second try on a kept connection that turned out to be dead is
// stopped, since nobody knows whether the first was executed. Redirects are not followed, proxies of the environment not used,
// certificates always checked.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "relay/request.hpp"
#include "relay/verdict.hpp"
#include "semel/result.hpp"

namespace semel::relay {

/// Files in PEM.
struct EndpointTls {
    std::string ca{};           ///< empty: the system's
    std::string certificate{};  ///< shown to the endpoint, with `key`; empty: none
    std::string key{};
    bool operator==(const EndpointTls&) const = default;
};

struct EndpointOptions {
    RequestOptions request{};
    EndpointTls tls{};
    Duration timeout = std::chrono::seconds{30};  ///< for the whole delivery, connecting included
    Duration connect_timeout = std::chrono::seconds{5};
    /// How long a kept connection may have been idle to be used again. Below that of the endpoint, which otherwise may close
    /// it while a request is on its way.
    Duration idle_max = std::chrono::seconds{2};
    std::size_t answer_bytes_max = 64 * 1024;  ///< of the answer's body; the rest is read and dropped
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
    Endpoint(Endpoint&&) noexcept;
    Endpoint& operator=(Endpoint&&) noexcept;
    ~Endpoint();

    /// Sends the event and waits for the answer, at most `timeout`. Whatever becomes of it is an answer; `invalid`: this event
    /// cannot be written as a request, and nothing was sent.
    Result<Delivered> deliver(const Parcel& parcel);

private:
    class Connection;
    Endpoint(EndpointOptions options, RequestMaker maker, std::unique_ptr<Connection> connection);

    EndpointOptions options_;
    RequestMaker maker_;
    std::unique_ptr<Connection> connection_;
};

}  // namespace semel::relay
