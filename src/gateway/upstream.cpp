#include "gateway/upstream.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>

namespace semel::gateway {
namespace {

using tcp = asio::ip::tcp;

constexpr Duration resolved_for = seconds{30};

std::string reason(const Error& error) { return error.message(); }

}  // namespace

// ---- a connection ----------------------------------------------------------------------------------------------

UpstreamConnection::UpstreamConnection(Deadlines& deadlines, std::shared_ptr<ServerState> server, Stream opened)
    : stream(std::move(opened)), deadline(deadlines, [this] { stream.cancel(); }), server_(std::move(server)) {
    ++server_->open;
}

UpstreamConnection::~UpstreamConnection() { --server_->open; }

bool UpstreamConnection::quiet() {
    if (Stream::Tls* const tls = stream.tls(); tls != nullptr) {
        SSL* const handle = tls->native_handle();
        if (SSL_has_pending(handle) != 0 || BIO_ctrl_pending(SSL_get_rbio(handle)) > 0) return false;
    }
    char byte = 0;
    const ssize_t got = ::recv(stream.socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

// ---- the pool --------------------------------------------------------------------------------------------------

Result<std::shared_ptr<UpstreamPool>> UpstreamPool::make(asio::io_context& context, Deadlines& deadlines,
                                                         Upstream config) {
    auto tls = client_context(config.tls);
    if (!tls) return tls.failure();
    return std::make_shared<UpstreamPool>(context, deadlines, std::move(config), std::move(*tls));
}

UpstreamPool::UpstreamPool(asio::io_context& context, Deadlines& deadlines, Upstream config, asio::ssl::context tls)
    : context_(context), deadlines_(deadlines), config_(std::move(config)), tls_(std::move(tls)) {
    for (const UpstreamServer& server : config_.servers)
        servers_.push_back(std::make_shared<ServerState>(ServerState{.server = server}));
}

std::unique_ptr<UpstreamConnection> UpstreamPool::take_idle() {
    while (!idle_.empty()) {
        std::unique_ptr<UpstreamConnection> connection = std::move(idle_.back());
        idle_.pop_back();
        if (!connection->quiet()) continue;
        connection->reused = true;
        return connection;
    }
    return nullptr;
}

std::shared_ptr<ServerState> UpstreamPool::next_server(std::size_t turn) {
    const SteadyTime now = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < servers_.size(); ++i) {
        const auto& server = servers_[(turn + i) % servers_.size()];
        if (server->leave_alone_until <= now && server->open < config_.connections_max) return server;
    }
    // All of them failed lately: whichever has rested longest.
    std::shared_ptr<ServerState> best;
    for (const auto& server : servers_)
        if (server->open < config_.connections_max && (!best || server->leave_alone_until < best->leave_alone_until))
            best = server;
    return best;
}

Task<UpstreamPool::Got> UpstreamPool::acquire() {
    Got got;
    const SteadyTime until = std::chrono::steady_clock::now() + config_.connect_timeout;
    while (true) {
        // With several servers an idle connection is as good as a turn: what is idle was given back evenly.
        got.connection = take_idle();
        if (got.connection) co_return got;
        if (next_server(turn_)) break;
        auto timer = std::make_shared<SteadyTimer>(context_.get_executor(), until);
        waiting_.push_back(timer);
        co_await timer->async_wait(as_tuple);
        std::erase(waiting_, timer);
        if (std::chrono::steady_clock::now() >= until) {
            got.why = fmt::format("{} connections to {} are in use (upstream.connections_max)", config_.connections_max,
                                  config_.servers.front().text());
            co_return got;
        }
    }
    for (std::size_t i = 0; i < servers_.size(); ++i) {
        const std::shared_ptr<ServerState> server = next_server(turn_++);
        if (!server) break;
        got = co_await connect(server);
        if (got.connection) co_return got;
    }
    wake_one();
    co_return got;
}

Task<std::string> UpstreamPool::resolve(ServerState& state) {
    const SteadyTime now = std::chrono::steady_clock::now();
    if (!state.endpoints.empty() && now - state.resolved_at < resolved_for) co_return "";
    Error error;
    const auto address = asio::ip::make_address(state.server.host, error);
    if (!error) {
        state.endpoints = {tcp::endpoint(address, state.server.port)};
        state.resolved_at = SteadyTime::max() - resolved_for;
        co_return "";
    }
    asio::ip::basic_resolver<tcp, Executor> resolver(context_.get_executor());
    Deadline deadline(deadlines_, [&resolver] { resolver.cancel(); });
    deadline.arm(config_.connect_timeout);
    auto [failed, found] =
        co_await resolver.async_resolve(state.server.host, std::to_string(state.server.port), as_tuple);
    if (failed || found.empty()) {
        state.resolved_at = now;
        if (!state.endpoints.empty()) co_return "";  // what was known before may still serve
        co_return fmt::format("{}: {}", state.server.text(), failed ? reason(failed) : "no address");
    }
    state.endpoints.clear();
    for (const auto& each : found) state.endpoints.push_back(each.endpoint());
    state.resolved_at = now;
    co_return "";
}

Task<UpstreamPool::Got> UpstreamPool::connect(std::shared_ptr<ServerState> state) {
    Got got;
    got.why = co_await resolve(*state);
    if (!got.why.empty()) {
        failed(*state);
        co_return got;
    }
    Socket socket(context_.get_executor());
    auto connection = state->server.tls
                          ? std::make_unique<UpstreamConnection>(deadlines_, state, Stream(std::move(socket), tls_))
                          : std::make_unique<UpstreamConnection>(deadlines_, state, Stream(std::move(socket)));
    Error error = asio::error::host_unreachable;
    connection->deadline.arm(config_.connect_timeout);
    const std::vector<tcp::endpoint> endpoints = state->endpoints;  // they may be resolved anew while this waits
    for (const tcp::endpoint& endpoint : endpoints) {
        Error ignored;
        connection->stream.socket().close(ignored);
        std::tie(error) = co_await connection->stream.socket().async_connect(endpoint, as_tuple);
        if (!error || connection->deadline.expired()) break;
    }
    if (!error) {
        Error ignored;
        connection->stream.socket().set_option(tcp::no_delay(true), ignored);
        if (connection->stream.tls() != nullptr) got.why = co_await shake_hands(*connection);
    } else {
        got.why = fmt::format(
            "connect to {}: {}", state->server.text(),
            connection->deadline.expired()
                ? fmt::format("no answer in {} ms (upstream.connect_timeout)", config_.connect_timeout.count() / 1000)
                : reason(error));
    }
    if (!got.why.empty()) {
        failed(*state);
        co_return got;
    }
    connection->deadline.disarm();
    state->failures = 0;
    state->leave_alone_until = {};
    got.connection = std::move(connection);
    co_return got;
}

Task<std::string> UpstreamPool::shake_hands(UpstreamConnection& connection) {
    Stream::Tls& tls = *connection.stream.tls();
    const std::string& host = config_.tls.server_name.empty() ? connection.server().host : config_.tls.server_name;
    Error numeric;
    asio::ip::make_address(host, numeric);
    if (numeric) SSL_set_tlsext_host_name(tls.native_handle(), host.c_str());
    Error error;
    tls.set_verify_callback(asio::ssl::host_name_verification(host), error);
    if (!error) std::tie(error) = co_await tls.async_handshake(asio::ssl::stream_base::client, as_tuple);
    if (!error) co_return "";
    co_return fmt::format("TLS with {}: {} (upstream.tls)", connection.server().text(), reason(error));
}

void UpstreamPool::failed(ServerState& state) {
    if (++state.failures < config_.failures_max) return;
    state.leave_alone_until = std::chrono::steady_clock::now() + config_.failure_pause;
}

void UpstreamPool::give_back(std::unique_ptr<UpstreamConnection> connection) {
    connection->deadline.disarm();
    if (idle_.size() < config_.idle_connections_max * servers_.size() || !waiting_.empty()) {
        connection->idle_since = std::chrono::steady_clock::now();
        idle_.push_back(std::move(connection));
    } else {
        connection.reset();
    }
    wake_one();
}

void UpstreamPool::wake_one() {
    if (waiting_.empty()) return;
    waiting_.front()->cancel();
    waiting_.pop_front();
}

void UpstreamPool::tick(SteadyTime now) {
    while (!idle_.empty() && now - idle_.front()->idle_since > config_.idle_timeout) idle_.pop_front();
    // A connection that was dropped instead of given back leaves room too.
    for (std::size_t i = waiting_.size(); i > 0 && (!idle_.empty() || next_server(turn_)); --i) wake_one();
}

// ---- TLS -------------------------------------------------------------------------------------------------------

namespace {

Failure tls_failure(const std::string& what, const std::string& file, const Error& error) {
    return Failure{Code::invalid, fmt::format("{} {}: {}", what, file, reason(error))};
}

Status load_pair(asio::ssl::context& context, const std::string& certificate, const std::string& key) {
    Error error;
    context.use_certificate_chain_file(certificate, error);
    if (error) return tls_failure("tls.certificate", certificate, error);
    context.use_private_key_file(key, asio::ssl::context::pem, error);
    if (error) return tls_failure("tls.key", key, error);
    if (SSL_CTX_check_private_key(context.native_handle()) != 1)
        return Failure{Code::invalid,
                       fmt::format("tls.key {}: does not belong to tls.certificate {}", key, certificate)};
    return Done{};
}

asio::ssl::context strict_context(asio::ssl::context::method method) {
    asio::ssl::context context(method);
    SSL_CTX_set_min_proto_version(context.native_handle(), TLS1_2_VERSION);
    SSL_CTX_set_options(context.native_handle(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context.native_handle(), SSL_MODE_RELEASE_BUFFERS);
    return context;
}

}  // namespace

Result<asio::ssl::context> client_context(const ClientTls& tls) {
    asio::ssl::context context = strict_context(asio::ssl::context::tls_client);
    Error error;
    if (tls.ca.empty())
        context.set_default_verify_paths(error);
    else
        context.load_verify_file(tls.ca, error);
    if (error) return tls_failure("upstream.tls.ca", tls.ca, error);
    context.set_verify_mode(asio::ssl::verify_peer, error);
    if (!tls.certificate.empty())
        if (auto loaded = load_pair(context, tls.certificate, tls.key); !loaded) return loaded.failure();
    return context;
}

Result<asio::ssl::context> server_context(const ServerTls& tls) {
    asio::ssl::context context = strict_context(asio::ssl::context::tls_server);
    if (auto loaded = load_pair(context, tls.certificate, tls.key); !loaded) return loaded.failure();
    // Sessions are resumed only within one set of client certificates.
    static constexpr unsigned char session_name[] = "semel";
    SSL_CTX_set_session_id_context(context.native_handle(), session_name, sizeof session_name - 1);
    if (tls.client_ca.empty()) return context;
    Error error;
    context.load_verify_file(tls.client_ca, error);
    if (error) return tls_failure("tls.client_ca", tls.client_ca, error);
    if (STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(tls.client_ca.c_str()))
        SSL_CTX_set_client_CA_list(context.native_handle(), names);
    context.set_verify_mode(
        asio::ssl::verify_peer |
            (tls.client_certificate_required ? asio::ssl::verify_fail_if_no_peer_cert : asio::ssl::verify_none),
        error);
    return context;
}

}  // namespace semel::gateway
