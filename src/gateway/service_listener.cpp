#include "gateway/service_listener.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "gateway/deadlines.hpp"
#include "gateway/net.hpp"
#include "gateway/upstream.hpp"
#include "http/body.hpp"
#include "http/writer.hpp"

namespace semel::gateway {
namespace {

using tcp = asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;
using http::Problem;
using http::Progress;
using http::Reply;

constexpr std::size_t buffer_bytes = 16 * 1024;
constexpr Duration accept_pause = milliseconds{50};
constexpr Duration linger_for = seconds{1};
constexpr std::size_t linger_bytes_max = 256 * 1024;

Reply problem(Problem what, std::string_view detail, std::optional<int> status = {}) {
    return Reply::of(http::answer(what, {.detail = detail, .status = status}));
}

Reply refused(http::Fault fault) {
    const int status = http::status(fault);
    return problem(status == 413 ? Problem::request_too_large : Problem::request_malformed, http::message(fault),
                   status);
}

/// Where answers from other threads go, until the listener has ended.
class Inbox {
public:
    explicit Inbox(asio::io_context& context) : context_(&context) {}
    template <class Work>
    void post(Work work) {
        const std::lock_guard lock(mutex_);
        if (context_ != nullptr) asio::post(*context_, std::move(work));
    }
    void close() {
        const std::lock_guard lock(mutex_);
        context_ = nullptr;
    }

private:
    std::mutex mutex_;
    asio::io_context* context_;  // guarded by mutex_
};

/// One request that waits for its answer.
struct Turn {
    explicit Turn(const Executor& executor) : changed(executor, SteadyTime::max()) {}
    SteadyTimer changed;  ///< never expires: cancelled when something has happened
    std::optional<http::MakeReply> made;
    bool gone = false;  ///< the client has hung up
    bool late = false;
};

/// Whether the peer has closed its side. Bytes it sent before say nothing: another request, or the end of TLS.
bool hung_up(Socket& socket) {
    pollfd look{socket.native_handle(), POLLRDHUP, 0};
    return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/// One client's connection.
struct Visit {
    Visit(Stream from, Deadlines& deadlines)
        : stream(std::move(from)), deadline(deadlines, [this] { stream.cancel(); }) {}

    Stream stream;
    Deadline deadline;  ///< cancels what is pending
    http::RequestReader reader;
    std::string buffer = std::string(buffer_bytes, '\0');
    std::string_view left{};  ///< of the buffer, not read yet
    std::string body{};
    bool idle = true;
    bool fresh = true;  ///< nothing has been asked yet
};

}  // namespace

class ServiceListener::Parts {
public:
    Parts(ServiceListenerOptions options, std::vector<http::Service*> services)
        : options_(std::move(options)), services_(std::move(services)), acceptor_(context_) {}

    ~Parts() {
        if (thread_.joinable()) {
            asio::post(context_, [this] { stop(); });
            all_left_.get_future().wait_for(end_timeout);
        }
        inbox_->close();
        context_.stop();
        if (thread_.joinable()) thread_.join();
    }

    Status start() {
        if (options_.tls) {
            auto tls = server_context(*options_.tls);
            if (!tls) return tls.failure();
            tls_.emplace(std::move(*tls));
        }
        Error error;
        const auto failed_to = [&](const Error& why) {
            return Failure{Code::invalid,
                           fmt::format("{} {}: {}", options_.setting, options_.address.text(), why.message())};
        };
        const tcp::endpoint endpoint(asio::ip::make_address(options_.address.host, error), options_.address.port);
        if (error) return failed_to(error);
        acceptor_.open(endpoint.protocol(), error);
        if (error) return failed_to(error);
        acceptor_.set_option(asio::socket_base::reuse_address(true), error);
        acceptor_.bind(endpoint, error);
        if (error) return failed_to(error);
        acceptor_.listen(asio::socket_base::max_listen_connections, error);
        if (error) return failed_to(error);
        bound_ = Address{options_.address.host, acceptor_.local_endpoint(error).port()};
        deadlines_.start({});
        asio::co_spawn(context_.get_executor(), accept(), asio::detached);
        thread_ = std::thread([this] { context_.run(); });
        return Done{};
    }

    [[nodiscard]] const Address& address() const { return bound_; }

private:
    Task<> accept() {
        while (!stopping_) {
            auto [error, socket] = co_await acceptor_.async_accept(as_tuple);
            if (stopping_) break;
            if (error) {
                // Out of descriptors, most likely: those who are served go on, and new ones wait in the kernel.
                SteadyTimer pause(context_.get_executor(), accept_pause);
                co_await pause.async_wait(as_tuple);
                continue;
            }
            if (visits_.size() >= connections_max) {
                if (options_.refused) options_.refused();
                continue;
            }
            socket.set_option(tcp::no_delay(true), error);
            Socket moved(std::move(socket));
            auto visit =
                std::make_shared<Visit>(tls_ ? Stream(std::move(moved), *tls_) : Stream(std::move(moved)), deadlines_);
            visits_.insert(visit.get());
            asio::co_spawn(context_.get_executor(), serve(std::move(visit)), asio::detached);
        }
    }

