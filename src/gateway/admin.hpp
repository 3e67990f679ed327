// The admin listener: health, metrics and a look at operations; nothing that changes anything. A thread of its own, so that
// it may wait for the store.
//
//   GET /healthz                      200 while the process serves, also while it drains
//   GET /readyz                       200, or 503 while the store cannot be reached or the gateway drains
//   GET /metrics                      Prometheus
//   GET /operations?…                 state, tenant, scope, correlation, limit, cursor
//   GET /operations/{id}              by its id
//   GET /operation?scope=…&key=…      by its name
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gateway/config.hpp"
#include "gateway/log.hpp"
#include "semel/store.hpp"

namespace semel::gateway {

class AdminServer {
public:
    static constexpr std::size_t connections_max = 64;

    /// Listening when it returns.
    static Result<std::unique_ptr<AdminServer>> start(const Admin& admin, Store& store, Logger& log,
                                                      std::function<std::string()> metrics,
                                                      std::function<bool()> draining);
    ~AdminServer();
    AdminServer(const AdminServer&) = delete;
    AdminServer& operator=(const AdminServer&) = delete;

    [[nodiscard]] Address address() const;

private:
    class Parts;
    explicit AdminServer(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

}  // namespace semel::gateway
