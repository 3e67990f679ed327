// One configuration in force, with everything that is made from it once. Never changes: a reload makes another one, and a
// request keeps to the one it began with.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.hpp"
#include "base/random.hpp"
#include "gateway/config.hpp"
#include "gateway/kept_request.hpp"
#include "gateway/metrics.hpp"
#include "gateway/quota.hpp"
#include "gateway/route_match.hpp"
#include "gateway/signature.hpp"
#include "gateway/stored_response.hpp"
#include "gateway/tenant.hpp"

namespace semel::gateway {

/// What belongs to a route beside its settings.
struct RouteState {
    const Route* route = nullptr;
    const RouteMetrics* metrics = nullptr;
    std::size_t upstream = 0;  ///< in Site::upstreams
    bool observe = false;
    std::optional<SignatureChecker> signature{};
};

/// What outlives every configuration.
struct Shared {
    SystemClock clock;
    SystemRandom random;
    Metrics metrics;
    Quotas quotas{clock};
    Key32 tenant_key{};
};

class Site {
public:
    /// `invalid` names the setting: a key file that cannot be read, a sealing key of the wrong length.
    static Result<std::shared_ptr<const Site>> make(Config config, Shared& shared);

    [[nodiscard]] const Config& config() const { return config_; }
    [[nodiscard]] const RouteTable& table() const { return *table_; }
    [[nodiscard]] const TenantReader& tenants() const { return *tenants_; }
    [[nodiscard]] const ResponseCodec& codec() const { return *codec_; }
    [[nodiscard]] const RequestCodec& requests() const { return *requests_; }
    [[nodiscard]] const std::vector<Upstream>& upstreams() const { return upstreams_; }
    [[nodiscard]] const RouteState& state(const Route& route) const {
        return states_[static_cast<std::size_t>(&route - config_.routes.data())];
    }
    /// Of requests that no route lists.
    [[nodiscard]] const RouteState& unlisted() const { return unlisted_; }

private:
    explicit Site(Config config) : config_(std::move(config)) {}

    Config config_;
    std::optional<RouteTable> table_;
    std::optional<TenantReader> tenants_;
    std::optional<ResponseCodec> codec_;
    std::optional<RequestCodec> requests_;
    std::vector<Upstream> upstreams_;  // the file's first
    std::vector<RouteState> states_;
    RouteState unlisted_;
};

}  // namespace semel::gateway
