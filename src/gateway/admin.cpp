#include "gateway/admin.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <charconv>

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "gateway/crypto.hpp"
#include "gateway/net.hpp"
#include "http/problem.hpp"
#include "http/query.hpp"
#include "ledger/record_json.hpp"

namespace semel::gateway {
namespace {

using http::Problem;
using http::Reply;

constexpr std::size_t list_max = 1000;
constexpr std::size_t list_default = 100;

Reply problem(Problem what, std::string_view detail, int status) {
    return Reply::of(http::answer(what, {.detail = detail, .status = status}));
}

Reply failed(const Failure& failure) { return problem(Problem::store_unavailable, failure.message, 503); }
Reply bad(std::string_view detail) { return problem(Problem::request_malformed, detail, 400); }

std::optional<State> state_of(std::string_view text) {
    for (const State state : {State::running, State::unknown, State::settled})
        if (name(state) == text) return state;
    return std::nullopt;
}

/// A page on its way. Nobody minds one that was made for nothing.
class Pending final : public http::Pending {
public:
    explicit Pending(std::shared_ptr<std::atomic<bool>> over) : over_(std::move(over)) {}
    std::optional<Reply> give_up() override {
        if (over_->exchange(true)) return std::nullopt;
        return problem(Problem::store_unavailable, "the store did not answer in time", 503);
    }

private:
    std::shared_ptr<std::atomic<bool>> over_;
};

}  // namespace

// ---- the pages -------------------------------------------------------------------------------------------------

class AdminPages::Parts {
public:
    Parts(const Admin& admin, Store& store, Logger& log, std::function<std::string()> metrics,
          std::function<bool()> draining)
        : admin_(admin), store_(store), log_(log), metrics_(std::move(metrics)), draining_(std::move(draining)) {}
    ~Parts() { threads_.join(); }

    [[nodiscard]] bool authorized(const http::RequestHead& head) const {
        if (admin_.token.empty()) return true;
        const auto given = head.fields.value("Authorization");
        if (!given || head.fields.count("Authorization") != 1 || !http::name_starts_with(*given, "Bearer "))
            return false;
        return same_bytes(given->substr(7), admin_.token);
    }

    void answer(std::string path, std::string query, std::shared_ptr<std::atomic<bool>> over,
                std::move_only_function<void(http::MakeReply)> done) {
        auto work = [this, path = std::move(path), query = std::move(query), over = std::move(over),
                     done = std::move(done)]() mutable {
            if (*over) return;
            Reply reply = page(path, query);
            if (over->exchange(true)) return;
            done([reply = std::move(reply)]() mutable { return std::move(reply); });
        };
        asio::post(threads_, std::move(work));
    }

private:
    Reply page(std::string_view path, std::string_view text) {
        if (path == "/healthz") return {.type = "text/plain", .body = "ok\n"};
        if (path == "/readyz") return ready();
        if (path == "/metrics") return {.type = "text/plain; version=0.0.4", .body = metrics_()};
        const auto query = http::Query::parse(text);
        if (!query) return bad("the query has a parameter twice, or a broken percent-encoding");
        if (path == "/operations") return list(*query);
        if (path == "/operation") return by_name(*query);
        if (path.starts_with("/operations/")) return by_id(path.substr(std::string_view("/operations/").size()));
        return problem(Problem::no_route, "here are /healthz, /readyz, /metrics, /operations and /operation", 404);
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

    Reply by_name(const http::Query& query) {
        if (const auto unknown = query.unknown({"scope", "key"})) return bad("parameters: scope, key");
        auto scope = Scope::parse(query.find("scope").value_or(""));
        if (!scope) return bad(scope.failure().message);
        auto key = Key::parse(query.find("key").value_or(""));
        if (!key) return bad(key.failure().message);
        return show(Operation{std::move(*scope), std::move(*key)}.id());
    }

    Reply list(const http::Query& query) {
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

    const Admin admin_;
    Store& store_;
    Logger& log_;
    std::function<std::string()> metrics_;
    std::function<bool()> draining_;
    asio::thread_pool threads_{threads};
};

AdminPages::AdminPages(const Admin& admin, Store& store, Logger& log, std::function<std::string()> metrics,
                       std::function<bool()> draining)
    : parts_(std::make_unique<Parts>(admin, store, log, std::move(metrics), std::move(draining))) {}
AdminPages::~AdminPages() = default;

std::variant<std::size_t, Reply> AdminPages::admit(const http::RequestHead& head) const {
    if (head.method != http::Method::get && head.method != http::Method::head)
        return problem(Problem::request_malformed, "only GET is served here", 405);
    const std::string_view path = head.target.path;
    if (path == "/healthz" || path == "/readyz" || parts_->authorized(head)) return std::size_t{0};
    Reply reply = problem(Problem::tenant_missing, "Authorization: Bearer with admin.token is needed", 401);
    reply.fields.emplace_back("WWW-Authenticate", "Bearer");
    return reply;
}

std::unique_ptr<http::Pending> AdminPages::answer(const http::RequestHead& head, std::string /*body*/,
                                                  std::move_only_function<void(http::MakeReply)> done) {
    auto over = std::make_shared<std::atomic<bool>>(false);
    parts_->answer(std::string(head.target.path), std::string(head.target.query), over, std::move(done));
    return std::make_unique<Pending>(std::move(over));
}

}  // namespace semel::gateway
