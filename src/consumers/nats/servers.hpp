// The addresses of the setting `url`, one by one.
#pragma once

#include <string>
#include <vector>

namespace semel::nats {

/// Split at the commas, without blanks and empty ones.
std::vector<std::string> servers_of(const std::string& url);

/// For people, without user and password: `nats://a:4222,nats://b:4222`.
std::string without_credentials(const std::vector<std::string>& servers);

}  // namespace semel::nats
