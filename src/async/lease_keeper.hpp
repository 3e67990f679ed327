// Keeps leases alive while others work under them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "semel/committer.hpp"

namespace semel {

/// Renews leases while others work under them, on a thread that does nothing else (I4). Thread safe.
class LeaseKeeper {
public:
    explicit LeaseKeeper(Committer& committer);
    /// From when its claim was sent on; until `until`, when whatever is done under it should long be over: somebody who hangs
    /// must not hold it for ever.
    void add(const Holder& holder, Duration lease, std::chrono::steady_clock::time_point sent,
             std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());
    void remove(const Holder& holder);

private:
    void renew();
    struct Kept {
        Holder holder;
        Duration lease;
        std::chrono::steady_clock::time_point next;
        std::chrono::steady_clock::time_point until;
    };
    Committer& committer_;
    std::mutex mutex_;
    std::condition_variable_any wake_;
    std::vector<Kept> kept_;  // guarded by mutex_
    std::jthread thread_;
};

/// Keeps one lease for as long as this lives.
class KeptLease {
public:
    KeptLease(LeaseKeeper& keeper, const Holder& holder, Duration lease, std::chrono::steady_clock::time_point sent,
              std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max())
        : keeper_(keeper), holder_(holder) {
        keeper_.add(holder_, lease, sent, until);
    }
    ~KeptLease() { keeper_.remove(holder_); }
    KeptLease(const KeptLease&) = delete;
    KeptLease& operator=(const KeptLease&) = delete;

private:
    LeaseKeeper& keeper_;
    Holder holder_;
};

}  // namespace semel
