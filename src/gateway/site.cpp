#include "gateway/site.hpp"

#include <algorithm>

namespace semel::gateway {

Result<std::shared_ptr<const Site>> Site::make(Config config, Shared& shared) {
    const std::shared_ptr<Site> site(new Site(std::move(config)));
    auto tenants = TenantReader::make(site->config_.tenant, shared.tenant_key, shared.clock);
    if (!tenants) return tenants.failure();
    site->tenants_.emplace(std::move(*tenants));
    auto codec = ResponseCodec::make(site->config_.seal_keys, shared.random);
    if (!codec) return codec.failure();
    site->codec_.emplace(std::move(*codec));
    auto requests = RequestCodec::make(site->config_.seal_keys, shared.random);
    if (!requests) return requests.failure();
    site->requests_.emplace(std::move(*requests));
    site->table_.emplace(site->config_.routes);
    site->upstreams_.push_back(site->config_.upstream);
    site->unlisted_.metrics = &shared.metrics.route("");
    for (const Route& route : site->config_.routes) {
        RouteState state{.route = &route, .metrics = &shared.metrics.route(route.name)};
        state.observe = route.mode == Mode::observe;
        if (route.webhook && route.webhook->signature) state.signature.emplace(*route.webhook->signature);
        if (route.upstream) {
            const auto known = std::ranges::find(site->upstreams_, *route.upstream);
            state.upstream = static_cast<std::size_t>(known - site->upstreams_.begin());
            if (known == site->upstreams_.end()) site->upstreams_.push_back(*route.upstream);
        }
        site->states_.push_back(std::move(state));
    }
    return std::shared_ptr<const Site>(site);
}

}  // namespace semel::gateway
