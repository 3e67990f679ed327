#include "consumers/redis/wire.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"

namespace semel::redis {

std::string_view text_of(const redisReply& reply) {
    switch (reply.type) {
        case REDIS_REPLY_STRING:
        case REDIS_REPLY_STATUS:
        case REDIS_REPLY_ERROR: return {reply.str, static_cast<std::size_t>(reply.len)};
        default: return {};
    }
}

bool is_array(const redisReply& reply) { return reply.type == REDIS_REPLY_ARRAY; }

Result<Wire> Wire::begin(const Address& address) {
    Wire wire;
    wire.context_.reset(redisConnectNonBlock(address.host.c_str(), address.port));
    SEMEL_ASSERT(wire.context_ != nullptr, "out of memory");
    if (wire.context_->err != 0) return wire.lost("connect");
    redisEnableKeepAlive(wire.context_.get());
    return wire;
}

Failure Wire::lost(std::string_view what) const {
    return {Code::unavailable, fmt::format("{}: {}", what, context_->errstr)};
}

Status Wire::finish_connecting() {
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return Failure{Code::unavailable, fmt::format("connect: {}", std::strerror(error))};
    connected_ = true;
    return Done{};
}

Status Wire::send(const std::vector<std::string_view>& arguments) {
    std::vector<const char*> values;
    std::vector<std::size_t> sizes;
    for (const std::string_view argument : arguments) {
        values.push_back(argument.data());
        sizes.push_back(argument.size());
    }
    char* bytes = nullptr;
    const int size = redisFormatCommandArgv(&bytes, static_cast<int>(values.size()), values.data(), sizes.data());
    SEMEL_ASSERT(size > 0, "out of memory");
    out_.append(bytes, static_cast<std::size_t>(size));
    redisFreeCommand(bytes);
    return connected_ ? write() : Status{Done{}};
}

Status Wire::write() {
    std::size_t sent = 0;
    while (sent < out_.size()) {
        const ssize_t count = ::send(context_->fd, out_.data() + sent, out_.size() - sent, MSG_NOSIGNAL);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        if (count < 0) return Failure{Code::unavailable, fmt::format("send: {}", std::strerror(errno))};
        sent += static_cast<std::size_t>(count);
    }
    out_.erase(0, sent);
    return Done{};
}

Result<std::optional<Reply>> Wire::next(Steady deadline) {
    while (true) {
        void* raw = nullptr;
        if (redisGetReplyFromReader(context_.get(), &raw) != REDIS_OK) return lost("read");
        if (raw != nullptr) return std::optional<Reply>(Reply(static_cast<redisReply*>(raw)));

        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        const bool writing = !connected_ || !out_.empty();
        pollfd wait{context_->fd, static_cast<short>(writing ? POLLIN | POLLOUT : POLLIN), 0};
        const int ready = poll(&wait, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
        if (ready < 0 && errno != EINTR)
            return Failure{Code::unavailable, fmt::format("poll: {}", std::strerror(errno))};
        if (ready == 0 && left.count() <= 0) return std::optional<Reply>{};
        if (ready <= 0) continue;
        if (!connected_) {
            if (auto connected = finish_connecting(); !connected) return connected.failure();
        }
        if ((wait.revents & POLLOUT) != 0) {
            if (auto written = write(); !written) return written.failure();
        }
        if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && redisBufferRead(context_.get()) != REDIS_OK)
            return lost("read");
    }
}

}  // namespace semel::redis
