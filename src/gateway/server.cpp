#include "gateway/server.hpp"

#include <fmt/format.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/post.hpp>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <thread>

#include "gateway/admin.hpp"
#include "gateway/service_listener.hpp"
#include "gateway/session.hpp"
#include "gateway/site.hpp"
#include "gateway/tenant_key.hpp"
#include "gateway/worker.hpp"

namespace semel::gateway {
namespace {

using tcp = asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;

constexpr int backlog = 4096;
constexpr Duration accept_pause = milliseconds{50};
constexpr Duration abandon_within = seconds{3};

/// Small batches with rests between them: claims beside it hardly notice.
constexpr std::size_t sweep_batch = 100;
constexpr std::chrono::milliseconds sweep_rest{50};
constexpr std::chrono::seconds sweep_every{30};

bool restart_needed(const Config& now, const Config& next, std::string& what) {
    if (now.store != next.store)
        what = "store";
    else if (now.listen != next.listen)
        what = "listen";
    else if (now.admin != next.admin)
        what = "admin";
    else if (now.api != next.api)
        what = "api";
    else if (now.tenant != next.tenant)
        what = "tenant";
    else if (now.threads != next.threads)
        what = "threads";
    else if (now.log != next.log)
        what = "log";
    return !what.empty();
}

/// Sweeps until it is destroyed.
class Sweeper {
public:
    Sweeper(Store& store, Metrics& metrics, Logger& log)
        : store_(store), metrics_(metrics), log_(log), thread_([this] { run(); }) {}
    ~Sweeper() {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_one();
        thread_.join();
    }
    Sweeper(const Sweeper&) = delete;
    Sweeper& operator=(const Sweeper&) = delete;

private:
    void run() {
        std::unique_lock lock(mutex_);
        while (!stopping_) {
            lock.unlock();
            const bool more = sweep();
            lock.lock();
            const auto rest = more ? std::chrono::milliseconds(sweep_rest) : std::chrono::milliseconds(sweep_every);
            wake_.wait_for(lock, rest, [this] { return stopping_; });
        }
    }
    bool sweep() {
        const auto swept = store_.sweep(sweep_batch);
        if (!swept) {
            log_.write(std::move(LogLine(Log::Level::error, "sweep_failed").text("why", swept.failure().message)));
            return false;
        }
        metrics_.swept->Increment(static_cast<double>(swept->bodies_dropped + swept->removed));
        return swept->more;
    }

    Store& store_;
    Metrics& metrics_;
    Logger& log_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool stopping_ = false;  // guarded by mutex_
    std::thread thread_;
};

}  // namespace

// ---- the parts -------------------------------------------------------------------------------------------------

class Gateway::Parts {
public:
    Parts(Config config, Store& store, Logger& log, const MakeApi& make_api)
        : config_(std::move(config)),
          store_(store),
          log_(log),
          make_api_(make_api),
          acceptor_(front_),
          accept_again_(front_.get_executor()) {}

    ~Parts() {
        if (!stopped_) stop();
    }

    Status start() {
        if (auto checked = check_files(config_); !checked) return checked;
        auto committer = Committer::start(store_);
        if (!committer) return committer.failure();
        committer_ = std::move(*committer);
        if (config_.tenant.from != Tenant::From::none) {
            if (config_.tenant.secrets.empty())
                log_.write(std::move(
                    LogLine(Log::Level::warning, "tenant_secret_missing")
                        .text(
                            "why",
                            "tenant.secret is not set: the key of the tenants' hashes is kept in the store as it is")));
            auto key = tenant_key(*committer_, config_.tenant.secrets);
            if (!key) return key.failure();
            shared_.tenant_key = *key;
        }
        auto site = Site::make(config_, shared_);
        if (!site) return site.failure();
        if (config_.listen.tls) {
            auto tls = server_context(*config_.listen.tls);
            if (!tls) return tls.failure();
            tls_ = std::make_shared<asio::ssl::context>(std::move(*tls));
        }
        if (auto listening = listen(); !listening) return listening;
        std::size_t count = config_.threads;
        if (count == 0) count = std::max(1U, std::thread::hardware_concurrency());
        for (std::size_t i = 0; i < count; ++i) {
            workers_.push_back(std::make_unique<Worker>(*committer_, shared_, log_));
            if (auto used = workers_.back()->use(*site); !used) return used;
        }
        connections_max_ = config_.limits.connections_max;
        if (auto served = serve_ourselves(); !served) return served;
        for (const auto& worker : workers_) worker->start();
        sweeper_ = std::make_unique<Sweeper>(store_, shared_.metrics, log_);
        accept();
        front_thread_ = std::thread([this] { front_.run(); });
        return Done{};
    }

