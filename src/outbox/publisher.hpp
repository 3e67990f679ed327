// A publisher: one connection to a broker that events are handed to and that tells what became of them.
//
// One implementation for each broker. Used by one thread.
#pragma once

#include <string>
#include <vector>

#include "semel/outbox.hpp"

namespace semel::outbox {

/// What became of an event that was handed over.
struct Receipt {
    enum class What : std::uint8_t {
        confirmed,  ///< the broker has it for good
        duplicate,  ///< and had it before
        refused,    ///< it will not take this one: too large, nowhere to put it
    };
    OutboxPlace place{};
    What what = What::confirmed;
    std::string why{};  ///< of refused
};

/// Whether an event was handed over.
struct Handed {
    std::string refused{};  ///< why it was not, and never will be as it is; there is no receipt then
};

class Publisher {
public:
    virtual ~Publisher() = default;

    /// Hands an event over. It stays as it is until its receipt or start_over. A failure is about the broker, not the event:
    /// nothing is known of what has no receipt.
    virtual Result<Handed> publish(const OutboxRow& row) = 0;
    /// The receipts that have come; waits for the first, at most that long. Failures as above.
    virtual Result<std::vector<Receipt>> receipts(Duration wait) = 0;
    /// Whether the broker gets events of a topic in the order they are handed over, whatever happens, so that several of one
    /// ordering key and topic may be on their way at once. Then no receipt says `refused`.
    [[nodiscard]] virtual bool keeps_order() const = 0;
    /// How many events may be on their way at once.
    [[nodiscard]] virtual std::size_t on_their_way_max() const { return 1000; }
    /// After a failure: forgets what was on its way, and connects anew with the next event.
    virtual void start_over() = 0;

    [[nodiscard]] virtual std::string text() const = 0;  ///< for people, without credentials
};

}  // namespace semel::outbox
