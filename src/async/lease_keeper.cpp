#include "async/lease_keeper.hpp"

namespace semel {
namespace {

/// How often the leases are looked through; the shortest one allowed is three times this.
constexpr Duration look_every = std::chrono::milliseconds{30};

}  // namespace

LeaseKeeper::LeaseKeeper(Committer& committer)
    : committer_(committer), thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
              renew();
              std::unique_lock lock(sleep_);
              wake_.wait_for(lock, stop, look_every, [] { return false; });
          }
      }) {}

void Leases::add(const Holder& holder, Duration lease, std::chrono::steady_clock::time_point sent,
                 std::chrono::steady_clock::time_point until) {
    const std::lock_guard lock(mutex_);
    kept_.push_back({holder, lease, sent + lease / 3, until});
}

void Leases::remove(const Holder& holder) {
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_,
                  [&](const Kept& kept) { return kept.holder.id == holder.id && kept.holder.token == holder.token; });
}

std::vector<Holder> Leases::due(std::chrono::steady_clock::time_point now) {
    std::vector<Holder> due;
    const std::lock_guard lock(mutex_);
    for (Kept& kept : kept_) {
        if (kept.next > now || kept.until <= now) continue;
        kept.next = now + kept.lease / 3;
        due.push_back(kept.holder);
    }
    return due;
}

void LeaseKeeper::renew() {
    // Not waited for: one that fails is followed by another, and a lease that is lost is noticed by whoever settles.
    for (const Holder& holder : due(std::chrono::steady_clock::now()))
        committer_.submit({Renew{holder}}, renew_patience, std::make_shared<Waiting>(), [](GroupAnswer) {});
}

}  // namespace semel
