// Quotas: how many new keys a tenant may bring to a route in a window, and how many of its operations may run at once.
//
// They are counted in this process, in memory that has a limit: a quota protects the store from one tenant, it is no
// promise to anybody, so a restart or a second instance may let more through.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "base/clock.hpp"
#include "gateway/config.hpp"

namespace semel::gateway {

/// How many pairs of tenant and route are counted. Beyond that the one that was idle for longest is forgotten.
inline constexpr std::size_t quota_entries_max = 65536;

/// Thread safe. Must outlive its tickets.
class Quotas {
    struct Shard;
    struct Entry;

public:
    /// One admitted request: it counts as one that runs until it is destroyed, and as a new key unless not_new() is said.
    class Ticket {
    public:
        Ticket() = default;
        Ticket(Ticket&& other) noexcept
            : shard_(std::exchange(other.shard_, nullptr)), entry_(other.entry_), window_(other.window_) {}
        Ticket& operator=(Ticket&& other) noexcept;
        ~Ticket() { end(); }

        /// The key was known already (a replay, busy, unknown…), or nothing became of it: it does not count as new.
        void not_new();

    private:
        friend class Quotas;
        Ticket(Shard& shard, Entry& entry, std::int64_t window) : shard_(&shard), entry_(&entry), window_(window) {}
        void end();

        Shard* shard_ = nullptr;
        Entry* entry_ = nullptr;
        std::int64_t window_ = 0;  // in which it was counted
    };

    struct Refused {
        Duration retry_after{0};  ///< when there may be room again; more than zero
    };
    using Answer = std::variant<Ticket, Refused>;

    explicit Quotas(const Clock& clock, std::size_t entries_max = quota_entries_max);
    ~Quotas();
    Quotas(const Quotas&) = delete;
    Quotas& operator=(const Quotas&) = delete;

    /// Counts a request in, if there is room. New keys are counted over a window that slides: those of the last whole
    /// window count by the part of it that is still in view. Without limits in `quota` nothing is counted.
    [[nodiscard]] Answer admit(std::string_view tenant, std::string_view route, const Quota& quota);

    /// How many pairs are held.
    [[nodiscard]] std::size_t entries() const;

private:
    static constexpr std::size_t shards = 16;

    Shard& shard_of(std::string_view tenant, std::string_view route);

    const Clock& clock_;
    std::size_t shard_entries_max_;
    std::array<std::unique_ptr<Shard>, shards> shards_;
};

}  // namespace semel::gateway
