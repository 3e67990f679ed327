#include "consumers/kafka/progress.hpp"

#include <algorithm>

namespace semel::kafka {

bool Progress::begin(std::int64_t offset) {
    if (last_ && offset <= *last_) return false;
    last_ = offset;
    messages_.push_back({offset, false});
    return true;
}

void Progress::finish(std::int64_t offset) {
    const auto at = std::ranges::lower_bound(messages_, offset, {}, &Message::offset);
    if (at == messages_.end() || at->offset != offset) return;
    at->done = true;
    while (!messages_.empty() && messages_.front().done) messages_.pop_front();
}

std::optional<std::int64_t> Progress::position() const {
    if (!messages_.empty()) return messages_.front().offset;
    if (last_) return *last_ + 1;
    return std::nullopt;
}

}  // namespace semel::kafka
