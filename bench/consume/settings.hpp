// What is asked of bench_consume, and its parts.
#pragma once

#include <string>
#include <vector>

#include "support/report.hpp"
#include "tests/consumers/broker.hpp"

namespace semel::bench {

struct ConsumeSettings {
    std::string postgres{};
    std::vector<std::string> brokers{"kafka", "rabbitmq", "nats", "redis"};
    int rounds = 3;
    int messages = 40'000;          ///< for the fast ones
    int textbook_messages = 2'000;  ///< for the slow one
    int latency_messages = 100;
    int body_bytes = 1024;
    test::Tuning tuning{};  ///< of the source that Semel reads
};

/// Messages per second: the client alone, the textbook loop, Semel, and the database's own limit.
void measure_throughput(const ConsumeSettings& settings, Report& report);
/// From publishing to the commit, one message at a time.
void measure_latency(const ConsumeSettings& settings, Report& report);
/// Semel with one message in a hundred failing for good, beside Semel with none.
void measure_poison(const ConsumeSettings& settings, Report& report);

}  // namespace semel::bench
