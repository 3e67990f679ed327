#include "relay/relay_metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <initializer_list>
#include <utility>

namespace semel::relay {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
public:
    void begin(const char* name, const char* help, MetricType type) {
        all_.push_back({});
        all_.back().name = name;
        all_.back().help = help;
        all_.back().type = type;
    }
    void add(Labels labels, double value) {
        ClientMetric metric;
        metric.label = std::move(labels);
        metric.counter.value = metric.gauge.value = value;
        all_.back().metric.push_back(std::move(metric));
    }
    [[nodiscard]] std::string text() const { return prometheus::TextSerializer().Serialize(all_); }

private:
    std::vector<MetricFamily> all_;
};

using ByName = std::initializer_list<std::pair<const char*, std::uint64_t>>;

void add_each(Families& families, const std::string& relay, const char* label, ByName values) {
    for (const auto& [name, value] : values)
        families.add({{"relay", relay}, {label, name}}, static_cast<double>(value));
}

}  // namespace

std::string metrics_text(const std::vector<RelayState>& states, std::uint64_t swept) {
    Families families;
    families.begin("semel_relay_received_total", "Messages that the broker delivered.", MetricType::Counter);
    for (const RelayState& state : states)
        families.add({{"relay", state.name}}, static_cast<double>(state.counts.received));
    families.begin("semel_relay_messages_total",
                   "Messages by what became of them: delivered, duplicate (absorbed: done before), retried (a try that "
                   "failed; it comes again), behind (waits behind one that failed), dead, lost (by the broker).",
                   MetricType::Counter);
    for (const RelayState& state : states)
        add_each(families, state.name, "result",
                 {{"delivered", state.counts.applied},
                  {"duplicate", state.counts.duplicates},
                  {"retried", state.counts.failed},
                  {"behind", state.counts.behind},
                  {"dead", state.counts.dead},
                  {"lost", state.counts.lost}});
    families.begin("semel_relay_deliveries_total", "Requests to the endpoint by what their answers mean.",
                   MetricType::Counter);
    for (const RelayState& state : states)
        add_each(families, state.name, "verdict",
                 {{"settled", state.deliveries.settled},
                  {"again", state.deliveries.again},
                  {"paused", state.deliveries.paused},
                  {"refused", state.deliveries.refused},
                  {"parked", state.deliveries.parked}});
    families.begin("semel_relay_in_flight", "Requests to the endpoint under way.", MetricType::Gauge);
    for (const RelayState& state : states) families.add({{"relay", state.name}}, static_cast<double>(state.in_flight));
    families.begin("semel_relay_paused", "1: nothing is delivered, since the endpoint is not there or refuses us.",
                   MetricType::Gauge);
    for (const RelayState& state : states) families.add({{"relay", state.name}}, state.paused.empty() ? 0 : 1);
    families.begin("semel_relay_running", "0: the relay has ended, since its broker will never deliver.",
                   MetricType::Gauge);
    for (const RelayState& state : states) families.add({{"relay", state.name}}, state.running ? 1 : 0);
    families.begin("semel_relay_info", "Where messages come from, and what their keys are made of.", MetricType::Gauge);
    for (const RelayState& state : states)
        families.add({{"relay", state.name}, {"source", state.source}, {"key_source", std::string(state.key_source)}},
                     1);
    families.begin("semel_swept_total", "Records of which the sweep dropped the response or all.", MetricType::Counter);
    families.add({}, static_cast<double>(swept));
    return families.text();
}

}  // namespace semel::relay
