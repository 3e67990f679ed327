#include "gateway/admin.hpp"

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <charconv>
#include <thread>

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "gateway/crypto.hpp"
#include "gateway/deadlines.hpp"
#include "gateway/net.hpp"
#include "gateway/upstream.hpp"
#include "http/problem.hpp"
#include "http/request.hpp"
#include "http/writer.hpp"
#include "ledger/record_json.hpp"

namespace semel::gateway {
namespace {

using tcp = asio::ip::tcp;
using Acceptor = asio::basic_socket_acceptor<tcp, Executor>;
using http::Problem;

constexpr Duration request_timeout = seconds{10};
constexpr std::size_t list_max = 1000;
constexpr std::size_t list_default = 100;

struct Reply {
    int status = 200;
    std::string type = "application/json";
    std::string body{};
};

Reply problem(Problem what, std::string_view detail, int status) {
    http::ProblemAnswer made = http::answer(what, {.detail = detail, .status = status});
    return {made.status, std::string(http::problem_content_type), std::move(made.body)};
}

Reply failed(const Failure& failure) { return problem(Problem::store_unavailable, failure.message, 503); }
Reply bad(std::string_view detail) { return problem(Problem::request_malformed, detail, 400); }

/// Percent-encodings and '+' decoded.
std::optional<std::string> decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%') {
            const auto byte = from_hex(text.substr(i + 1, 2));
            if (!byte || byte->size() != 1) return std::nullopt;
            out += *byte;
            i += 2;
        } else {
            out += text[i] == '+' ? ' ' : text[i];
        }
    }
    return out;
}

/// The parameters of a query, each at most once.
class Query {
public:
    static std::optional<Query> parse(std::string_view text) {
        Query query;
        while (!text.empty()) {
            const std::string_view part = text.substr(0, text.find('&'));
            text.remove_prefix(std::min(text.size(), part.size() + 1));
            if (part.empty()) continue;
            const auto equals = part.find('=');
            const auto name = decoded(part.substr(0, equals));
            const auto value = equals == std::string_view::npos ? std::string() : decoded(part.substr(equals + 1));
            if (!name || !value || query.find(*name)) return std::nullopt;
            query.all_.emplace_back(*name, *value);
        }
        return query;
    }
    [[nodiscard]] std::optional<std::string> find(std::string_view name) const {
        for (const auto& [known, value] : all_)
            if (known == name) return value;
        return std::nullopt;
    }
    /// The first name that is not one of these.
    [[nodiscard]] std::optional<std::string> unknown(std::initializer_list<std::string_view> known) const {
        for (const auto& [name, value] : all_)
            if (std::ranges::find(known, name) == known.end()) return name;
        return std::nullopt;
    }

private:
    std::vector<std::pair<std::string, std::string>> all_;
};

std::optional<State> state_of(std::string_view text) {
    for (const State state : {State::running, State::unknown, State::settled})
        if (name(state) == text) return state;
    return std::nullopt;
}

}  // namespace

// ---- the server ------------------------------------------------------------------------------------------------

class AdminServer::Parts {
public:
    Parts(const Admin& admin, Store& store, Logger& log, std::function<std::string()> metrics,
          std::function<bool()> draining)
        : admin_(admin),
          store_(store),
          log_(log),
          metrics_(std::move(metrics)),
          draining_(std::move(draining)),
          acceptor_(context_) {}

    ~Parts() {
        context_.stop();
        if (thread_.joinable()) thread_.join();
    }

