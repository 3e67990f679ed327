// What the outboxes count, in Prometheus' terms. Labels are bounded: outboxes come from the configuration, everything else
// from what is written here.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "outbox/pump.hpp"

namespace semel::outbox {

/// The text of Prometheus' exposition format; states by the names of their outboxes.
std::string metrics_text(const std::vector<std::pair<std::string, PumpState>>& states);

}  // namespace semel::outbox
