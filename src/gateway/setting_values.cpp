#include "gateway/setting_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/shapes.hpp"
#include "http/fields.hpp"

namespace semel::gateway {
namespace {

constexpr std::size_t servers_max = 64;
constexpr std::string_view url_right = "http:// or https://, a host and if need be a port, as in http://127.0.0.1:9000";

std::optional<UpstreamServer> read_server(const Setting& setting) {
    const auto text = setting.text(url_right);
    if (!text) return std::nullopt;
    auto server = parse_upstream_server(*text);
    // What is before an @ may be a password.
    const bool has_user = text->find('@') != std::string::npos;
    if (!server) (has_user ? setting.hidden() : setting).expected(fmt::format("{}; no path, query or user", url_right));
    return server;
}

std::vector<UpstreamServer> read_servers(const Setting& setting) {
    std::vector<UpstreamServer> servers;
    const std::vector<Setting> items = setting.some_items("a list of one or more URLs");
    if (items.size() > servers_max) {
        setting.refuse(fmt::format("more than {} servers", servers_max));
        return servers;
    }
    for (const Setting& item : items) {
        const auto server = read_server(item);
        if (!server) continue;
        if (std::ranges::find(servers, *server) != servers.end()) item.refuse("this server is in the list already");
        servers.push_back(*server);
    }
    return servers;
}

std::optional<Upstream> read_upstream_mapping(const Setting& setting) {
    const auto in = setting.mapping(upstream_shape, "");
    if (!in) return std::nullopt;
    constexpr Duration least = milliseconds{1};
    Upstream upstream;
    if (const auto servers = in->required("servers", "a list of one or more URLs"))
        upstream.servers = read_servers(*servers);
    fill(*in, "tls", upstream.tls, read_client_tls);
    fill(*in, "connect_timeout", upstream.connect_timeout, duration_between(least, minutes{10}));
    fill(*in, "response_timeout", upstream.response_timeout, duration_between(least, hours{24}));
    fill(*in, "connections_max", upstream.connections_max, whole_between(1, 65535));
    upstream.idle_connections_max = std::min(upstream.idle_connections_max, upstream.connections_max);
    fill(*in, "idle_connections_max", upstream.idle_connections_max, whole_between(0, 65535));
    fill(*in, "idle_timeout", upstream.idle_timeout, duration_between(least, hours{24}));
    fill(*in, "failures_max", upstream.failures_max, whole_between(1, 1000));
    fill(*in, "failure_pause", upstream.failure_pause, duration_between(least, hours{1}));
    if (upstream.idle_connections_max > upstream.connections_max)
        in->refuse("idle_connections_max", "more than connections_max, of which they are a part");
    const auto is_tls = [](const UpstreamServer& server) { return server.tls; };
    if (in->has("tls") && !upstream.servers.empty() && std::ranges::none_of(upstream.servers, is_tls))
        in->refuse("tls", "none of the servers is an https:// one; write https:// there, or leave tls out");
    return upstream;
}

}  // namespace

std::optional<std::string> read_request_header(const Setting& setting) {
    auto name = read_header_name(setting);
    if (!name) return name;
    if (http::is_hop_by_hop(*name) || http::same_name(*name, "Content-Length") || http::same_name(*name, "Host")) {
        setting.expected("a header that belongs to the request, not to the connection or its framing");
        return std::nullopt;
    }
    if (http::variable_starts_with(*name, "Semel-")) {
        setting.expected("another header: those that begin with Semel- are removed from every request");
        return std::nullopt;
    }
    return name;
}

std::optional<Upstream> read_upstream(const Setting& setting) {
    if (setting.is_mapping()) return read_upstream_mapping(setting);
    Upstream upstream;
    if (setting.is_list()) {
        upstream.servers = read_servers(setting);
    } else if (const auto server = read_server(setting)) {
        upstream.servers.push_back(*server);
    }
    if (upstream.servers.empty()) return std::nullopt;
    return upstream;
}

}  // namespace semel::gateway
