#include "base/random.hpp"

#include <pthread.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "base/assert.hpp"

namespace semel {
namespace {

void fill_from_kernel(std::span<unsigned char> bytes) {
    while (!bytes.empty()) {
        const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        SEMEL_ASSERT(got > 0, "getrandom(2) gives bytes once the kernel is up");
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

// How often this process has become a child since its buffers were made.
std::atomic<std::uint64_t> forks{0};

std::uint64_t forks_seen() {
    static const int registered =
        pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
    SEMEL_ASSERT(registered == 0, "a fork handler can be registered at start-up");
    return forks.load(std::memory_order_relaxed);
}

struct Buffer {
    std::array<unsigned char, 512> bytes;
    std::size_t left = 0;  // the last `left` bytes are unused
    std::uint64_t made_in = 0;

    // Hands out buffered bytes; what was handed out is zero afterwards.
    void take(std::span<unsigned char> into) {
        const std::uint64_t process = forks_seen();
        if (left < into.size() || made_in != process) {
            fill_from_kernel(bytes);
            left = bytes.size();
            made_in = process;
        }
        const auto from = bytes.end() - static_cast<std::ptrdiff_t>(left);
        std::copy_n(from, into.size(), into.begin());
        std::fill_n(from, into.size(), static_cast<unsigned char>(0));
        left -= into.size();
    }
};

constexpr std::size_t buffered_bytes_max = 64;

}  // namespace

std::uint64_t Random::bits() {
    std::array<unsigned char, 8> bytes;
    fill(bytes);
    std::uint64_t value = 0;
    for (const unsigned char byte : bytes) value = value << 8 | byte;
    return value;
}

std::uint64_t Random::below(std::uint64_t bound) {
    SEMEL_ASSERT(bound > 0, "a number below zero does not exist");
    // The lowest 2^64 mod bound values would make small results more likely: draw again.
    const std::uint64_t unfair = (0 - bound) % bound;
    for (;;) {
        const std::uint64_t drawn = bits();
        if (drawn >= unfair) return drawn % bound;
    }
}

void SystemRandom::fill(std::span<unsigned char> bytes) {
    if (bytes.size() > buffered_bytes_max) return fill_from_kernel(bytes);
    thread_local Buffer buffer;
    buffer.take(bytes);
}

void SeededRandom::fill(std::span<unsigned char> bytes) {
    while (!bytes.empty()) {
        std::uint64_t word = engine_();
        const std::size_t count = std::min<std::size_t>(bytes.size(), 8);
        for (unsigned char& byte : bytes.first(count)) {
            byte = static_cast<unsigned char>(word >> 56);
            word <<= 8;
        }
        bytes = bytes.subspan(count);
    }
}

}  // namespace semel
