#include "cli/demo_api.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/json.hpp"
#include "http/body.hpp"
#include "http/writer.hpp"
#include "ledger/json_document.hpp"
#include "ledger/key_header.hpp"

namespace semel::cli::demo {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds idle_max{60'000};     // between two requests of a connection
constexpr milliseconds down_for{60};         // after a crash
constexpr milliseconds try_again_after{20};  // when the port cannot be had again yet

constexpr std::array all_faults{Fault::slow, Fault::drop, Fault::crash, Fault::error, Fault::busy};

/// Nothing: X-Demo says something else.
std::optional<Fault> fault_of(const http::RequestHead& head) {
    const auto wanted = head.fields.value("X-Demo");
    if (!wanted) return Fault::none;
    for (const Fault each : all_faults)
        if (*wanted == word(each)) return each;
    return std::nullopt;
}

struct Order {
    std::int64_t amount = 0;
    std::string currency;
};

/// Nothing: it is none.
std::optional<Order> order_of(std::string_view body) {
    const auto json = JsonDocument::parse(body);
    if (!json) return std::nullopt;
    const auto amount = json->find(JsonPointer::parse("/amount").value());
    const auto currency = json->find(JsonPointer::parse("/currency").value());
    if (!amount || !currency || json->node(*currency).kind != JsonDocument::Kind::string) return std::nullopt;
    Order order{.currency = std::string(json->node(*currency).text)};
    const std::string_view digits = json->node(*amount).text;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), order.amount);
    if (json->node(*amount).kind != JsonDocument::Kind::number || error != std::errc{} || end != digits.end() ||
        order.amount <= 0)
        return std::nullopt;
    return order;
}

std::string error_body(std::string_view what) { return fmt::format("{{\"error\":{}}}\n", json_text(what)); }

/// One request of a connection at a time.
class RequestStream {
public:
    explicit RequestStream(const Socket& socket) : socket_(socket) {}

    /// False: there is none any more, or none that can be read.
    bool next() {
        reader_.reset();
        body_.clear();
        while (reader_.progress() == http::Progress::more) {
            if (left_.empty() && !fill()) return false;
            left_.remove_prefix(reader_.feed(left_).used);
        }
        if (reader_.progress() == http::Progress::refused) return false;
        if (head().expect_continue && !socket_.send("HTTP/1.1 100 Continue\r\n\r\n")) return false;
        http::BodyReader body(head().framing, {.body_bytes_max = PaymentsApi::body_bytes_max});
        while (body.progress() == http::Progress::more) {
            if (left_.empty() && !fill()) return false;
            const http::BodyStep step = body.feed(left_);
            left_.remove_prefix(step.used);
            body_.append(step.data);
        }
        return body.progress() == http::Progress::done;
    }
    [[nodiscard]] const http::RequestHead& head() const { return reader_.head(); }
    [[nodiscard]] const std::string& body() const { return body_; }

private:
    bool fill() {
        left_ = {block_.data(), socket_.receive(block_)};
        return !left_.empty();
    }
    const Socket& socket_;
    http::RequestReader reader_;
    std::array<char, 8192> block_{};
    std::string_view left_;
    std::string body_;
};

}  // namespace

std::string_view word(Fault fault) {
    switch (fault) {
        case Fault::none: return "";
        case Fault::slow: return "slow";
        case Fault::drop: return "drop";
        case Fault::crash: return "crash";
        case Fault::error: return "error";
        case Fault::busy: return "busy";
    }
    return "";
}

// ---- connections -----------------------------------------------------------------------------------------------

Result<std::unique_ptr<PaymentsApi>> PaymentsApi::start() {
    auto listener = Socket::listen(0);
    if (!listener) return listener.failure();
    return std::unique_ptr<PaymentsApi>(new PaymentsApi(std::move(*listener)));
}

PaymentsApi::PaymentsApi(Socket listener) : port_(listener.port()), listener_(std::move(listener)) {
    thread_ = std::thread([this] { accept(); });
}

PaymentsApi::~PaymentsApi() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        listener_.shut();
        for (const Connection& each : connections_) each.socket.shut();
    }
    stop_.notify_all();
    thread_.join();
    for (Connection& each : connections_) each.thread.join();
}

void PaymentsApi::accept() {
    while (true) {
        Socket socket = listener_.accept();
        if (!socket.open()) {
            Socket again = restarted();
            const std::lock_guard lock(mutex_);
            if (stopping_) return;
            listener_ = std::move(again);
            continue;
        }
        reap();
        const std::lock_guard lock(mutex_);
        if (stopping_) return;
        if (connections_.size() >= connections_max) continue;
        Connection& connection = connections_.emplace_back(std::move(socket), life_);
        connection.thread = std::thread([this, &connection] { serve(connection); });
    }
}

