#include "gateway/metrics.hpp"

#include <prometheus/text_serializer.h>

namespace semel::gateway {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

/// From a commit on a fast disk to an upstream that is about to time out.
const Buckets& seconds_buckets() {
    static const Buckets buckets{0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1,
                                 0.2,    0.5,    1,     2,     5,     10,   20,   60};
    return buckets;
}

}  // namespace

std::string_view name(Answered answered) {
    switch (answered) {
        case Answered::passed: return "passed";
        case Answered::performed: return "performed";
        case Answered::released: return "released";
        case Answered::replayed: return "replayed";
        case Answered::not_retained: return "not_retained";
        case Answered::in_progress: return "in_progress";
        case Answered::mismatch: return "mismatch";
        case Answered::unknown: return "unknown";
        case Answered::expired: return "expired";
        case Answered::refused: return "refused";
        case Answered::quota: return "quota";
        case Answered::store_failed: return "store_failed";
        case Answered::upstream_failed: return "upstream_failed";
    }
    return "?";
}

prometheus::Counter* Metrics::counter(const char* name, const char* help) {
    return &prometheus::BuildCounter().Name(name).Help(help).Register(*registry_).Add({});
}
prometheus::Gauge* Metrics::gauge(const char* name, const char* help) {
    return &prometheus::BuildGauge().Name(name).Help(help).Register(*registry_).Add({});
}
prometheus::Histogram* Metrics::histogram(const char* name, const char* help) {
    return &prometheus::BuildHistogram().Name(name).Help(help).Register(*registry_).Add({}, seconds_buckets());
}

Metrics::Metrics() {
    connections_accepted = counter("semel_connections_accepted_total", "Connections of clients that were accepted.");
    connections_refused =
        counter("semel_connections_refused_total", "Connections closed at once (limits.connections_max).");
    own_connections_refused = counter("semel_own_connections_refused_total",
                                      "Connections to the admin pages and the Ledger API closed at once: too many.");
    connections = gauge("semel_connections", "Connections of clients that are open.");
    leases = gauge("semel_leases", "Operations held now.");
    leases_renewed = counter("semel_leases_renewed_total", "Leases renewed.");
    malformed = counter("semel_requests_malformed_total", "Requests that can not be read in one way only.");
    reloads = counter("semel_reloads_total", "Configurations taken over.");
    reloads_refused = counter("semel_reloads_refused_total", "Configurations refused; the one before stays.");
    unsettled = gauge("semel_unsettled", "Outcomes that could not be settled yet and are tried again.");
    settles_given_up =
        counter("semel_settles_given_up_total", "Outcomes that could not be settled in time and stay unknown.");
    claim_seconds = histogram("semel_claim_seconds", "From sending a claim to its durable answer.");
    settle_seconds = histogram("semel_settle_seconds", "From sending an outcome to its durable answer.");
    store_batches = counter("semel_store_batches_total", "Commits.");
    store_commands =
        counter("semel_store_commands_total", "Commands answered by them; per commit: the size of a batch.");
    store_repeats = counter("semel_store_repeats_total", "Batches executed again after a lost reply.");
    swept = counter("semel_swept_total", "Records of which the sweep dropped the response or all.");
    route("");
}

const RouteMetrics& Metrics::route(const std::string& name_of_route) {
    const std::lock_guard lock(mutex_);
    auto& made = routes_[name_of_route];
    if (made) return *made;
    made = std::make_unique<RouteMetrics>();
    const std::string label = name_of_route.empty() ? "-" : name_of_route;
    auto& requests = prometheus::BuildCounter()
                         .Name("semel_requests_total")
                         .Help("Requests by route and by what became of them.")
                         .Register(*registry_);
    auto& observed = prometheus::BuildCounter()
                         .Name("semel_observed_total")
                         .Help("Mode observe: what would have been answered.")
                         .Register(*registry_);
    for (std::size_t i = 0; i < answereds; ++i) {
        const prometheus::Labels labels{{"route", label}, {"answer", std::string(name(static_cast<Answered>(i)))}};
        made->requests[i] = &requests.Add(labels);
        made->observed[i] = &observed.Add(labels);
    }
    const auto counter_of = [&](const char* metric, const char* help) {
        return &prometheus::BuildCounter().Name(metric).Help(help).Register(*registry_).Add({{"route", label}});
    };
    made->hot = counter_of("semel_hot_answers_total", "Duplicates answered from memory, without the store.");
    made->absorbed = counter_of("semel_duplicates_absorbed_total", "Duplicates that caused no effect.");
    made->unknown_outcomes =
        counter_of("semel_unknown_outcomes_total", "Operations whose outcome became unknown here.");
    made->lease_losses = counter_of("semel_lease_losses_total", "Leases that somebody else took over.");
    made->open_anyway = counter_of("semel_forwarded_without_ledger_total",
                                   "Forwarded although the store failed (on_store_failure: open).");
    made->upstream_seconds = &prometheus::BuildHistogram()
                                  .Name("semel_upstream_seconds")
                                  .Help("From sending a request upstream to the end of its answer.")
                                  .Register(*registry_)
                                  .Add({{"route", label}}, seconds_buckets());
    return *made;
}

std::string Metrics::text() const { return prometheus::TextSerializer().Serialize(registry_->Collect()); }

}  // namespace semel::gateway