    Status start() {
        if (!admin_.address.loopback() && admin_.token.empty() &&
            (!admin_.tls || admin_.tls->client_ca.empty() || !admin_.tls->client_certificate_required))
            return Failure{Code::invalid,
                           fmt::format("admin {}: off loopback it needs admin.token or admin.tls.client_ca",
                                       admin_.address.text())};
        if (admin_.tls) {
            auto tls = server_context(*admin_.tls);
            if (!tls) return tls.failure();
            tls_.emplace(std::move(*tls));
        }
        Error error;
        const auto failed_to = [&](const Error& why) {
            return Failure{Code::invalid, fmt::format("admin {}: {}", admin_.address.text(), why.message())};
        };
        const tcp::endpoint endpoint(asio::ip::make_address(admin_.address.host, error), admin_.address.port);
        if (error) return failed_to(error);
        acceptor_.open(endpoint.protocol(), error);
        if (error) return failed_to(error);
        acceptor_.set_option(asio::socket_base::reuse_address(true), error);
        acceptor_.bind(endpoint, error);
        if (error) return failed_to(error);
        acceptor_.listen(asio::socket_base::max_listen_connections, error);
        if (error) return failed_to(error);
        bound_ = Address{admin_.address.host, acceptor_.local_endpoint(error).port()};
        deadlines_.start({});
        asio::co_spawn(context_.get_executor(), accept(), asio::detached);
        thread_ = std::thread([this] { context_.run(); });
        return Done{};
    }

    [[nodiscard]] const Address& address() const { return bound_; }

private:
    Task<> accept() {
        while (true) {
            auto [error, socket] = co_await acceptor_.async_accept(as_tuple);
            if (error) {
                SteadyTimer pause(context_.get_executor(), milliseconds{50});
                co_await pause.async_wait(as_tuple);
                continue;
            }
            if (open_ >= connections_max) continue;
            Socket moved(std::move(socket));
            asio::co_spawn(context_.get_executor(),
                           serve(tls_ ? std::make_shared<Stream>(std::move(moved), *tls_)
                                      : std::make_shared<Stream>(std::move(moved))),
                           asio::detached);
        }
    }

    /// One request, and the connection is closed: nobody asks often.
    Task<> serve(std::shared_ptr<Stream> stream) {
        ++open_;
        Deadline deadline(deadlines_, [stream] { stream->cancel(); });
        deadline.arm(request_timeout);
        bool ready = true;
        if (stream->tls() != nullptr) {
            const auto [error] = co_await stream->tls()->async_handshake(asio::ssl::stream_base::server, as_tuple);
            ready = !error;
        }
        http::RequestReader reader;
        std::string buffer(4096, '\0');
        while (ready && reader.progress() == http::Progress::more) {
            const auto [error, got] = co_await stream->read_some(asio::buffer(buffer.data(), buffer.size()));
            ready = !error;
            if (ready) reader.feed({buffer.data(), got});
        }
        if (ready) {
            const Reply reply =
                reader.progress() == http::Progress::done ? answer(reader.head()) : bad(http::message(reader.fault()));
            std::string out;
            http::HeadWriter writer(out);
            writer.status_line(reply.status).field("Content-Type", reply.type).field("Cache-Control", "no-store");
            if (reply.status == 401) writer.field("WWW-Authenticate", "Bearer");
            if (writer.end(http::Framing::of_length(reply.body.size()), http::HeadWriter::Persistence::close) ==
                http::Fault::none) {
                const bool head_only =
                    reader.progress() == http::Progress::done && reader.head().method == http::Method::head;
                co_await stream->write(out, head_only ? std::string_view() : std::string_view(reply.body));
            }
        }
        Error ignored;
        stream->socket().shutdown(asio::socket_base::shutdown_send, ignored);
        stream->close();
        --open_;
    }

    Reply answer(const http::RequestHead& head) {
        if (head.method != http::Method::get && head.method != http::Method::head)
            return problem(Problem::request_malformed, "only GET is served here", 405);
        const std::string_view path = head.target.path;
        if (path == "/healthz") return {.type = "text/plain", .body = "ok\n"};
        if (path == "/readyz") return ready();
        if (!admin_.token.empty() && !authorized(head))
            return problem(Problem::tenant_missing, "Authorization: Bearer with admin.token is needed", 401);
        if (path == "/metrics") return {.type = "text/plain; version=0.0.4", .body = metrics_()};
        const auto query = Query::parse(head.target.query);
        if (!query) return bad("the query has a parameter twice, or a broken percent-encoding");
        if (path == "/operations") return list(*query);
        if (path == "/operation") return by_name(*query);
        if (path.starts_with("/operations/")) return by_id(path.substr(std::string_view("/operations/").size()));
        return problem(Problem::no_route, "here are /healthz, /readyz, /metrics, /operations and /operation", 404);
    }

