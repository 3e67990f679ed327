// The admin pages: health, metrics and a look at operations; nothing that changes anything. They wait for the store on
// threads of their own.
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
#include "http/service.hpp"
#include "semel/store.hpp"

namespace semel::gateway {

class AdminPages final : public http::Service {
public:
    static constexpr std::size_t threads = 2;

    AdminPages(const Admin& admin, Store& store, Logger& log, std::function<std::string()> metrics,
               std::function<bool()> draining);
    ~AdminPages() override;
    AdminPages(const AdminPages&) = delete;
    AdminPages& operator=(const AdminPages&) = delete;

    [[nodiscard]] bool serves(std::string_view /*path*/) const override { return true; }
    [[nodiscard]] std::variant<std::size_t, http::Reply> admit(const http::RequestHead& head) const override;
    std::unique_ptr<http::Pending> answer(const http::RequestHead& head, std::string body,
                                          std::move_only_function<void(http::MakeReply)> done) override;
    [[nodiscard]] std::chrono::milliseconds within() const override { return seconds{10}; }

private:
    class Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace semel::gateway