    void stop() {
        stopping_ = true;
        Error ignored;
        acceptor_.close(ignored);
        for (Visit* const each : visits_)
            if (each->idle) each->stream.cancel();
        if (visits_.empty()) all_left_.set_value();
    }

    void leave(Visit& visit) {
        visits_.erase(&visit);
        if (stopping_ && visits_.empty()) all_left_.set_value();
    }

    Task<> serve(std::shared_ptr<Visit> visit) {
        bool goes_on = true;
        if (visit->stream.tls() != nullptr) {
            visit->idle = false;
            visit->deadline.arm(request_timeout);
            const auto [error] =
                co_await visit->stream.tls()->async_handshake(asio::ssl::stream_base::server, as_tuple);
            goes_on = !error;
        }
        while (goes_on && !stopping_) goes_on = co_await one_request(*visit);
        visit->stream.close();
        leave(*visit);
    }

    // ---- reading ---------------------------------------------------------------------------------------------------

    static Task<bool> fill(Visit& visit) {
        const auto [error, got] =
            co_await visit.stream.read_some(asio::buffer(visit.buffer.data(), visit.buffer.size()));
        if (error) co_return false;
        visit.left = std::string_view(visit.buffer.data(), got);
        co_return true;
    }

    /// False: there is no whole head; if it was late or refused, that has been answered.
    Task<bool> read_head(Visit& visit) {
        visit.reader.reset();
        visit.idle = visit.left.empty();
        visit.deadline.arm(visit.idle && !visit.fresh ? idle_timeout : request_timeout);
        visit.fresh = false;
        while (visit.reader.progress() == Progress::more) {
            if (visit.left.empty() && !co_await fill(visit)) {
                visit.idle = false;
                if (visit.deadline.expired() && visit.reader.head_bytes() > 0) co_await answer_late(visit);
                co_return false;
            }
            if (visit.idle) visit.deadline.arm(request_timeout);
            visit.idle = false;
            visit.left.remove_prefix(visit.reader.feed(visit.left).used);
        }
        if (visit.reader.progress() == Progress::done) co_return true;
        Reply reply = refused(visit.reader.fault());
        co_await last_words(visit, std::move(reply));
        co_return false;
    }

    Task<bool> read_body(Visit& visit, std::size_t bytes_max) {
        visit.body.clear();
        http::BodyReader reader(visit.reader.head().framing,
                                {.body_bytes_max = bytes_max, .trailers = http::Trailers::refuse});
        if (reader.progress() == Progress::more && visit.reader.head().expect_continue) {
            const auto [error, sent] = co_await visit.stream.write("HTTP/1.1 100 Continue\r\n\r\n");
            if (error) co_return false;
        }
        while (reader.progress() == Progress::more) {
            if (visit.left.empty() && !co_await fill(visit)) {
                if (visit.deadline.expired()) co_await answer_late(visit);
                co_return false;
            }
            const http::BodyStep step = reader.feed(visit.left);
            visit.body.append(step.data);
            visit.left.remove_prefix(step.used);
        }
        if (reader.progress() == Progress::done) co_return true;
        Reply reply = refused(reader.fault());
        co_await last_words(visit, std::move(reply));
        co_return false;
    }

    // ---- answering -------------------------------------------------------------------------------------------------

    /// Whether the connection goes on.
    Task<bool> one_request(Visit& visit) {
        const bool whole = co_await read_head(visit);
        if (!whole) co_return false;
        const http::RequestHead& head = visit.reader.head();
        http::Service* const service = service_of(head.target.path);
        if (service == nullptr) {
            Reply reply = problem(Problem::no_route, "nothing is served at this path");
            co_return co_await without_body(visit, std::move(reply));
        }
        auto admitted = service->admit(head);
        if (auto* const reply = std::get_if<Reply>(&admitted))
            co_return co_await without_body(visit, std::move(*reply));
        const bool arrived = co_await read_body(visit, std::get<std::size_t>(admitted));
        if (!arrived) co_return false;
        visit.deadline.disarm();
        auto turn = std::make_shared<Turn>(context_.get_executor());
        Reply reply = co_await wait(visit, *service, turn);
        // Looked at once more: what is written to somebody who has just left looks as if it had been delivered.
        if (turn->gone || (reply.undelivered && hung_up(visit.stream.socket()))) {
            if (reply.undelivered) reply.undelivered();
            co_return false;
        }
        const bool goes_on = head.keep_alive && !stopping_;
        co_return co_await write(visit, std::move(reply), goes_on);
    }

    http::Service* service_of(std::string_view path) const {
        for (http::Service* const each : services_)
            if (each->serves(path)) return each;
        return nullptr;
    }