    Status reload(Config next) {
        std::string what;
        if (restart_needed(config_, next, what)) {
            shared_.metrics.reloads_refused->Increment();
            return Failure{Code::invalid,
                           fmt::format("reload {}: `{}` has changed, which takes a restart; nothing of the new "
                                       "file is in force",
                                       next.file, what)};
        }
        if (auto checked = check_files(next); !checked) {
            shared_.metrics.reloads_refused->Increment();
            return checked;
        }
        auto site = Site::make(next, shared_);
        if (!site) {
            shared_.metrics.reloads_refused->Increment();
            return site.failure();
        }
        for (const auto& worker : workers_) {
            std::promise<Status> done;
            asio::post(worker->context(), [&] { done.set_value(worker->use(*site)); });
            if (auto used = done.get_future().get(); !used) return used;
        }
        config_ = std::move(next);
        connections_max_ = config_.limits.connections_max;
        shared_.metrics.reloads->Increment();
        return Done{};
    }

    Stopped stop() {
        stopped_ = true;
        Stopped result;
        draining_ = true;
        asio::post(front_, [this] {
            Error ignored;
            acceptor_.close(ignored);
            accept_again_.cancel();
        });
        if (front_thread_.joinable()) front_thread_.join();
        if (!workers_.empty() && front_started_) {
            result.in_time = everybody(
                config_.drain, [](Worker& worker, std::function<void()> done) { worker.drain(std::move(done)); });
            if (!result.in_time) {
                result.abandoned = holding();
                everybody(abandon_within + seconds{1}, [](Worker& worker, std::function<void()> done) {
                    worker.abandon(abandon_within, std::move(done));
                });
            }
        }
        for (const auto& worker : workers_) worker->join();
        sweeper_.reset();
        api_listener_.reset();
        admin_listener_.reset();
        pages_.reset();
        committer_.reset();  // gives its last answers to workers and API
        api_.reset();
        workers_.clear();
        return result;
    }

    [[nodiscard]] Address address() const { return bound_; }
    [[nodiscard]] std::optional<Address> admin_address() const {
        return admin_listener_ ? std::optional(admin_listener_->address()) : std::nullopt;
    }
    [[nodiscard]] std::optional<Address> api_address() const {
        if (!api_) return std::nullopt;
        return api_listener_ ? api_listener_->address() : admin_address();
    }

    std::string metrics() {
        const std::lock_guard lock(figures_mutex_);
        const CommitterFigures now = committer_->figures();
        shared_.metrics.store_batches->Increment(static_cast<double>(now.batches - figures_.batches));
        shared_.metrics.store_commands->Increment(static_cast<double>(now.groups - figures_.groups));
        shared_.metrics.store_repeats->Increment(static_cast<double>(now.repeats - figures_.repeats));
        figures_ = now;
        shared_.metrics.connections->Set(static_cast<double>(connections()));
        return shared_.metrics.text() + (api_ ? api_->metrics() : std::string());
    }

private:
    /// The admin pages and the Ledger API, on one listener or on two.
    Status serve_ourselves() {
        if (config_.api && make_api_) api_ = make_api_(*config_.api, *committer_);
        const auto refused = [this] { shared_.metrics.own_connections_refused->Increment(); };
        std::vector<http::Service*> on_admin;
        if (api_ && config_.api->listen) {
            auto made = ServiceListener::start(
                {"api.listen", config_.api->listen->address, config_.api->listen->tls, refused}, {api_.get()});
            if (!made) return made.failure();
            api_listener_ = std::move(*made);
        } else if (api_) {
            on_admin.push_back(api_.get());
        }
        if (!config_.admin) return Done{};
        const Admin& admin = *config_.admin;
        const bool certified = admin.tls && !admin.tls->client_ca.empty() && admin.tls->client_certificate_required;
        if (!admin.address.loopback() && admin.token.empty() && !certified)
            return Failure{Code::invalid,
                           fmt::format("admin {}: off loopback it needs admin.token or admin.tls.client_ca",
                                       admin.address.text())};
        pages_ = std::make_unique<AdminPages>(
            admin, store_, log_, [this] { return metrics(); }, [this] { return draining_.load(); });
        on_admin.push_back(pages_.get());
        auto made = ServiceListener::start({"admin", admin.address, admin.tls, refused}, std::move(on_admin));
        if (!made) return made.failure();
        admin_listener_ = std::move(*made);
        return Done{};
    }

    Status listen() {
        const Address& at = config_.listen.address;
        const auto failed = [&](const Error& error) {
            return Failure{Code::invalid, fmt::format("listen {}: {}", at.text(), error.message())};
        };
        Error error;
        const tcp::endpoint endpoint(asio::ip::make_address(at.host, error), at.port);
        if (error) return failed(error);
        acceptor_.open(endpoint.protocol(), error);
        if (error) return failed(error);
        acceptor_.set_option(asio::socket_base::reuse_address(true), error);
        acceptor_.bind(endpoint, error);
        if (error) return failed(error);
        acceptor_.listen(backlog, error);
        if (error) return failed(error);
        const auto local = acceptor_.local_endpoint(error);
        bound_ = Address{local.address().to_string(), local.port()};
        return Done{};
    }

