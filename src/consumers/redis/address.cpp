#include "consumers/redis/address.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "base/bytes.hpp"

namespace semel::redis {
namespace {

constexpr std::string_view scheme = "redis://";

Failure refused(std::string_view why) {
    return {Code::invalid, fmt::format("{}; it is written redis://[:password@]host:port[/database] (url)", why)};
}

std::optional<int> number(std::string_view text, int max) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > max) return std::nullopt;
    return value;
}

std::optional<std::string> unescaped(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            out.push_back(text[at]);
            continue;
        }
        const auto byte = from_hex(text.substr(at + 1, 2));
        if (!byte || byte->size() != 1) return std::nullopt;
        out += *byte;
        at += 2;
    }
    return out;
}

Result<Address> with_credentials(Address address, std::string_view text) {
    const auto colon = text.find(':');
    const auto user = unescaped(text.substr(0, colon));
    const auto password = colon == std::string_view::npos ? std::string{} : unescaped(text.substr(colon + 1));
    if (!user || !password) return refused("an escape in the user or the password is not %NN");
    if (password->empty()) return refused("there is a user without a password");
    address.user = *user;
    address.password = *password;
    return address;
}

}  // namespace

std::string Address::text() const {
    const bool six = host.find(':') != std::string::npos;
    return fmt::format("{}{}{}:{}/{}", six ? "[" : "", host, six ? "]" : "", port, database);
}

Result<Address> parse_address(const std::string& url) {
    if (!url.starts_with(scheme)) return refused("the address of Redis does not begin with redis://");
    std::string_view rest = std::string_view(url).substr(scheme.size());
    Address address;
    if (const auto at = rest.rfind('@'); at != std::string_view::npos) {
        auto with = with_credentials(std::move(address), rest.substr(0, at));
        if (!with) return with;
        address = std::move(with).value();
        rest.remove_prefix(at + 1);
    }
    if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
        const std::string_view text = rest.substr(slash + 1);
        const auto database = text.empty() ? 0 : number(text, 1'000'000);
        if (!database) return refused("the database is not a number");
        address.database = *database;
        rest = rest.substr(0, slash);
    }
    if (rest.starts_with('[')) {
        const auto end = rest.find(']');
        if (end == std::string_view::npos) return refused("the bracket of an IPv6 address is not closed");
        address.host = rest.substr(1, end - 1);
        rest.remove_prefix(end + 1);
    } else {
        address.host = rest.substr(0, rest.find(':'));
        rest.remove_prefix(address.host.size());
    }
    if (address.host.empty()) return refused("there is no host");
    if (rest.empty()) return address;
    const auto port = rest.starts_with(':') ? number(rest.substr(1), 65535) : std::nullopt;
    if (!port || *port == 0) return refused("the port is not a number from 1 to 65535");
    address.port = *port;
    return address;
}

}  // namespace semel::redis
