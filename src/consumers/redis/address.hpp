// Where a Redis server is, as a setting names it: redis://[[user]:password@]host[:port][/database].
#pragma once

#include <string>

#include "semel/result.hpp"

namespace semel::redis {

struct Address {
    std::string host{};
    int port = 6379;
    std::string user{};  ///< empty: the default user
    std::string password{};
    int database = 0;
    bool operator==(const Address&) const = default;

    [[nodiscard]] std::string text() const;  ///< for people, without credentials
};

/// Bytes of user and password that a URL cannot carry are written %NN. An IPv6 address is written in brackets.
/// `invalid` names the setting `url` and never shows what it held, which may be a password.
Result<Address> parse_address(const std::string& url);

}  // namespace semel::redis
