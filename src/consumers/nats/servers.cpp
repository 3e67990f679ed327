#include "consumers/nats/servers.hpp"

#include <string_view>

namespace semel::nats {

std::vector<std::string> servers_of(const std::string& url) {
    std::vector<std::string> servers;
    std::string server;
    for (const char c : url + ",") {
        if (c == ',') {
            if (!server.empty()) servers.push_back(std::move(server));
            server.clear();
        } else if (c != ' ') {
            server.push_back(c);
        }
    }
    return servers;
}

std::string without_credentials(const std::vector<std::string>& servers) {
    std::string text;
    for (const std::string_view server : servers) {
        if (!text.empty()) text += ',';
        const auto scheme = server.find("://");
        const auto start = scheme == std::string_view::npos ? 0 : scheme + 3;
        // The last one: a password may hold an @ that nobody escaped.
        const auto at = server.rfind('@');
        text += server.substr(0, start);
        text += server.substr(at == std::string_view::npos || at < start ? start : at + 1);
    }
    return text;
}

}  // namespace semel::nats
