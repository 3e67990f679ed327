// What the gateway counts, in Prometheus' terms. Labels are bounded: routes come from the configuration, everything else
// from enums. Thread safe.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace semel::gateway {

/// What became of a request on a route.
enum class Answered : std::uint8_t {
    passed,          ///< no ledger: passed through
    performed,       ///< claimed and settled
    released,        ///< claimed, surely not executed, released
    replayed,        ///< the stored response
    not_retained,    ///< done before, response not kept
    in_progress,     ///< 409
    mismatch,        ///< 422
    unknown,         ///< the outcome is not known, now or since an earlier request
    expired,         ///< 410
    refused,         ///< 4xx by the gateway: key, tenant, signature, size
    quota,           ///< 429
    store_failed,    ///< 503, or forwarded without the ledger where the route is open
    upstream_failed  ///< 502/504 on a request that was passed through, or never sent
};
inline constexpr std::size_t answereds = static_cast<std::size_t>(Answered::upstream_failed) + 1;
std::string_view name(Answered answered);

/// The counters of one route, found once and then only incremented.
struct RouteMetrics {
    std::array<prometheus::Counter*, answereds> requests{};
    std::array<prometheus::Counter*, answereds> observed{};  ///< mode observe: what would have been answered
    prometheus::Counter* hot = nullptr;                      ///< of the answers, those that asked no store
    prometheus::Counter* absorbed = nullptr;                 ///< duplicates that caused no effect
    prometheus::Counter* unknown_outcomes = nullptr;         ///< operations left unknown by this process
    prometheus::Counter* lease_losses = nullptr;
    prometheus::Counter* open_anyway = nullptr;  ///< forwarded without the ledger because the route says so
    prometheus::Histogram* upstream_seconds = nullptr;

    void count(Answered answered) const { requests[static_cast<std::size_t>(answered)]->Increment(); }
    void observe(Answered answered) const { observed[static_cast<std::size_t>(answered)]->Increment(); }
};

class Metrics {
public:
    Metrics();

    /// The same object for the same name, for as long as this lives. "" is what no route lists.
    const RouteMetrics& route(const std::string& name);

    prometheus::Counter* connections_accepted = nullptr;
    prometheus::Counter* connections_refused = nullptr;
    prometheus::Counter* own_connections_refused = nullptr;  ///< of the admin pages and the Ledger API
    prometheus::Gauge* connections = nullptr;
    prometheus::Gauge* leases = nullptr;  ///< held now
    prometheus::Counter* leases_renewed = nullptr;
    prometheus::Counter* malformed = nullptr;  ///< requests refused by the reader
    prometheus::Counter* reloads = nullptr;
    prometheus::Counter* reloads_refused = nullptr;
    prometheus::Gauge* unsettled = nullptr;  ///< outcomes being settled in the background
    prometheus::Counter* settles_given_up = nullptr;
    prometheus::Histogram* claim_seconds = nullptr;
    prometheus::Histogram* settle_seconds = nullptr;
    prometheus::Counter* store_batches = nullptr;
    prometheus::Counter* store_commands = nullptr;  ///< divided by batches: the size of a batch
    prometheus::Counter* store_repeats = nullptr;
    prometheus::Counter* swept = nullptr;

    /// The text of Prometheus' exposition format.
    [[nodiscard]] std::string text() const;

private:
    prometheus::Counter* counter(const char* name, const char* help);
    prometheus::Gauge* gauge(const char* name, const char* help);
    prometheus::Histogram* histogram(const char* name, const char* help);

    std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
    std::mutex mutex_;
    std::map<std::string, std::unique_ptr<RouteMetrics>> routes_;  // guarded by mutex_
};

}  // namespace semel::gateway
