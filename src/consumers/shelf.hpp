// The shelf: messages that failed and wait for their next try, wait behind one of those, or wait for a gap to be filled.
// All of it inside the transaction that the inbox has open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "semel/inbox.hpp"
#include "semel/message.hpp"

namespace semel {

struct Shelved {
    std::int64_t number = 0;  ///< given by the database: the order of messages with one ordering key
    std::uint32_t generation = 0;
    std::string aggregate{};
    std::optional<std::int64_t> sequence{};
    bool held = false;  ///< until the gap before it is filled; does not stand in the way of others
    TimePoint ready_at{};
    std::uint32_t tries = 0;  ///< so far
    TimePoint first_at{};
    std::string error{};
    Message message{};
};

/// An ordering key as text that any database takes, different for different keys; empty for the empty one.
std::string order_text(std::string_view key);

class Shelf {
public:
    Shelf(Inbox& inbox, std::string consumer) : inbox_(inbox), consumer_(std::move(consumer)) {}

    // Told to the inbox: what fails fails its commit.
    void put(const Shelved& shelved);
    void remove(std::int64_t number);
    /// Another try failed: later.
    void postpone(std::int64_t number, std::uint32_t tries, TimePoint ready_at, const std::string& error);
    /// Which of these ordering keys have a message waiting for its next try.
    Result<std::vector<std::string>> blocked(const std::vector<std::string>& ordering_keys);
    /// Those whose time has come, in their order within each ordering key and none behind one that has to wait; locked for
    /// this transaction.
    Result<std::vector<Shelved>> due(TimePoint now, std::size_t limit);
    /// When the next one is due; nothing if none waits for a time.
    Result<std::optional<TimePoint>> next_due();
    /// Told: lets the held message go that is the next of its aggregate by the marks under `book`, if there is one.
    void let_go(const std::string& aggregate, const std::string& book, TimePoint now);

private:
    Result<std::vector<SqlRow>> rows_behind(const std::vector<SqlRow>& first, std::size_t limit);
    Inbox& inbox_;
    std::string consumer_;
};

}  // namespace semel
