// From an address to a connection that is logged in, for whoever reads or publishes.
#pragma once

#include <amqp.h>

#include <optional>
#include <string>
#include <string_view>

#include "consumers/rabbitmq/address.hpp"
#include "semel/rabbitmq.hpp"

namespace semel::rabbitmq {

struct Close {
    int code = 0;
    std::string text{};
};
/// Why the server closed the channel or the connection, if that is what the reply says.
std::optional<Close> close_in(const amqp_rpc_reply_t& reply);

/// `invalid` if the same attempt would be refused again. `where` is for people.
Failure refused(const std::string& where, std::string_view what, const amqp_rpc_reply_t& reply);

/// Opens the socket and logs in, by ca_file, connect_timeout and heartbeat; each step takes up to connect_timeout.
Status log_in(amqp_connection_state_t connection, const Options& options, const Address& address,
              const std::string& where);

}  // namespace semel::rabbitmq
