#include "gateway/load.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <deque>

#include "support/process.hpp"

namespace semel::bench {
namespace {

using Clock = std::chrono::steady_clock;

int connect_to(std::uint16_t port) {
    const int handle = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (handle < 0 || ::connect(handle, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        give_up(fmt::format("connect to port {}: {}", port, std::strerror(errno)));
    const int on = 1;
    ::setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return handle;
}

struct Connection {
    int handle = -1;
    std::string in{};
    bool busy = false;
    Clock::time_point due{};
};

/// Where a whole answer ends in `in`, or 0. Only what the servers here send: Content-Length or an empty body.
std::size_t end_of_answer(const std::string& in, int& status) {
    const auto head = in.find("\r\n\r\n");
    if (head == std::string::npos) return 0;
    status = 0;
    std::from_chars(in.data() + 9, in.data() + 12, status);
    std::size_t length = 0;
    const std::string_view text(in.data(), head + 2);
    for (const std::string_view name : {"\r\nContent-Length: ", "\r\ncontent-length: "})
        if (const auto at = text.find(name); at != std::string_view::npos)
            std::from_chars(text.data() + at + name.size(), text.data() + text.size(), length);
    return in.size() >= head + 4 + length ? head + 4 + length : 0;
}

class Generator {
public:
    explicit Generator(const HttpLoad& load) : load_(load), poll_(::epoll_create1(EPOLL_CLOEXEC)) {
        for (std::size_t i = 0; i < load.connections; ++i) {
            connections_.push_back(Connection{.handle = connect_to(load.port)});
            epoll_event event{};
            event.events = EPOLLIN;
            event.data.u64 = i;
            ::epoll_ctl(poll_, EPOLL_CTL_ADD, connections_.back().handle, &event);
        }
        std::array<unsigned char, 8> seed{};
        if (::getentropy(seed.data(), seed.size()) != 0) give_up("no randomness");
        for (const unsigned char byte : seed) run_ += fmt::format("{:02x}", byte);
    }
    ~Generator() {
        for (const Connection& each : connections_) ::close(each.handle);
        ::close(poll_);
    }
    Generator(const Generator&) = delete;
    Generator& operator=(const Generator&) = delete;

    Run run() {
        const auto start = Clock::now();
        measure_from_ = start + std::chrono::duration_cast<Clock::duration>(load_.warm_up);
        const auto end = measure_from_ + std::chrono::duration_cast<Clock::duration>(load_.length);
        next_due_ = start;
        double cpu = -1;
        if (load_.rate <= 0)
            for (Connection& each : connections_) send(each, start);
        else
            for (std::size_t i = 0; i < connections_.size(); ++i) free_.push_back(i);
        while (Clock::now() < end) {
            if (load_.rate > 0) send_what_is_due();
            if (cpu < 0 && Clock::now() >= measure_from_ && load_.cpu_seconds) cpu = load_.cpu_seconds();
            wait();
        }
        const std::chrono::duration<double> took = Clock::now() - measure_from_;
        Run result;
        if (load_.cpu_seconds && measured_ > 0)
            result.cpu_micros_each = (load_.cpu_seconds() - cpu) * 1e6 / static_cast<double>(measured_);
        result.per_second = static_cast<double>(measured_) / took.count();
        result.done = static_cast<double>(done_);
        result.micros = std::move(micros_);
        return result;
    }

private:
    void send_what_is_due() {
        const auto interval =
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / load_.rate));
        while (!free_.empty() && next_due_ <= Clock::now()) {
            const std::size_t index = free_.front();
            free_.pop_front();
            send(connections_[index], next_due_);
            next_due_ += interval;
        }
    }

    void send(Connection& connection, Clock::time_point due) {
        out_.clear();
        out_ += load_.method;
        out_ += ' ';
        out_ += load_.path;
        out_ +=
            " HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\nAuthorization: Bearer tenant-1\r\n";
        if (load_.keys != Keys::none) {
            const std::uint64_t number = load_.keys == Keys::known ? sent_ % load_.known_keys : sent_;
            fmt::format_to(std::back_inserter(out_), "Idempotency-Key: {}-{}\r\n",
                           load_.keys == Keys::known ? "known" : run_, number);
        }
        fmt::format_to(std::back_inserter(out_), "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                       load_.body.size());
        out_ += load_.body;
        ++sent_;
        if (::send(connection.handle, out_.data(), out_.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out_.size()))
            give_up(fmt::format("send: {}", std::strerror(errno)));
        connection.busy = true;
        connection.due = due;
    }

    void wait() {
        std::array<epoll_event, 256> events{};
        // Asleep until the next request is due: one that polls would take a core from those it measures.
        auto left = Clock::duration(std::chrono::milliseconds{10});
        if (load_.rate > 0) left = std::clamp(next_due_ - Clock::now(), Clock::duration::zero(), left);
        const timespec timeout{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(left).count()};
        const int count = ::epoll_pwait2(poll_, events.data(), static_cast<int>(events.size()), &timeout, nullptr);
        for (int i = 0; i < count; ++i) receive(static_cast<std::size_t>(events[static_cast<std::size_t>(i)].data.u64));
    }

    void receive(std::size_t index) {
        Connection& connection = connections_[index];
        std::array<char, 16 * 1024> buffer;  // NOLINT: filled by recv
        const ssize_t got = ::recv(connection.handle, buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) give_up("a connection was closed");
        connection.in.append(buffer.data(), static_cast<std::size_t>(got));
        int status = 0;
        const std::size_t end = end_of_answer(connection.in, status);
        if (end == 0) return;
        if (status != load_.status) give_up(fmt::format("unexpected answer:\n{}", connection.in));
        connection.in.erase(0, end);
        ++done_;
        const auto now = Clock::now();
        if (now >= measure_from_) {
            ++measured_;
            micros_.push_back(std::chrono::duration<double, std::micro>(now - connection.due).count());
        }
        if (load_.rate > 0) {
            connection.busy = false;
            free_.push_back(index);
        } else {
            send(connection, now);
        }
    }

    HttpLoad load_;
    int poll_;
    std::vector<Connection> connections_;
    std::deque<std::size_t> free_;
    std::string run_;
    std::string out_;
    std::uint64_t sent_ = 0;
    std::uint64_t done_ = 0;
    std::uint64_t measured_ = 0;
    Clock::time_point measure_from_;
    Clock::time_point next_due_;
    std::vector<double> micros_;
};

}  // namespace

Run run_http(const HttpLoad& load) { return Generator(load).run(); }

IdleConnections::IdleConnections(std::uint16_t port, std::size_t count) {
    constexpr std::string_view request = "GET /idle HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    for (std::size_t i = 0; i < count; ++i) {
        sockets_.push_back(connect_to(port));
        // Answered once, it is known to be served, and is idle from then on.
        std::array<char, 4096> answer;  // NOLINT: filled by recv
        if (::send(sockets_.back(), request.data(), request.size(), MSG_NOSIGNAL) < 0 ||
            ::recv(sockets_.back(), answer.data(), answer.size(), 0) <= 0)
            give_up("an idle connection was not answered");
    }
}

IdleConnections::~IdleConnections() {
    for (const int each : sockets_) ::close(each);
}

}  // namespace semel::bench
