#include "gateway/worker.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>

#include "gateway/session.hpp"

namespace semel::gateway {
namespace {

constexpr Duration tell_again_first = milliseconds{100};
constexpr Duration tell_again_max = seconds{2};

std::size_t bytes_of(const Command& command) {
    const auto* const settle = std::get_if<Settle>(&command);
    return settle == nullptr ? 0 : settle->outcome.body.size();
}

}  // namespace

Worker::Worker(Committer& committer, Shared& shared_with_all, Logger& logger)
    : calls(context_, deadlines, committer), shared(shared_with_all), log(logger) {}

Worker::~Worker() {
    // Coroutines refer to everything here: they go first.
    calls.forget();
    context_.destroy_pending();
}

Status Worker::use(std::shared_ptr<const Site> site) {
    auto local = std::make_shared<LocalSite>();
    for (const Upstream& upstream : site->upstreams()) {
        std::shared_ptr<UpstreamPool> pool;
        if (site_)
            for (const auto& known : site_->pools)
                if (known->config() == upstream) pool = known;
        if (!pool) {
            auto made = UpstreamPool::make(context_, deadlines, upstream);
            if (!made) return made.failure();
            pool = std::move(*made);
        }
        local->pools.push_back(std::move(pool));
    }
    local->site = std::move(site);
    site_ = std::move(local);
    return Done{};
}

void Worker::start() {
    deadlines.start([this](SteadyTime now) { tick(now); });
    thread_ = std::thread([this] { context_.run(); });
}

void Worker::join() {
    context_.stop();
    if (thread_.joinable()) thread_.join();
}

void Worker::serve(Socket socket, std::shared_ptr<asio::ssl::context> tls) {
    ++connections_;
    asio::post(context_, [this, socket = std::move(socket), tls = std::move(tls)]() mutable {
        Error ignored;
        socket.set_option(asio::ip::tcp::no_delay(true), ignored);
        auto session = std::make_shared<Session>(
            *this, tls ? Stream(std::move(socket), *tls) : Stream(std::move(socket)), std::move(tls));
        if (draining_) return;
        asio::co_spawn(context_.get_executor(), session->run(), asio::detached);
    });
}

void Worker::ended(Session& session) {
    sessions_.erase(&session);
    --connections_;
    look_whether_drained();
}

void Worker::look_whether_drained() {
    if (!drained_ || !sessions_.empty() || calls.holding() > 0) return;
    std::exchange(drained_, nullptr)();
}

void Worker::drain(std::function<void()> done) {
    asio::post(context_, [this, done = std::move(done)]() mutable {
        draining_ = true;
        drained_ = std::move(done);
        for (Session* const session : sessions_) session->drain();
        look_whether_drained();
    });
}

void Worker::abandon(Duration within, std::function<void()> done) {
    asio::post(context_, [this, within, done = std::move(done)]() mutable {
        drained_ = nullptr;
        ending_ = true;
        calls.abandon_all(within, std::move(done));
    });
}

void Worker::tick(SteadyTime now) {
    calls.tick(now);
    for (const auto& pool : site_->pools) pool->tick(now);
    const LeaseFigures& figures = calls.figures();
    if (figures.renewed > seen_.renewed)
        shared.metrics.leases_renewed->Increment(static_cast<double>(figures.renewed - seen_.renewed));
    seen_ = figures;
    shared.metrics.leases->Increment(static_cast<double>(calls.holding()) - static_cast<double>(holding_seen_));
    holding_seen_ = calls.holding();
    look_whether_drained();
}

// ---- what the ledger could not be told in time -----------------------------------------------------------------

bool Worker::tell_later(const std::shared_ptr<Held>& held, Command command, const Limits& limits,
                        std::string operation) {
    const std::size_t bytes = bytes_of(command);
    if (unsettled_ >= limits.unsettled_max || unsettled_bytes_ + bytes > limits.unsettled_bytes_max) {
        shared.metrics.settles_given_up->Increment();
        return false;
    }
    ++unsettled_;
    unsettled_bytes_ += bytes;
    shared.metrics.unsettled->Increment();
    asio::co_spawn(context_.get_executor(), tell_in_background(held, std::move(command), limits, std::move(operation)),
                   asio::detached);
    return true;
}

Task<> Worker::tell_in_background(std::shared_ptr<Held> held, Command command, Limits limits, std::string operation) {
    const SteadyTime until = std::chrono::steady_clock::now() + limits.settle_timeout;
    Duration pause = tell_again_first;
    bool told = false;
    // Short calls, so that nothing outlives a shutdown for long; each repeats the same command (I6).
    while (!told && !held->abandoned && std::chrono::steady_clock::now() < until) {
        SteadyTimer timer(context_.get_executor(), pause);
        co_await timer.async_wait(as_tuple);
        pause = std::min(pause * 2, tell_again_max);
        Command again = command;
        const Result<HolderAnswer> answer = co_await calls.tell(std::move(again), limits.settle_answer);
        told = answer.ok();
    }
    if (!told) shared.metrics.settles_given_up->Increment();
    LogLine line(told ? Log::Level::info : Log::Level::error, told ? "settled_late" : "settle_given_up");
    log.write(std::move(line.text("operation", operation)));
    --unsettled_;
    unsettled_bytes_ -= bytes_of(command);
    shared.metrics.unsettled->Decrement();
    calls.let_go(held);
}

}  // namespace semel::gateway
