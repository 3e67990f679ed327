#include "consumers/rabbitmq/address.hpp"

#include <amqp.h>
#include <fmt/format.h>

namespace semel::rabbitmq {

Result<Address> parse_address(std::string url) {
    amqp_connection_info info{};
    amqp_default_connection_info(&info);
    // It writes into the text and points into it.
    if (amqp_parse_url(url.data(), &info) != AMQP_STATUS_OK)
        return Failure{Code::invalid,
                       "url: expected amqp://user:password@host:port/vhost or amqps://…, with every / : @ % "
                       "of a part written as %2f %3a %40 %25 (url)"};
    // By the letter of the URL specification a closing slash means the vhost with the empty name, which nobody has.
    const std::string vhost = info.vhost == nullptr ? "" : info.vhost;
    return Address{info.host, info.port, info.user, info.password, vhost.empty() ? "/" : vhost, info.ssl != 0};
}

std::string Address::text() const {
    const bool bare = host.find(':') != std::string::npos;  // an IPv6 address, whose brackets the parser took off
    return fmt::format("{}://{}{}{}:{}{}", tls ? "amqps" : "amqp", bare ? "[" : "", host, bare ? "]" : "", port,
                       vhost == "/" ? "" : "/" + vhost);
}

}  // namespace semel::rabbitmq
