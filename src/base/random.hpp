// Where randomness comes from: the kernel in production, a seed in the simulator.
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace semel {

class Random {
public:
    virtual ~Random() = default;

    /// Fills all of `bytes`. It cannot fail.
    virtual void fill(std::span<unsigned char> bytes) = 0;

    /// 64 random bits.
    std::uint64_t bits();
    /// Uniform in 0 … bound-1; `bound` is at least 1.
    std::uint64_t below(std::uint64_t bound);
};

/// getrandom(2), through a small buffer per thread so that an id costs no system call most of the time. Thread safe.
/// A forked child never gets bytes its parent had buffered, and bytes handed out are wiped from the buffer.
class SystemRandom final : public Random {
public:
    void fill(std::span<unsigned char> bytes) override;
};

/// The same seed gives the same bytes on every machine. For simulation and tests; not thread safe, not secure.
class SeededRandom final : public Random {
public:
    explicit SeededRandom(std::uint64_t seed) : engine_(seed) {}
    void fill(std::span<unsigned char> bytes) override;

private:
    std::mt19937_64 engine_;
};

}  // namespace semel
