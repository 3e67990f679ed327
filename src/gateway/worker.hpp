// One I/O thread of the gateway with everything that belongs to it alone: connections of clients, connections to upstreams,
// calls to the ledger, deadlines. Threads share nothing but the committer, the metrics and the configuration in force.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <unordered_set>

#include "gateway/deadlines.hpp"
#include "gateway/hot.hpp"
#include "gateway/ledger_calls.hpp"
#include "gateway/log.hpp"
#include "gateway/site.hpp"
#include "gateway/upstream.hpp"

namespace semel::gateway {

class Session;

/// A configuration as one thread uses it.
struct LocalSite {
    std::shared_ptr<const Site> site;
    std::vector<std::shared_ptr<UpstreamPool>> pools{};  ///< as Site::upstreams
};

/// An io_context of which what is pending can be destroyed while everything it refers to is still there.
class Context : public asio::io_context {
public:
    Context() : asio::io_context(1) {}
    void destroy_pending() { shutdown(); }
};

class Worker {
public:
    Worker(Committer& committer, Shared& shared, Logger& log);
    /// After join(), and after the committer has ended.
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    /// Before start(), or on its thread. Pools of upstreams that did not change stay.
    Status use(std::shared_ptr<const Site> site);
    void start();

    /// Thread safe: the connection is served from now on.
    void serve(Socket socket, std::shared_ptr<asio::ssl::context> tls);
    /// Thread safe: no connection outlives its current request. `done` is called on this thread when nothing is left.
    void drain(std::function<void()> done);
    /// Thread safe, after drain: whatever is still held is abandoned, `within` this time; then `done` is called.
    void abandon(Duration within, std::function<void()> done);
    /// Ends the thread, whatever is going on.
    void join();

    [[nodiscard]] const std::shared_ptr<const LocalSite>& site() const { return site_; }
    [[nodiscard]] asio::io_context& context() { return context_; }
    [[nodiscard]] bool draining() const { return draining_; }
    /// Draining is over: nothing new may begin.
    [[nodiscard]] bool ending() const { return ending_; }
    /// Thread safe.
    [[nodiscard]] std::size_t connections() const { return connections_; }

    /// Tells the ledger in the background what could not be told in time. False: too many wait already.
    [[nodiscard]] bool tell_later(const std::shared_ptr<Held>& held, Command command, const Limits& limits,
                                  std::string operation);

private:
    Context context_;

public:
    Deadlines deadlines{context_};
    LedgerCalls calls;
    Shared& shared;
    Logger& log;
    HotTier hot;
    std::size_t waiting = 0;  ///< duplicates that wait (limits.waiting_max)

private:
    friend class Session;
    void tick(SteadyTime now);
    void ended(Session& session);
    void look_whether_drained();
    Task<> tell_in_background(std::shared_ptr<Held> held, Command command, Limits limits, std::string operation);

    std::shared_ptr<const LocalSite> site_;
    std::unordered_set<Session*> sessions_;
    std::atomic<std::size_t> connections_ = 0;
    std::size_t unsettled_ = 0;
    std::size_t unsettled_bytes_ = 0;
    bool draining_ = false;
    bool ending_ = false;
    std::function<void()> drained_;
    LeaseFigures seen_;
    std::size_t holding_seen_ = 0;
    asio::executor_work_guard<Executor> guard_{context_.get_executor()};
    std::thread thread_;
};

}  // namespace semel::gateway