    [[nodiscard]] bool authorized(const http::RequestHead& head) const {
        const auto given = head.fields.value("Authorization");
        if (!given || head.fields.count("Authorization") != 1 || !http::name_starts_with(*given, "Bearer "))
            return false;
        return same_bytes(given->substr(7), admin_.token);
    }

    Reply ready() {
        if (draining_()) return {503, "text/plain", "draining\n"};
        if (const auto now = store_.now(); !now) {
            log_.write(std::move(LogLine(Log::Level::error, "not_ready").text("why", now.failure().message)));
            return {503, "text/plain", "the store can not be reached\n"};
        }
        return {.type = "text/plain", .body = "ready\n"};
    }

    Reply show(const OperationId& id) {
        const auto found = store_.find(id);
        if (!found) return failed(found.failure());
        if (!*found) return problem(Problem::no_route, "no such operation", 404);
        const auto now = store_.now();
        if (!now) return failed(now.failure());
        JsonWriter json;
        write_record(json, **found, *now);
        return {.body = json.text() + "\n"};
    }

    Reply by_id(std::string_view text) {
        const auto bytes = from_hex(text);
        OperationId id;
        if (!bytes || bytes->size() != id.bytes.size()) return bad("an operation's id has 32 hex digits");
        std::ranges::copy(*bytes, reinterpret_cast<char*>(id.bytes.data()));
        return show(id);
    }

    Reply by_name(const Query& query) {
        if (const auto unknown = query.unknown({"scope", "key"})) return bad("parameters: scope, key");
        auto scope = Scope::parse(query.find("scope").value_or(""));
        if (!scope) return bad(scope.failure().message);
        auto key = Key::parse(query.find("key").value_or(""));
        if (!key) return bad(key.failure().message);
        return show(Operation{std::move(*scope), std::move(*key)}.id());
    }

    Reply list(const Query& query) {
        if (query.unknown({"state", "tenant", "scope", "correlation", "limit", "cursor"}))
            return bad("parameters: state, tenant, scope, correlation, limit, cursor");
        Filter filter;
        filter.tenant = query.find("tenant");
        filter.scope_name = query.find("scope");
        filter.correlation = query.find("correlation");
        if (const auto state = query.find("state")) {
            filter.state = state_of(*state);
            if (!filter.state) return bad("state: running, unknown or settled");
        }
        std::size_t limit = list_default;
        if (const auto text = query.find("limit")) {
            const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
            if (error != std::errc() || end != text->data() + text->size() || limit == 0 || limit > list_max)
                return bad("limit: 1 to 1000");
        }
        const auto cursor = from_hex(query.find("cursor").value_or(""));
        if (!cursor) return bad("cursor: as an earlier answer's `next`");
        const auto page = store_.list(filter, *cursor, limit);
        if (!page) return failed(page.failure());
        const auto now = store_.now();
        if (!now) return failed(now.failure());
        JsonWriter json;
        json.begin_object().name("operations").begin_array();
        for (const Record& record : page->records) write_record(json, record, *now);
        json.end_array().member("next", to_hex(page->next)).member("corrupt", page->corrupt).end_object();
        return {.body = json.text() + "\n"};
    }

    Admin admin_;
    Store& store_;
    Logger& log_;
    std::function<std::string()> metrics_;
    std::function<bool()> draining_;
    asio::io_context context_{1};
    Deadlines deadlines_{context_};
    Acceptor acceptor_;
    std::optional<asio::ssl::context> tls_;
    Address bound_;
    std::size_t open_ = 0;
    std::thread thread_;
};

Result<std::unique_ptr<AdminServer>> AdminServer::start(const Admin& admin, Store& store, Logger& log,
                                                        std::function<std::string()> metrics,
                                                        std::function<bool()> draining) {
    auto parts = std::make_unique<Parts>(admin, store, log, std::move(metrics), std::move(draining));
    if (auto started = parts->start(); !started) return started.failure();
    return std::unique_ptr<AdminServer>(new AdminServer(std::move(parts)));
}

AdminServer::AdminServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
AdminServer::~AdminServer() = default;
Address AdminServer::address() const { return parts_->address(); }

}  // namespace semel::gateway
