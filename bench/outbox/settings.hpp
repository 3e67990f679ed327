// What is asked of bench_outbox, and its parts.
#pragma once

#include <string>
#include <vector>

#include "support/report.hpp"

namespace semel::bench {

struct OutboxSettings {
    std::string postgres{};
    std::vector<std::string> brokers{"kafka", "nats"};
    int rounds = 3;
    int events = 40'000;       ///< for the fast ones
    int naive_events = 1'000;  ///< for the slow one
    int latency_events = 200;
    int body_bytes = 256;
    int keys = 1'000;
};

/// Events per second out of a filled outbox: the naive poller, Semel, and the database alone.
void measure_outbox_throughput(const OutboxSettings& settings, Report& report);
/// From the commit of one event to the broker's receipt, at a low rate.
void measure_outbox_delay(const OutboxSettings& settings, Report& report);

}  // namespace semel::bench
