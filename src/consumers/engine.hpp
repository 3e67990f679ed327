// How a worker of a consumer brings messages to their fate.
#pragma once

#include <optional>
#include <vector>

#include "consumers/item.hpp"

namespace semel {

/// Messages from the shelf.
struct FromShelf {
    std::vector<Item> items{};
    std::vector<Shelved> shelved{};   ///< holds the items' messages
    std::optional<TimePoint> next{};  ///< when the next one is due
};

/// Used by one thread.
class Engine {
public:
    virtual ~Engine() = default;

    /// Brings every item to its fate, durably. On failure some may have met it: all of them may be applied again.
    virtual Status apply(std::vector<Item>& items) = 0;
    /// The same for messages on the shelf whose time has come.
    virtual Result<FromShelf> apply_due(std::size_t limit) = 0;
    /// The database's clock: nothing that was settled since the last successful call was settled before this.
    [[nodiscard]] virtual TimePoint began() const = 0;
};

}  // namespace semel
