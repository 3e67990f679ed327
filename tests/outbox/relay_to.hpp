// Where a relay of the tests publishes to: the brokers of tests/servers/with-servers.
#pragma once

#include <string_view>

#include "outbox/publishers.hpp"

namespace semel::test {

outbox::To relay_to(std::string_view broker);

}  // namespace semel::test
