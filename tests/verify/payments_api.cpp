#include "verify/payments_api.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>

#include "http/body.hpp"
#include "http/request.hpp"
#include "http/writer.hpp"

namespace semel::test {
namespace {

// How long the broken ones stand in the window that makes them broken.
constexpr std::chrono::milliseconds race_window{300};
constexpr int hang_up_window_ms = 300;

constexpr std::array<std::pair<std::string_view, Behaviour>, 14> names{{
    {"good", Behaviour::good},
    {"good_and_busy", Behaviour::good_and_busy},
    {"no_dedup", Behaviour::no_dedup},
    {"read_then_write_race", Behaviour::read_then_write_race},
    {"key_without_tenant", Behaviour::key_without_tenant},
    {"rerun_after_500", Behaviour::rerun_after_500},
    {"empty_replay", Behaviour::empty_replay},
    {"loses_on_hang_up", Behaviour::loses_on_hang_up},
    {"loses_after_error", Behaviour::loses_after_error},
    {"forgets", Behaviour::forgets},
    {"leaks_cookie", Behaviour::leaks_cookie},
    {"ignores_body", Behaviour::ignores_body},
    {"quoted_is_another", Behaviour::quoted_is_another},
    {"runs_without_key", Behaviour::runs_without_key},
}};

bool has_hung_up(int socket) {
    pollfd waiting{.fd = socket, .events = POLLRDHUP, .revents = 0};
    return ::poll(&waiting, 1, hang_up_window_ms) > 0;
}

/// The next bytes; empty: there are none to come.
std::string_view receive(int socket, std::array<char, 4096>& block) {
    const ssize_t got = ::recv(socket, block.data(), block.size(), 0);
    return {block.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

}  // namespace

std::optional<Behaviour> behaviour_of(std::string_view name) {
    for (const auto& [text, behaviour] : names)
        if (text == name) return behaviour;
    return std::nullopt;
}

PaymentsApi::PaymentsApi(Behaviour behaviour, std::function<void()> effect)
    : behaviour_(behaviour), effect_(std::move(effect)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 256) != 0 || ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        throw std::runtime_error("no port to listen on");
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
}

PaymentsApi::~PaymentsApi() {
    stopping_ = true;
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    ::close(listener_);
    for (std::thread& each : serving_) each.join();
}

std::string PaymentsApi::url(std::string_view path) const { return fmt::format("http://127.0.0.1:{}{}", port_, path); }

void PaymentsApi::accept_all() {
    while (!stopping_) {
        const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (socket < 0) continue;
        const timeval limit{.tv_sec = 10, .tv_usec = 0};
        ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        const auto serve_and_close = [this, socket] {
            serve(socket);
            ::close(socket);
        };
        // One after the other, so that no retry overtakes what it retries.
        if (behaviour_ == Behaviour::loses_on_hang_up)
            serve_and_close();
        else
            serving_.emplace_back(serve_and_close);
    }
}

void PaymentsApi::serve(int socket) {
    http::RequestReader head;
    http::BodyReader body;
    Call call;
    call.socket = socket;
    std::array<char, 4096> block;
    for (bool in_body = false; !in_body || body.progress() == http::Progress::more;) {
        std::string_view bytes = receive(socket, block);
        if (bytes.empty()) return;
        if (!in_body) {
            const auto step = head.feed(bytes);
            if (step.progress == http::Progress::refused) return;
            if (step.progress == http::Progress::more) continue;
            bytes.remove_prefix(step.used);
            body.start(head.head().framing);
            in_body = true;
        }
        while (!bytes.empty() && body.progress() == http::Progress::more) {
            const auto step = body.feed(bytes);
            call.body.append(step.data);
            bytes.remove_prefix(step.used);
        }
    }
    const auto& fields = head.head().fields;
    call.method = head.head().method_text;
    call.path = head.head().target.path;
    call.key = fields.value("Idempotency-Key").value_or("");
    call.has_key = !call.key.empty();
    call.tenant = fields.value("Authorization").value_or("");
    call.fail = fields.value("X-Fail").value_or("");
    if (behaviour_ != Behaviour::quoted_is_another && call.key.starts_with('"'))
        call.key = call.key.substr(1, call.key.size() - 2);

    const Reply reply = answer(call);
    std::string out;
    http::HeadWriter writer(out);
    writer.status_line(reply.status).field("Content-Type", "application/json");
    if (!reply.cookie.empty()) writer.field("Set-Cookie", reply.cookie);
    if (reply.replayed) writer.field("Idempotent-Replayed", "true");
    if (writer.end(http::Framing::of_length(reply.body.size()), http::HeadWriter::Persistence::close) !=
        http::Fault::none)
        return;
    out += reply.body;
    for (std::string_view left = out; !left.empty();) {
        const ssize_t sent = ::send(socket, left.data(), left.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        left.remove_prefix(static_cast<std::size_t>(sent));
    }
}

PaymentsApi::Reply PaymentsApi::answer(const Call& call) {
    if (call.path == "/effects") return {200, fmt::format("{{\"charges\": {}}}", effects_.load())};
    if (call.path != "/charges" || call.method != "POST") return {404, "{}"};
    if (call.tenant.empty()) return {401, "{}"};
    if (call.body.find("amount") == std::string::npos) return {422, R"({"error":"no amount"})"};
    if (!call.has_key) return behaviour_ == Behaviour::runs_without_key ? perform(call) : Reply{400, "{}"};
    return charge(call);
}

/// The rule: write the key down, have the effect, write the answer down.
PaymentsApi::Reply PaymentsApi::charge(const Call& call) {
    if (behaviour_ == Behaviour::no_dedup) return perform(call);
    const std::string name = behaviour_ == Behaviour::key_without_tenant ? call.key : call.tenant + ' ' + call.key;
    {
        const std::lock_guard lock(mutex_);
        ++looked_up_[name];
        changed_.notify_all();
        if (const auto found = entries_.find(name); found != entries_.end()) return replay(call, found->second);
        if (behaviour_ != Behaviour::read_then_write_race) entries_[name] = Entry{call.body, std::nullopt};
    }
    if (behaviour_ == Behaviour::read_then_write_race || behaviour_ == Behaviour::good_and_busy) wait_for_twin(name);
    return perform_and_keep(call, name);
}

PaymentsApi::Reply PaymentsApi::perform_and_keep(const Call& call, const std::string& name) {
    const bool gone = behaviour_ == Behaviour::loses_on_hang_up && has_hung_up(call.socket);
    Reply reply = gone ? Reply{201, R"({"id":"never"})"} : perform(call);
    Reply kept = reply;
    if (behaviour_ != Behaviour::leaks_cookie) kept.cookie.clear();
    if (behaviour_ == Behaviour::empty_replay) kept.body.clear();
    if (behaviour_ == Behaviour::loses_after_error && reply.status >= 500) kept = Reply{201, R"({"id":"never"})"};
    const bool forgotten = reply.status == 503 && behaviour_ != Behaviour::loses_after_error;
    const std::lock_guard lock(mutex_);
    if (forgotten || (behaviour_ == Behaviour::rerun_after_500 && reply.status == 500))
        entries_.erase(name);
    else
        entries_[name] = Entry{call.body, kept};
    return reply;
}

PaymentsApi::Reply PaymentsApi::replay(const Call& call, const Entry& entry) const {
    if (entry.body != call.body && behaviour_ != Behaviour::ignores_body) return {422, R"({"error":"key reused"})"};
    if (!entry.reply) return {409, R"({"error":"in progress"})"};
    Reply reply = *entry.reply;
    reply.replayed = behaviour_ != Behaviour::key_without_tenant;
    return reply;
}

PaymentsApi::Reply PaymentsApi::perform(const Call& call) {
    if (call.fail == "before") return {503, "{}"};
    have_effect();
    if (call.fail == "after") return {500, R"({"error":"the mail server is down"})"};
    const int serial = ++serial_;
    return {201, fmt::format(R"({{"id":"ch_{}"}})", serial), fmt::format("session=s{}; HttpOnly", serial)};
}

void PaymentsApi::have_effect() {
    if (behaviour_ == Behaviour::forgets) return;
    const std::lock_guard lock(mutex_);
    effect_();
    ++effects_;
}

void PaymentsApi::wait_for_twin(const std::string& name) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, race_window, [&] { return looked_up_[name] > 1; });
}

}  // namespace semel::test