    /// The answer, or what is said instead of one that did not come in time.
    Task<Reply> wait(Visit& visit, http::Service& service, std::shared_ptr<Turn> turn) {
        Deadline late(deadlines_, [turn] {
            turn->late = true;
            turn->changed.cancel();
        });
        late.arm(service.within());
        // Weakly: the service may keep this for longer than there is a context that the turn's timer belongs to.
        std::move_only_function<void(http::MakeReply)> done = [inbox = inbox_,
                                                               asked = std::weak_ptr(turn)](http::MakeReply make) {
            inbox->post([asked, make = std::move(make)]() mutable {
                const auto waiting = asked.lock();
                if (!waiting) return;
                waiting->made = std::move(make);
                waiting->changed.cancel();
            });
        };
        const auto pending = service.answer(visit.reader.head(), std::move(visit.body), std::move(done));
        // Every tick: the socket stays readable while another request waits in it, so that nothing would tell of the end.
        Deadline watch(deadlines_, [turn, &visit] {
            if (!hung_up(visit.stream.socket())) return;
            turn->gone = true;
            turn->changed.cancel();
        });
        watch.arm(Duration{0});
        std::optional<Reply> instead;
        while (!turn->made) {
            // Asked again every tick, since both deadlines go on: an answer on its way may have come upon a slow store.
            if (turn->gone || turn->late) instead = pending->give_up();
            if (instead) break;
            co_await turn->changed.async_wait(as_tuple);
        }
        if (instead) co_return std::move(*instead);
        co_return (*turn->made)();
    }

    /// A reply to a head whose body, if there is one, is not read. A stranger's connection is not kept: there is room for
    /// connections_max, and those who hold something need it to renew.
    Task<bool> without_body(Visit& visit, Reply reply) {
        if (!visit.reader.head().framing.empty() || reply.status == 401) {
            co_await last_words(visit, std::move(reply));
            co_return false;
        }
        co_return co_await write(visit, std::move(reply), visit.reader.head().keep_alive && !stopping_);
    }

    Task<> answer_late(Visit& visit) {
        Reply reply = problem(Problem::request_timeout, "the request did not arrive in time");
        co_await last_words(visit, std::move(reply));
    }

    /// A reply after which nothing more is read as a request: what the client still sends is thrown away for a moment, so
    /// that it gets to read the reply.
    Task<> last_words(Visit& visit, Reply reply) {
        co_await write(visit, std::move(reply), false);
        Error ignored;
        visit.stream.socket().shutdown(asio::socket_base::shutdown_send, ignored);
        visit.deadline.arm(linger_for);
        for (std::size_t dropped = 0; dropped < linger_bytes_max && !visit.deadline.expired();) {
            const auto [error, got] = co_await visit.stream.socket().async_read_some(
                asio::buffer(visit.buffer.data(), visit.buffer.size()), as_tuple);
            if (error) break;
            dropped += got;
        }
    }

    /// Whether it was written whole and the connection goes on.
    Task<bool> write(Visit& visit, Reply reply, bool goes_on) {
        const bool known = visit.reader.progress() == Progress::done;
        const bool old = known && visit.reader.head().version == http::Version::http_1_0;
        const bool head_only = known && visit.reader.head().method == http::Method::head;
        using Persistence = http::HeadWriter::Persistence;
        const Persistence persistence = !goes_on ? Persistence::close
                                        : old    ? Persistence::keep_alive
                                                 : Persistence::unsaid;
        std::string out;
        http::HeadWriter head(out);
        head.status_line(reply.status).field("Content-Type", reply.type).field("Cache-Control", "no-store");
        for (const auto& [name, value] : reply.fields) head.field(name, value);
        bool written = head.end(http::Framing::of_length(reply.body.size()), persistence) == http::Fault::none;
        if (written) {
            visit.deadline.arm(write_timeout);
            const std::string_view body = head_only ? std::string_view() : std::string_view(reply.body);
            const auto [error, sent] = co_await visit.stream.write(out, body);
            visit.deadline.disarm();
            written = !error;
        }
        if (!written && reply.undelivered) reply.undelivered();
        co_return written&& goes_on;
    }

    ServiceListenerOptions options_;
    std::vector<http::Service*> services_;
    asio::io_context context_{1};
    std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>(context_);
    Deadlines deadlines_{context_};
    Acceptor acceptor_;
    std::optional<asio::ssl::context> tls_;
    Address bound_;
    std::set<Visit*> visits_;
    std::promise<void> all_left_;
    bool stopping_ = false;
    std::thread thread_;
};

Result<std::unique_ptr<ServiceListener>> ServiceListener::start(const ServiceListenerOptions& options,
                                                                std::vector<http::Service*> services) {
    auto parts = std::make_unique<Parts>(options, std::move(services));
    if (auto started = parts->start(); !started) return started.failure();
    return std::unique_ptr<ServiceListener>(new ServiceListener(std::move(parts)));
}

ServiceListener::ServiceListener(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
ServiceListener::~ServiceListener() = default;
Address ServiceListener::address() const { return parts_->address(); }

}  // namespace semel::gateway