    void accept() {
        front_started_ = true;
        Worker& worker = *workers_[turn_++ % workers_.size()];
        acceptor_.async_accept(worker.context(), [this, &worker](const Error& error, Socket socket) {
            if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
            if (error) {
                // Out of descriptors, most likely: those who are served go on, and new ones wait in the kernel.
                accept_again_.expires_after(accept_pause);
                accept_again_.async_wait([this](const Error& stopped) {
                    if (!stopped) accept();
                });
                return;
            }
            if (connections() >= connections_max_) {
                shared_.metrics.connections_refused->Increment();
                Error ignored;
                socket.close(ignored);
            } else {
                shared_.metrics.connections_accepted->Increment();
                worker.serve(std::move(socket), tls_);
            }
            accept();
        });
    }

    [[nodiscard]] std::size_t connections() const {
        std::size_t all = 0;
        for (const auto& worker : workers_) all += worker->connections();
        return all;
    }

    std::size_t holding() {
        auto all = std::make_shared<std::atomic<std::size_t>>(0);
        everybody(seconds{1}, [all](Worker& worker, std::function<void()> done) {
            asio::post(worker.context(), [all, &worker, done = std::move(done)] {
                *all += worker.calls.holding();
                done();
            });
        });
        return *all;
    }

    /// Whether all workers were done in time.
    template <class Ask>
    bool everybody(Duration within, Ask ask) {
        struct Count {
            std::mutex mutex;
            std::condition_variable done;
            std::size_t left;
        };
        auto count = std::make_shared<Count>();
        count->left = workers_.size();
        for (const auto& worker : workers_)
            ask(*worker, [count] {
                const std::lock_guard lock(count->mutex);
                --count->left;
                count->done.notify_one();
            });
        std::unique_lock lock(count->mutex);
        return count->done.wait_for(lock, within, [&] { return count->left == 0; });
    }

    Config config_;
    Store& store_;
    Logger& log_;
    MakeApi make_api_;
    Shared shared_;
    asio::io_context front_{1};
    Acceptor acceptor_;
    SteadyTimer accept_again_;
    std::shared_ptr<asio::ssl::context> tls_;
    Address bound_;
    std::unique_ptr<http::Service> api_;  // hears the committer's last answers, and so outlives it
    std::unique_ptr<Committer> committer_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::size_t turn_ = 0;
    std::unique_ptr<Sweeper> sweeper_;
    std::unique_ptr<AdminPages> pages_;
    std::unique_ptr<ServiceListener> admin_listener_;
    std::unique_ptr<ServiceListener> api_listener_;
    std::thread front_thread_;
    std::mutex figures_mutex_;
    CommitterFigures figures_;  // guarded by figures_mutex_
    std::atomic<std::size_t> connections_max_ = 0;
    std::atomic<bool> draining_ = false;
    bool front_started_ = false;
    bool stopped_ = false;
};

// ---- the gateway -----------------------------------------------------------------------------------------------

Result<std::unique_ptr<Gateway>> Gateway::start(Config config, Store& store, Logger& log, const MakeApi& make_api) {
    auto parts = std::make_unique<Parts>(std::move(config), store, log, make_api);
    if (auto started = parts->start(); !started) return started.failure();
    return std::unique_ptr<Gateway>(new Gateway(std::move(parts)));
}

Gateway::Gateway(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Gateway::~Gateway() = default;
Address Gateway::address() const { return parts_->address(); }
std::optional<Address> Gateway::admin_address() const { return parts_->admin_address(); }
std::optional<Address> Gateway::api_address() const { return parts_->api_address(); }
Status Gateway::reload(Config config) { return parts_->reload(std::move(config)); }
Stopped Gateway::stop() { return parts_->stop(); }
std::string Gateway::metrics() const { return parts_->metrics(); }

Status check_files(const Config& config) {
    const auto check_server = [](const std::optional<ServerTls>& tls) -> Status {
        if (!tls) return Done{};
        const auto made = server_context(*tls);
        if (!made) return made.failure();
        return Done{};
    };
    if (auto checked = check_server(config.listen.tls); !checked) return checked;
    if (config.admin)
        if (auto checked = check_server(config.admin->tls); !checked) return checked;
    if (config.api && config.api->listen)
        if (auto checked = check_server(config.api->listen->tls); !checked) return checked;
    const auto check_client = [](const Upstream& upstream) -> Status {
        const auto made = client_context(upstream.tls);
        if (!made) return made.failure();
        return Done{};
    };
    if (auto checked = check_client(config.upstream); !checked) return checked;
    for (const Route& route : config.routes)
        if (route.upstream)
            if (auto checked = check_client(*route.upstream); !checked) return checked;
    Shared trial;
    const auto site = Site::make(config, trial);
    if (!site) return site.failure();
    return Done{};
}

}  // namespace semel::gateway
