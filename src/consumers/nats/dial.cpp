#include "consumers/nats/dial.hpp"

#include <algorithm>

#include "consumers/nats/millis.hpp"
#include "consumers/nats/servers.hpp"

namespace semel::nats {
namespace {

// A server that went silent is given up after about three of these.
constexpr std::int64_t ping_millis = 10'000;
constexpr int pings_unanswered_max = 2;
constexpr std::int64_t reconnect_millis = 250;

/// Without it the library writes to standard error. Whatever goes wrong is seen in the calls.
void ignore(natsConnection*, natsSubscription*, natsStatus, void*) {}

natsStatus set_tls(natsOptions* options, const std::vector<std::string>& servers, const std::string& ca_file) {
    const bool tls = std::ranges::any_of(servers, [](const auto& server) { return server.starts_with("tls://"); });
    if (!tls) return NATS_OK;
    if (const natsStatus status = natsOptions_SetSecure(options, true); status != NATS_OK) return status;
    return ca_file.empty() ? NATS_OK : natsOptions_LoadCATrustedCertificates(options, ca_file.c_str());
}

natsStatus set_all(natsOptions* to, const Options& options, const std::vector<std::string>& servers,
                   Reconnects reconnects) {
    std::vector<const char*> list;
    for (const std::string& server : servers) list.push_back(server.c_str());
    natsStatus status = natsOptions_SetServers(to, list.data(), static_cast<int>(list.size()));
    const auto then = [&](auto set, auto... values) {
        if (status == NATS_OK) status = set(to, values...);
    };
    then(natsOptions_SetName, "semel");
    then(natsOptions_SetTimeout, millis_of(options.connect_timeout));
    then(natsOptions_SetWriteDeadline, millis_of(options.connect_timeout));
    then(natsOptions_SetAllowReconnect, reconnects == Reconnects::for_ever);
    then(natsOptions_SetMaxReconnect, -1);
    then(natsOptions_SetReconnectWait, reconnect_millis);
    then(natsOptions_SetPingInterval, ping_millis);
    then(natsOptions_SetMaxPingsOut, pings_unanswered_max);
    then(natsOptions_SetFailRequestsOnDisconnect, true);
    then(natsOptions_SetErrorHandler, &ignore, nullptr);
    if (!options.credentials_file.empty())
        then(natsOptions_SetUserCredentialsFromFiles, options.credentials_file.c_str(), nullptr);
    if (status == NATS_OK) status = set_tls(to, servers, options.ca_file);
    return status;
}

}  // namespace

/// Without the place in cnats' source that it puts in front.
std::string last_error(natsStatus status) {
    const char* const last = nats_GetLastError(nullptr);
    const std::string_view text = last == nullptr ? "" : last;
    const auto place = text.starts_with("(") ? text.find("): ") : std::string_view::npos;
    if (text.empty()) return natsStatus_GetText(status);
    return std::string(place == std::string_view::npos ? text : text.substr(place + 3));
}

bool is_refusal(natsStatus status) {
    return status == NATS_CONNECTION_AUTH_FAILED || status == NATS_NOT_PERMITTED || status == NATS_INVALID_ARG ||
           status == NATS_ADDRESS_MISSING || status == NATS_SECURE_CONNECTION_REQUIRED ||
           status == NATS_SECURE_CONNECTION_WANTED;
}

Result<ConnectionHandle> dial(const Options& options, Reconnects reconnects) {
    natsOptions* made = nullptr;
    if (natsOptions_Create(&made) != NATS_OK) return Failure{Code::unavailable, "out of memory"};
    const OptionsHandle owned(made);
    if (const natsStatus status = set_all(made, options, servers_of(options.url), reconnects); status != NATS_OK)
        return Failure{Code::invalid, last_error(status) + " (url, ca_file, credentials_file)"};
    natsConnection* connection = nullptr;
    const natsStatus status = natsConnection_Connect(&connection, made);
    if (status != NATS_OK)
        return Failure{is_refusal(status) ? Code::invalid : Code::unavailable, last_error(status) + " (url)"};
    return ConnectionHandle(connection);
}

}  // namespace semel::nats