/// Waits as long as a service takes to come back, then listens again. Without a descriptor: the end has come.
Socket PaymentsApi::restarted() {
    std::unique_lock lock(mutex_);
    listener_ = Socket();  // refused from here on
    stop_.wait_for(lock, down_for, [this] { return stopping_; });
    while (!stopping_) {
        auto again = Socket::listen(port_);
        if (again) return std::move(*again);
        stop_.wait_for(lock, try_again_after, [this] { return stopping_; });
    }
    return Socket();
}

void PaymentsApi::reap() {
    std::list<Connection> ended;
    {
        const std::lock_guard lock(mutex_);
        for (auto each = connections_.begin(); each != connections_.end();) {
            const auto next = std::next(each);
            if (each->done) ended.splice(ended.end(), connections_, each);
            each = next;
        }
    }
    for (Connection& each : ended) each.thread.join();
}

void PaymentsApi::serve(Connection& connection) {
    const Socket& socket = connection.socket;
    socket.patience(idle_max);
    RequestStream requests(socket);
    while (requests.next()) {
        const auto reply = answer(requests.head(), requests.body(), connection.life);
        if (!reply) break;
        const bool goes_on = requests.head().keep_alive;
        std::string out;
        http::HeadWriter head(out);
        head.status_line(reply->status).field("Content-Type", "application/json");
        if (!reply->location.empty()) head.field("Location", reply->location);
        using enum http::HeadWriter::Persistence;
        if (head.end(http::Framing::of_length(reply->body.size()), goes_on ? unsaid : close) != http::Fault::none)
            break;
        if (requests.head().method != http::Method::head) out += reply->body;
        if (!socket.send(out) || !goes_on) break;
    }
    socket.shut();
    connection.done = true;
}

// ---- payments --------------------------------------------------------------------------------------------------

std::optional<PaymentsApi::Reply> PaymentsApi::answer(const http::RequestHead& head, const std::string& body,
                                                      std::uint64_t life) {
    if (head.target.path == "/v1/charges" && (head.method == http::Method::get || head.method == http::Method::head))
        return Reply{200, fmt::format("{{\"charges\":{}}}\n", charges())};
    if (head.target.path == "/v1/payments" && head.method == http::Method::post) return pay(head, body, life);
    return Reply{404, error_body("there are POST /v1/payments and GET /v1/charges")};
}

std::optional<PaymentsApi::Reply> PaymentsApi::pay(const http::RequestHead& head, const std::string& body,
                                                   std::uint64_t life) {
    const auto fault = fault_of(head);
    if (!fault) return Reply{400, error_body("X-Demo: one of slow, drop, crash, error, busy")};
    if (*fault == Fault::busy) return Reply{503, error_body("busy: nothing was charged")};
    const auto order = order_of(body);
    if (!order) return Reply{400, error_body("write it as in {\"amount\":1999,\"currency\":\"EUR\"}")};
    const auto key = key_from_header(head.fields.value("Idempotency-Key").value_or(""));
    const auto number = charge(key ? key->text() : std::string(), life);
    if (!number || *fault == Fault::drop) return std::nullopt;
    if (*fault == Fault::crash) {
        crash(life);
        return std::nullopt;
    }
    if (*fault == Fault::slow) {
        std::unique_lock lock(mutex_);
        if (stop_.wait_for(lock, late_.load(), [&] { return stopping_ || life != life_; })) return std::nullopt;
    }
    if (*fault == Fault::error) return Reply{500, error_body("it was charged, and then something went wrong")};
    const std::string id = fmt::format("ch_{:06}", *number);
    return Reply{
        201,
        fmt::format("{{\"id\":\"{}\",\"amount\":{},\"currency\":{}}}\n", id, order->amount, json_text(order->currency)),
        "/v1/payments/" + id};
}

/// The number of the charge; nothing: the service died before it.
std::optional<std::uint64_t> PaymentsApi::charge(const std::string& key, std::uint64_t life) {
    const std::lock_guard lock(mutex_);
    if (life != life_) return std::nullopt;
    ++charges_of_[key];
    return ++charges_;
}

void PaymentsApi::crash(std::uint64_t life) {
    {
        const std::lock_guard lock(mutex_);
        if (life != life_) return;
        ++life_;
        listener_.shut();
        for (const Connection& each : connections_) each.socket.shut();
    }
    stop_.notify_all();
}

std::uint64_t PaymentsApi::charges() const {
    const std::lock_guard lock(mutex_);
    return charges_;
}

std::uint64_t PaymentsApi::charges_of(const std::string& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = charges_of_.find(key);
    return found == charges_of_.end() ? 0 : found->second;
}

}  // namespace semel::cli::demo
