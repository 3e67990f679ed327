#include "gateway/config.hpp"

#include <fmt/format.h>

namespace semel::gateway {
namespace {

std::string host_and_port(const std::string& host, std::uint16_t port) {
    return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

}  // namespace

std::string Address::text() const { return host_and_port(host, port); }

bool Address::loopback() const { return host == "::1" || host.starts_with("127."); }

std::string UpstreamServer::text() const {
    return fmt::format("{}://{}", tls ? "https" : "http", host_and_port(host, port));
}

KeyUse Route::key_for(std::string_view method) const {
    return key_of_post_and_patch && method != "POST" && method != "PATCH" ? KeyUse::ignored : key;
}

}  // namespace semel::gateway
