// From what AMQP carries to a Message.
#pragma once

#include <amqp.h>

#include <string>

#include "semel/message.hpp"

namespace semel::rabbitmq {

/// Everything but the body and the topic. Header values that are text, numbers or booleans become text; tables and lists
/// (such as x-death) are left out. `x-delivery-count`, which a quorum queue adds to a message that comes again, becomes
/// `deliveries` and is no header, so that the headers are the same each time.
Message message_of(const amqp_basic_properties_t& properties, bool redelivered, const std::string& ordering_header);

}  // namespace semel::rabbitmq
