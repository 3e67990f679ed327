// Blocking sockets that serve on loopback: all that the demo's API needs of a network.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "semel/result.hpp"

namespace semel::cli::demo {

/// Owns a descriptor. Closing is hanging up.
class Socket {
public:
    explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
    Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    Socket& operator=(Socket&& other) noexcept {
        std::swap(descriptor_, other.descriptor_);
        return *this;
    }
    ~Socket();

    /// Listens on 127.0.0.1; port 0: a free one.
    static Result<Socket> listen(std::uint16_t port);
    /// Its own port.
    [[nodiscard]] std::uint16_t port() const;
    /// The next connection of one that listens; one without a descriptor when shut() ended it.
    [[nodiscard]] Socket accept() const;

    [[nodiscard]] bool open() const { return descriptor_ >= 0; }
    /// Ends both directions: whoever waits in a call here, in whatever thread, returns.
    void shut() const;
    /// How long receive() waits at most.
    void patience(std::chrono::milliseconds timeout) const;

    /// False: the peer has gone.
    [[nodiscard]] bool send(std::string_view bytes) const;
    /// At least one byte; 0: the peer closed, or patience ended.
    [[nodiscard]] std::size_t receive(std::span<char> into) const;

private:
    int descriptor_;
};

}  // namespace semel::cli::demo
