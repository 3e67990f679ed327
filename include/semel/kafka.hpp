// Messages from Apache Kafka, by librdkafka.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "semel/source.hpp"

namespace semel::kafka {

struct Options {
    std::string brokers{};  ///< host:port, separated by commas
    std::string group{};
    std::vector<std::string> topics{};
    Duration commit_every = std::chrono::seconds{1};  ///< how often acknowledged positions are committed
    /// Further settings of librdkafka by their names (security.protocol, sasl.…). Those that correctness rests on
    /// (enable.auto.commit, isolation.level, enable.auto.offset.store, auto.offset.reset…) are refused, and so is the
    /// strategy cooperative-sticky with a librdkafka before 2.3, which it may crash.
    std::map<std::string, std::string> settings{};
};

/// Reads `read_committed`, from the earliest message where the group has no position yet. ordering_key is the record's key,
/// or the partition where it has none; position is `topic/partition@offset`.
/// What was acknowledged behind an unfinished message of its partition comes again after a rebalance or a restart: Kafka
/// keeps one position, and flush is done when the broker has that. A rebalance takes all tickets away.
/// A message that is given back is delivered by this source again, and by another one only after a rebalance.
/// `invalid` names the setting that librdkafka refuses; the broker need not be there yet.
Result<std::unique_ptr<Source>> open(Options options);

}  // namespace semel::kafka
