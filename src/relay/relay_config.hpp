// What the configuration of `semel relay` says, as plain values, and how it is read. Everything that is wrong with a file is
// told at once, with file and line.
//
//   store: postgres://semel@db/semel
//   admin: 127.0.0.1:8082
//   relays:
//     - name: orders                    # part of the identity: never reuse, never rename
//       from: { kafka: { brokers: "kafka:9092", topics: [orders] } }
//       envelope: cloudevents
//       to: { url: http://shop:9000/orders, deduplicates: 24h }
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "relay/endpoint.hpp"
#include "relay/verdict.hpp"
#include "semel/envelope.hpp"
#include "semel/kafka.hpp"
#include "semel/message_key.hpp"
#include "semel/nats.hpp"
#include "semel/operation.hpp"
#include "semel/rabbitmq.hpp"
#include "semel/redis.hpp"
#include "settings/listeners.hpp"
#include "settings/mark.hpp"
#include "settings/setting.hpp"

namespace semel::relay {

/// Where messages come from.
using From = std::variant<kafka::Options, rabbitmq::Options, nats::Options, redis::Options>;

/// Whether messages with the same ordering key wait for each other.
enum class Order : std::uint8_t {
    key,   ///< later ones queue behind one that is being tried again
    none,  ///< they pass
};

struct Retries {
    std::size_t limit = 10;  ///< after that many it is a dead letter
    Duration first = std::chrono::seconds{1};
    Duration max = std::chrono::minutes{5};  ///< the pause doubles up to this
    bool operator==(const Retries&) const = default;
};

struct Relay {
    settings::Mark mark{};
    std::string name{};  ///< the group: the scope of its operations
    From from{};
    EnvelopeOptions envelope{};
    MessageKeyOptions key{};
    EndpointOptions to{};
    EndpointRules rules{};
    std::size_t concurrency = 16;  ///< deliveries at once
    Order order = Order::key;
    Retries retries{};
    Duration lease = std::chrono::seconds{30};
    Retention retention{};
};

struct RelayConfig {
    std::string file{};
    std::string store{};  ///< as written
    std::optional<settings::Admin> admin{};
    std::vector<Relay> relays{};  ///< at least one
};

struct ReadRelayConfig {
    std::optional<RelayConfig> config{};              ///< there if and only if there is no problem
    std::vector<settings::ConfigProblem> problems{};  ///< in the order of lines
};

/// Reads the file, with the process's environment. Files that it names (certificates, keys) are not looked at.
ReadRelayConfig read_relay_config(const std::string& path);

/// As read_relay_config, of a text; `file` is its name in messages, `environment` gives a variable's value or nullptr.
ReadRelayConfig read_relay_config_text(std::string_view text, const std::string& file,
                                       const settings::Environment& environment);

/// Every kind of mapping with the names it may hold.
std::vector<settings::Shape> relay_config_shapes();

}  // namespace semel::relay
