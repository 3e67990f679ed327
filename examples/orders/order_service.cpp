// Takes orders over HTTP, behind a gateway whose route is `on_unknown: joined`: the order, the event that tells of it and the
// gateway's answer commit together, so that no crash leaves an order that nobody knows of, or two.
//
//     DATABASE=postgres://… PORT=9000 order_service
//
//     POST /orders  {"customer": "alice", "cents": 1250}   ->   201 {"order": "8e03…"}
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>

#include "service.hpp"

namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using tcp = boost::asio::ip::tcp;
using Request = http::request<http::string_body>;

struct Answer {
    unsigned status = 500;
    std::string body{};
};

Answer problem(unsigned status, std::string_view what) {
    return {status, "{\"error\": \"" + std::string(what) + "\"}\n"};
}

/// The connection of one thread; again after it was lost.
PGconn* connection() {
    thread_local std::unique_ptr<PGconn, void (*)(PGconn*)> kept(nullptr, PQfinish);
    if (!kept || PQstatus(kept.get()) != CONNECTION_OK) kept.reset(PQconnectdb(orders::setting("DATABASE").c_str()));
    if (PQstatus(kept.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(kept.get()));
    return kept.get();
}

std::string field(const Request& request, const char* name) {
    const auto found = request.find(name);
    return found == request.end() ? "" : std::string(found->value());
}

Answer place(const Request& request) {
    const auto scope = semel::Scope::parse(field(request, "Semel-Scope"));
    const auto key = semel::Key::parse(field(request, "Semel-Key"));
    const std::string token_text = field(request, "Semel-Token");
    semel::Claimed claimed;
    const auto [end, error] =
        std::from_chars(token_text.data(), token_text.data() + token_text.size(), claimed.token.value);
    if (!scope || !key || error != std::errc{}) return problem(400, "only the gateway may ask");
    std::string customer;
    std::int64_t cents = 0;
    try {
        simdjson::ondemand::parser parser;
        const simdjson::padded_string text(request.body());
        auto body = parser.iterate(text);
        cents = body["cents"];
        customer = std::string(std::string_view(body["customer"]));
    } catch (const simdjson::simdjson_error&) {
        return problem(422, "an order has a customer and cents");
    }

    const std::string& order = key->text();
    const std::string correlation = field(request, "X-Correlation-Id");
    PGconn* const transaction = connection();
    orders::run(transaction, "begin");
    try {
        const std::string amount = std::to_string(cents);
        // No unique constraint: a second order would be seen.
        orders::run(transaction, "insert into orders (id, customer, cents, correlation) values ($1, $2, $3, $4)",
                    {order, customer, amount, correlation});
        orders::stage(transaction, "order.placed", order, "{\"order\": \"" + order + "\", \"cents\": " + amount + "}",
                      correlation);
        const Answer answer{201, "{\"order\": \"" + order + "\"}\n"};
        const auto settled = semel::postgres::settle(transaction, {*scope, *key}, claimed,
                                                     {static_cast<std::int32_t>(answer.status), answer.body, true});
        if (!settled) throw std::runtime_error(settled.failure().message);
        if (!std::holds_alternative<semel::Ok>(*settled)) {
            // Somebody else has taken it over, or done it: nothing of this remains.
            orders::run(transaction, "rollback");
            return problem(503, "superseded");
        }
        orders::run(transaction, "commit");
        return answer;
    } catch (...) {
        PQclear(PQexec(transaction, "rollback"));
        throw;
    }
}

void serve(tcp::socket socket) {
    beast::flat_buffer buffer;
    beast::error_code error;
    while (true) {
        Request request;
        http::read(socket, buffer, request, error);
        if (error) return;
        Answer answer;
        try {
            answer = request.method() == http::verb::post && request.target() == "/orders"
                         ? place(request)
                         : problem(404, "POST /orders");
        } catch (const std::exception& failed) {
            std::cerr << failed.what() << "\n";
            return;  // nobody knows whether it was committed: hang up
        }
        http::response<http::string_body> response{static_cast<http::status>(answer.status), request.version()};
        response.set(http::field::content_type, "application/json");
        response.body() = std::move(answer.body);
        response.keep_alive(request.keep_alive());
        response.prepare_payload();
        http::write(socket, response, error);
        if (error || !request.keep_alive()) return;
    }
}

}  // namespace

int main() {
    boost::asio::io_context context;
    const auto port = static_cast<unsigned short>(std::stoi(orders::setting("PORT")));
    tcp::acceptor acceptor(context, {boost::asio::ip::make_address("127.0.0.1"), port});
    std::cout << "ready" << std::endl;
    while (true) std::thread(serve, acceptor.accept()).detach();
}
