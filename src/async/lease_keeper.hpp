// Keeps leases alive while others work under them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "semel/committer.hpp"

namespace semel {

/// The leases that are kept, and when each is to be renewed. Thread safe.
class Leases {
public:
    virtual ~Leases() = default;
    /// From when its claim was sent on; until `until`, when whatever is done under it should long be over: somebody who hangs
    /// must not hold it for ever.
    virtual void add(const Holder& holder, Duration lease, std::chrono::steady_clock::time_point sent,
                     std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());
    virtual void remove(const Holder& holder);
    /// Those to be renewed now: once for every third of their length.
    std::vector<Holder> due(std::chrono::steady_clock::time_point now);

private:
    struct Kept {
        Holder holder;
        Duration lease;
        std::chrono::steady_clock::time_point next;
        std::chrono::steady_clock::time_point until;
    };
    std::mutex mutex_;
    std::vector<Kept> kept_;  // guarded by mutex_
};

/// How long a renewal is tried: one that fails is followed by another.
inline constexpr Duration renew_patience = std::chrono::seconds{5};

/// Renews leases while others work under them, on a thread that does nothing else (I4). Thread safe.
class LeaseKeeper final : public Leases {
public:
    explicit LeaseKeeper(Committer& committer);

private:
    void renew();
    Committer& committer_;
    std::mutex sleep_;
    std::condition_variable_any wake_;
    std::jthread thread_;
};

/// Keeps one lease for as long as this lives.
class KeptLease {
public:
    KeptLease(Leases& leases, const Holder& holder, Duration lease, std::chrono::steady_clock::time_point sent,
              std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max())
        : leases_(leases), holder_(holder) {
        leases_.add(holder_, lease, sent, until);
    }
    ~KeptLease() { leases_.remove(holder_); }
    KeptLease(const KeptLease&) = delete;
    KeptLease& operator=(const KeptLease&) = delete;

private:
    Leases& leases_;
    Holder holder_;
};

}  // namespace semel
