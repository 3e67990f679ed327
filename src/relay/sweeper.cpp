#include "relay/sweeper.hpp"

namespace semel::relay {
namespace {

/// Small batches with rests between them: claims beside it hardly notice.
constexpr std::size_t batch = 100;
constexpr std::chrono::milliseconds rest_between{50};
constexpr std::chrono::milliseconds every = std::chrono::seconds{30};

}  // namespace

Sweeper::Sweeper(Store& store, std::function<void(std::string_view)> complain)
    : store_(store), complain_(std::move(complain)), thread_([this](const std::stop_token& stop) { run(stop); }) {}

void Sweeper::run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
        const bool more = sweep();
        std::unique_lock lock(mutex_);
        wake_.wait_for(lock, stop, more ? rest_between : every, [] { return false; });
    }
}

bool Sweeper::sweep() {
    const auto swept = store_.sweep(batch);
    if (!swept) {
        complain_(swept.failure().message);
        return false;
    }
    swept_ += swept->bodies_dropped + swept->removed;
    return swept->more;
}

}  // namespace semel::relay
