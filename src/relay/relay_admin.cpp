#include "relay/relay_admin.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "http/problem.hpp"
#include "http/request.hpp"
#include "http/writer.hpp"

namespace semel::relay {
namespace {

using http::Problem;
using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds request_timeout{5};
constexpr int backlog = 64;

// ---- sockets -------------------------------------------------------------------------------------------------------

class Descriptor {
public:
    explicit Descriptor(int value = -1) : value_(value) {}
    ~Descriptor() {
        if (value_ >= 0) ::close(value_);
    }
    Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(value_, other.value_);
        return *this;
    }
    [[nodiscard]] int get() const { return value_; }

private:
    int value_;
};

using Context = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;

/// False: not before the deadline.
bool wait_for(int descriptor, short events, Steady::time_point deadline) {
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Steady::now()).count();
        if (left <= 0) return false;
        pollfd one{descriptor, events, 0};
        const int ready = ::poll(&one, 1, static_cast<int>(left));
        if (ready > 0) return true;
        if (ready == 0 || errno != EINTR) return false;
    }
}

/// One connection, with TLS or without, that gives up at its deadline.
class Peer {
public:
    Peer(Descriptor socket, SSL_CTX* tls, Steady::time_point deadline)
        : socket_(std::move(socket)), tls_(nullptr, &SSL_free), deadline_(deadline) {
        if (tls == nullptr) return;
        tls_.reset(SSL_new(tls));
        good_ = tls_ != nullptr && SSL_set_fd(tls_.get(), socket_.get()) == 1 &&
                with_tls([&] { return SSL_accept(tls_.get()); }) == 1;
    }
    ~Peer() {
        if (tls_ && good_) SSL_shutdown(tls_.get());
        ERR_clear_error();
        ::shutdown(socket_.get(), SHUT_WR);
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    [[nodiscard]] bool good() const { return good_; }

    /// Some bytes, at least one; zero: the end.
    std::size_t read(char* into, std::size_t size) {
        const auto got = tls_ ? with_tls([&] { return SSL_read(tls_.get(), into, static_cast<int>(size)); })
                              : plainly(POLLIN, [&] { return ::recv(socket_.get(), into, size, 0); });
        return got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    void write(std::string_view bytes) {
        while (!bytes.empty()) {
            const auto sent =
                tls_
                    ? with_tls([&] { return SSL_write(tls_.get(), bytes.data(), static_cast<int>(bytes.size())); })
                    : plainly(POLLOUT, [&] { return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL); });
            if (sent <= 0) return;
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
    }

private:
    template <class Call>
    ssize_t plainly(short events, Call call) {
        while (true) {
            const ssize_t done = call();
            if (done >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return done;
            if (!wait_for(socket_.get(), events, deadline_)) return -1;
        }
    }
    template <class Call>
    ssize_t with_tls(Call call) {
        while (true) {
            ERR_clear_error();
            const int done = call();
            if (done > 0) return done;
            const int why = SSL_get_error(tls_.get(), done);
            const bool reads = why == SSL_ERROR_WANT_READ;
            const bool goes_on = reads || why == SSL_ERROR_WANT_WRITE;
            if (goes_on && wait_for(socket_.get(), reads ? POLLIN : POLLOUT, deadline_)) continue;
            good_ = false;  // nothing more may be said on it, not even goodbye
            return -1;
        }
    }

    Descriptor socket_;
    std::unique_ptr<SSL, decltype(&SSL_free)> tls_;
    Steady::time_point deadline_;
    bool good_ = true;
};

Failure refused(std::string why) { return {Code::invalid, std::move(why)}; }
Failure refused_file(std::string_view setting, const std::string& path) {
    const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
    ERR_clear_error();
    return refused(fmt::format("{} {}: {}", setting, path, reason == nullptr ? "cannot be read or is no PEM" : reason));
}

Result<Context> tls_context(const settings::ServerTls& tls) {
    Context context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
    if (!context) return Failure{Code::exhausted, "admin.tls: no memory for it"};
    SSL_CTX* const raw = context.get();
    SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
    SSL_CTX_set_options(raw, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(raw, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_use_certificate_chain_file(raw, tls.certificate.c_str()) != 1)
        return refused_file("admin.tls.certificate", tls.certificate);
    if (SSL_CTX_use_PrivateKey_file(raw, tls.key.c_str(), SSL_FILETYPE_PEM) != 1)
        return refused_file("admin.tls.key", tls.key);
    if (SSL_CTX_check_private_key(raw) != 1) return refused_file("admin.tls.key", tls.key);
    if (tls.client_ca.empty()) return context;
    if (SSL_CTX_load_verify_locations(raw, tls.client_ca.c_str(), nullptr) != 1)
        return refused_file("admin.tls.client_ca", tls.client_ca);
    if (STACK_OF(X509_NAME)* const names = SSL_load_client_CA_file(tls.client_ca.c_str()))
        SSL_CTX_set_client_CA_list(raw, names);
    SSL_CTX_set_verify(raw, SSL_VERIFY_PEER | (tls.client_certificate_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       nullptr);
    return context;
}

/// The address as the system wants it; its size.
socklen_t fill(const settings::Address& address, sockaddr_storage& into) {
    into = {};
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&into);
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&into);
    if (inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address.port);
        return sizeof *v4;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    return inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr) == 1 ? sizeof *v6 : 0;
}

// ---- answers -------------------------------------------------------------------------------------------------------

struct Reply {
    int status = 200;
    std::string type = "text/plain";
    std::string body{};
};

Reply problem(Problem what, std::string_view detail, int status) {
    http::ProblemAnswer made = http::answer(what, {.detail = detail, .status = status});
    return {made.status, std::string(http::problem_content_type), std::move(made.body)};
}

bool same_bytes(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

class RelayAdmin::Parts {
public:
    Parts(settings::Admin admin, Views views) : admin_(std::move(admin)), views_(std::move(views)) {}
    ~Parts() {
        // Never read: whoever polls it sees it from here on.
        if (stop_.get() >= 0) static_cast<void>(eventfd_write(stop_.get(), 1));
    }

    Status start() {
        const auto failed = [&] {
            return refused(fmt::format("admin {}: {}", admin_.address.text(), std::strerror(errno)));  // NOLINT
        };
        if (admin_.tls) {
            auto made = tls_context(*admin_.tls);
            if (!made) return made.failure();
            tls_ = std::move(*made);
        }
        sockaddr_storage address;
        socklen_t size = fill(admin_.address, address);
        if (size == 0) return refused(fmt::format("admin {}: not a numeric address", admin_.address.text()));
        listener_ = Descriptor(::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (listener_.get() < 0) return failed();
        const int on = 1;
        ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        auto* const generic = reinterpret_cast<sockaddr*>(&address);
        if (::bind(listener_.get(), generic, size) != 0 || ::listen(listener_.get(), backlog) != 0) return failed();
        if (::getsockname(listener_.get(), generic, &size) != 0) return failed();
        bound_ = {admin_.address.host,
                  ntohs(address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in*>(&address)->sin_port
                                                     : reinterpret_cast<sockaddr_in6*>(&address)->sin6_port)};
        stop_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (stop_.get() < 0) return failed();
        for (std::size_t i = 0; i < connections_max; ++i) threads_.emplace_back([this] { run(); });
        return Done{};
    }

    [[nodiscard]] const settings::Address& address() const { return bound_; }

private:
    void run() {
        while (true) {
            std::array<pollfd, 2> both{{{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}}};
            if (::poll(both.data(), both.size(), -1) < 0 && errno != EINTR) return;
            if (both[1].revents != 0) return;
            Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (socket.get() >= 0)
                serve(std::move(socket));
            else if (errno != EAGAIN && errno != EWOULDBLOCK)
                std::this_thread::sleep_for(std::chrono::milliseconds{50});  // out of descriptors: not in a tight loop
        }
    }

    void serve(Descriptor socket) {
        Peer peer(std::move(socket), tls_.get(), Steady::now() + request_timeout);
        http::RequestReader reader;
        std::array<char, 4096> buffer;
        while (peer.good() && reader.progress() == http::Progress::more) {
            const std::size_t got = peer.read(buffer.data(), buffer.size());
            if (got == 0) return;
            reader.feed({buffer.data(), got});
        }
        if (!peer.good()) return;
        const bool read = reader.progress() == http::Progress::done;
        const Reply reply =
            read ? answer(reader.head()) : problem(Problem::request_malformed, http::message(reader.fault()), 400);
        std::string out;
        http::HeadWriter writer(out);
        writer.status_line(reply.status).field("Content-Type", reply.type).field("Cache-Control", "no-store");
        if (reply.status == 401) writer.field("WWW-Authenticate", "Bearer");
        const auto framing = http::Framing::of_length(reply.body.size());
        if (writer.end(framing, http::HeadWriter::Persistence::close) != http::Fault::none) return;
        if (!read || reader.head().method != http::Method::head) out += reply.body;
        peer.write(out);
    }

    Reply answer(const http::RequestHead& head) {
        if (head.method != http::Method::get && head.method != http::Method::head)
            return problem(Problem::request_malformed, "only GET is served here", 405);
        const std::string_view path = head.target.path;
        const bool known = admin_.token.empty() || authorized(head);
        if (path == "/health" || path == "/healthz") return {.body = "ok\n"};
        if (path == "/ready" || path == "/readyz") {
            const std::string why = views_.not_ready();
            if (why.empty()) return {.body = "ready\n"};
            return {.status = 503, .body = known ? why + "\n" : "not ready; the token shows why\n"};
        }
        if (!known) return problem(Problem::tenant_missing, "Authorization: Bearer with admin.token is needed", 401);
        if (path == "/metrics") return {.type = "text/plain; version=0.0.4", .body = views_.metrics()};
        return problem(Problem::no_route, "here are /health, /ready and /metrics", 404);
    }

    [[nodiscard]] bool authorized(const http::RequestHead& head) const {
        constexpr std::string_view scheme = "Bearer ";
        const auto given = head.fields.value("Authorization");
        if (!given || head.fields.count("Authorization") != 1 || !http::name_starts_with(*given, scheme)) return false;
        return same_bytes(given->substr(scheme.size()), admin_.token);
    }

    settings::Admin admin_;
    Views views_;
    Context tls_{nullptr, &SSL_CTX_free};
    Descriptor listener_;
    Descriptor stop_;
    settings::Address bound_;
    std::vector<std::jthread> threads_;
};

Result<std::unique_ptr<RelayAdmin>> RelayAdmin::start(const settings::Admin& admin, Views views) {
    auto parts = std::make_unique<Parts>(admin, std::move(views));
    if (auto started = parts->start(); !started) return started.failure();
    return std::unique_ptr<RelayAdmin>(new RelayAdmin(std::move(parts)));
}

RelayAdmin::RelayAdmin(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
RelayAdmin::~RelayAdmin() = default;
settings::Address RelayAdmin::address() const { return parts_->address(); }

Status check_admin_files(const settings::Admin& admin) {
    if (!admin.tls) return Done{};
    if (auto made = tls_context(*admin.tls); !made) return made.failure();
    return Done{};
}

}  // namespace semel::relay
