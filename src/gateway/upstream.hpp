// Connections to an upstream's servers, kept open between requests. One pool per upstream and thread.
//
// Servers take turns. One that could not be reached failures_max times in a row is left alone for failure_pause, unless
// there is no other. A connection is handed to one request at a time and comes back only if nothing can be left on it.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "gateway/config.hpp"
#include "gateway/deadlines.hpp"
#include "gateway/net.hpp"

namespace semel::gateway {

class UpstreamPool;

/// What one server's connections share.
struct ServerState {
    UpstreamServer server;
    std::vector<asio::ip::tcp::endpoint> endpoints{};  ///< resolved
    SteadyTime resolved_at{};
    std::size_t open = 0;  ///< connections, idle ones included
    std::size_t failures = 0;
    SteadyTime leave_alone_until{};
};

class UpstreamConnection {
public:
    static constexpr std::size_t buffer_bytes = 16 * 1024;

    UpstreamConnection(Deadlines& deadlines, std::shared_ptr<ServerState> server, Stream stream);
    ~UpstreamConnection();
    UpstreamConnection(const UpstreamConnection&) = delete;
    UpstreamConnection& operator=(const UpstreamConnection&) = delete;

    Stream stream;
    Deadline deadline;  ///< cancels what is pending
    std::string buffer = std::string(buffer_bytes, '\0');
    bool reused = false;
    SteadyTime idle_since{};

    [[nodiscard]] const UpstreamServer& server() const { return server_->server; }
    /// Whether the server has neither closed it nor sent anything unasked.
    [[nodiscard]] bool quiet();

private:
    std::shared_ptr<ServerState> server_;
    friend class UpstreamPool;
};

class UpstreamPool {
public:
    /// Fails if the TLS files cannot be read.
    static Result<std::shared_ptr<UpstreamPool>> make(asio::io_context& context, Deadlines& deadlines, Upstream config);
    UpstreamPool(asio::io_context& context, Deadlines& deadlines, Upstream config, asio::ssl::context tls);

    struct Got {
        std::unique_ptr<UpstreamConnection> connection;  ///< empty: none, and `why` says why; nothing was sent
        std::string why;
    };
    /// An idle connection, or a new one; waits for one to be given back if there are too many already.
    Task<Got> acquire();
    /// After a whole exchange on a connection that can be used again.
    void give_back(std::unique_ptr<UpstreamConnection> connection);
    /// Closes what has been idle for too long. Called every tick.
    void tick(SteadyTime now);

    [[nodiscard]] const Upstream& config() const { return config_; }

private:
    std::unique_ptr<UpstreamConnection> take_idle();
    std::shared_ptr<ServerState> next_server(std::size_t turn);
    Task<std::string> resolve(ServerState& state);
    Task<Got> connect(std::shared_ptr<ServerState> state);
    Task<std::string> shake_hands(UpstreamConnection& connection);
    void failed(ServerState& state);
    void wake_one();

    asio::io_context& context_;
    Deadlines& deadlines_;
    Upstream config_;
    asio::ssl::context tls_;
    std::vector<std::shared_ptr<ServerState>> servers_;
    std::size_t turn_ = 0;
    std::deque<std::unique_ptr<UpstreamConnection>> idle_;  // the one used last at the back
    std::deque<std::shared_ptr<SteadyTimer>> waiting_;
};

/// A context for connections to an upstream: TLS 1.2 or later, the certificate verified.
Result<asio::ssl::context> client_context(const ClientTls& tls);
/// A context for a listener.
Result<asio::ssl::context> server_context(const ServerTls& tls);

}  // namespace semel::gateway
