// A listener for what the gateway serves itself: its admin pages and the Ledger API. One thread, which never waits for a
// store; connections are kept open between requests; every limit has a name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/config.hpp"
#include "http/service.hpp"

namespace semel::gateway {

struct ServiceListenerOptions {
    std::string setting{};  ///< for messages: `admin`
    Address address{};
    std::optional<ServerTls> tls{};
    std::function<void()> refused{};  ///< a connection was closed at once: there were connections_max already
};

class ServiceListener {
public:
    static constexpr std::size_t connections_max = 1024;
    static constexpr Duration request_timeout = seconds{10};  ///< from the first byte of a request to its last
    static constexpr Duration idle_timeout = seconds{75};     ///< between two requests
    static constexpr Duration write_timeout = seconds{10};
    static constexpr Duration end_timeout = seconds{2};  ///< how long requests that are being answered hold up its end

    /// Listening when it returns. The first service that serves a path answers; the services outlive it.
    static Result<std::unique_ptr<ServiceListener>> start(const ServiceListenerOptions& options,
                                                          std::vector<http::Service*> services);
    /// Answers what is being answered, then ends.
    ~ServiceListener();
    ServiceListener(const ServiceListener&) = delete;
    ServiceListener& operator=(const ServiceListener&) = delete;

    [[nodiscard]] Address address() const;

private:
    class Parts;
    explicit ServiceListener(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace semel::gateway
