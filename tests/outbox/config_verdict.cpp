// config_verdict of the outbox's configurations.
#include "../support/config_verdict.hpp"

#include <algorithm>
#include <tuple>

#include "outbox/outbox_config.hpp"

namespace {

using namespace semel::outbox;  // NOLINT(google-build-using-namespace): what is compared

/// What a configuration may say of each.
auto parts(const KafkaOptions& to) { return std::tie(to.brokers, to.settings); }
auto parts(const RabbitmqOptions& to) {
    return std::tie(to.connection.url, to.connection.heartbeat, to.connection.connect_timeout, to.connection.ca_file,
                    to.exchange);
}
auto parts(const NatsOptions& to) {
    return std::tie(to.connection.url, to.connection.credentials_file, to.connection.ca_file,
                    to.connection.connect_timeout);
}
auto parts(const RedisOptions& to) { return std::tie(to.connection.url, to.connection.timeout, to.entries_max); }
auto parts(const HttpOptions& to) { return std::tie(to.url, to.call, to.headers, to.concurrency); }
auto parts(const PumpOptions& pump) {
    return std::tie(pump.lease, pump.batch, pump.poll, pump.retry_first, pump.retry_max, pump.alarm);
}

bool same_plan(const OutboxPlan& left, const OutboxPlan& right) {
    const auto as_right = [&right](const auto& to) {
        const auto* other = std::get_if<std::decay_t<decltype(to)>>(&right.to);
        return other != nullptr && parts(to) == parts(*other);
    };
    return left.name == right.name && parts(left.pump) == parts(right.pump) && std::visit(as_right, left.to);
}

}  // namespace

int main(int argc, char** argv) {
    const auto same = [](const OutboxConfig& left, const OutboxConfig& right) {
        return left.store == right.store && left.admin == right.admin &&
               std::ranges::equal(left.outboxes, right.outboxes, same_plan);
    };
    return semel::test::config_verdict(argc, argv, outbox_config_shapes(), read_outbox_config, same);
}
