#include "outbox/outbox_metrics.hpp"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

namespace semel::outbox {

std::string metrics_text(const std::vector<std::pair<std::string, PumpState>>& states) {
    using prometheus::MetricType;
    std::vector<prometheus::MetricFamily> families;
    const auto add = [&](const char* name, const char* help, MetricType type, auto value) {
        auto& family = families.emplace_back();
        family.name = name;
        family.help = help;
        family.type = type;
        for (const auto& [outbox, state] : states) {
            auto& metric = family.metric.emplace_back();
            metric.label.push_back({"outbox", outbox});
            metric.counter.value = metric.gauge.value = static_cast<double>(value(state));
        }
    };
    add("semel_outbox_published_total", "Events that the broker has confirmed.", MetricType::Counter,
        [](const PumpState& state) { return state.published; });
    add("semel_outbox_duplicates_total", "Of those: the broker had them before, by its own account.",
        MetricType::Counter, [](const PumpState& state) { return state.duplicates; });
    add("semel_outbox_refused_total", "Events that the broker refused, tries counted.", MetricType::Counter,
        [](const PumpState& state) { return state.refused; });
    add("semel_outbox_restarts_total", "How often the broker failed, and all without its receipt began again.",
        MetricType::Counter, [](const PumpState& state) { return state.restarts; });
    add("semel_outbox_stuck", "Events that are refused and stop their ordering keys.", MetricType::Gauge,
        [](const PumpState& state) { return state.stuck; });
    add("semel_outbox_oldest_seconds", "Age of the oldest event that is not published.", MetricType::Gauge,
        [](const PumpState& state) { return state.oldest_seconds; });
    add("semel_outbox_held_up_seconds", "How long the oldest transaction that staged events has been open.",
        MetricType::Gauge, [](const PumpState& state) { return state.held_up_seconds; });
    add("semel_outbox_on_their_way", "Events handed to the broker and not confirmed yet.", MetricType::Gauge,
        [](const PumpState& state) { return state.on_their_way; });
    add("semel_outbox_shards", "Shards that this relay works on.", MetricType::Gauge,
        [](const PumpState& state) { return state.shards; });
    add("semel_outbox_relays", "Relays that share this outbox.", MetricType::Gauge,
        [](const PumpState& state) { return state.relays; });
    add("semel_outbox_broker_up", "0: the broker does not answer.", MetricType::Gauge,
        [](const PumpState& state) { return state.broker_down.empty() ? 1 : 0; });
    add("semel_outbox_store_up", "0: the database does not answer.", MetricType::Gauge,
        [](const PumpState& state) { return state.store_down.empty() ? 1 : 0; });
    return prometheus::TextSerializer().Serialize(families);
}

}  // namespace semel::outbox
