// `semel relay`: messages from brokers to HTTP endpoints, each with a deterministic key.
//
// A relay is the consumers' message loop with a lease per message: claim; deliver; settle by the answer; acknowledge. What a
// crash leaves is what consumers/leased.hpp says: a delivery whose answer nobody has read is unknown, and is repeated with the
// same key only where the endpoint deduplicates.
//
// An endpoint that is not there, or that does not know us (401, 403, 404), is paused: nothing is counted as a try, nothing
// becomes a dead letter, and one message in a while tries whether it is well again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "consumers/loop.hpp"
#include "relay/relay_config.hpp"
#include "semel/committer.hpp"

namespace semel::relay {

/// What the relay needs of the store besides the ledger: one inbox for each worker.
using OpenInbox = std::function<Result<std::unique_ptr<Inbox>>()>;
/// One line for people and their tools: level ("info", "warning", "error"), relay, text.
using LogLine = std::function<void(std::string_view level, std::string_view relay, std::string_view text)>;

/// What deliveries came to, since the start.
struct DeliveryCounts {
    std::uint64_t settled = 0;
    std::uint64_t again = 0;   ///< to be repeated with the same key
    std::uint64_t paused = 0;  ///< not sent, or the endpoint is not what the configuration takes it for
    std::uint64_t refused = 0;
    std::uint64_t parked = 0;  ///< nobody knows whether it was executed, and repeating is not declared safe
};

struct RelayState {
    std::string name{};
    std::string source{};
    std::string_view key_source{};  ///< where the keys of its messages come from
    ConsumerCounts counts{};
    DeliveryCounts deliveries{};
    std::size_t in_flight = 0;  ///< deliveries under way
    bool running = false;       ///< false: it has ended, and `ended` says why
    std::string ended{};
    std::string paused{};  ///< why nothing is delivered at present; empty: it is
};

/// All relays of a configuration. Starts by itself, stops when it goes.
class Relays {
public:
    /// Everything that is wrong with the relays of a configuration beyond what its reader sees: certificates and other files,
    /// settings that a client library refuses. Connects to nobody.
    static std::vector<Failure> check(const RelayConfig& config);

    /// `invalid` names the setting that is wrong. Brokers and endpoints need not be there. The committer must outlive it.
    static Result<std::unique_ptr<Relays>> start(const RelayConfig& config, Committer& committer, OpenInbox open_inbox,
                                                 LogLine log);
    ~Relays();

    /// Finishes what is being delivered; gives the rest back to the brokers.
    void stop();
    /// Thread safe.
    [[nodiscard]] std::vector<RelayState> states() const;

private:
    class One;
    Relays() = default;
    std::vector<std::unique_ptr<One>> all_;
};

}  // namespace semel::relay
