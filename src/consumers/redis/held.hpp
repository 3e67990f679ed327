// Which deliveries are in work here, by ticket and by entry.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "semel/source.hpp"

namespace semel::redis {

/// A ticket is for one entry, and an entry has one ticket that counts: the last.
class Held {
public:
    /// A new ticket for that entry. One that it had before becomes stale.
    Ticket add(const std::string& id) {
        lose(id);
        const Ticket ticket{++last_};
        by_ticket_.emplace(ticket.value, id);
        by_id_.emplace(id, ticket.value);
        return ticket;
    }

    /// The entries of those tickets that are not stale.
    [[nodiscard]] std::vector<std::string> ids(std::span<const Ticket> tickets) const {
        std::vector<std::string> out;
        for (const Ticket ticket : tickets) {
            if (const auto at = by_ticket_.find(ticket.value); at != by_ticket_.end()) out.push_back(at->second);
        }
        return out;
    }

    /// The same, and nothing is known of them afterwards: their holder has no more use for them.
    std::vector<std::string> remove(std::span<const Ticket> tickets) {
        std::vector<std::string> out;
        for (const Ticket ticket : tickets) {
            const auto at = by_ticket_.find(ticket.value);
            if (at == by_ticket_.end()) continue;
            by_id_.erase(at->second);
            out.push_back(std::move(at->second));
            by_ticket_.erase(at);
        }
        return out;
    }

    /// The entry is somebody else's now: its ticket becomes stale.
    void lose(const std::string& id) {
        const auto at = by_id_.find(id);
        if (at == by_id_.end()) return;
        taken_away_.push_back(Ticket{at->second});
        by_ticket_.erase(at->second);
        by_id_.erase(at);
    }

    [[nodiscard]] bool has(const std::string& id) const { return by_id_.contains(id); }
    [[nodiscard]] std::vector<std::string> all() const {
        std::vector<std::string> out;
        for (const auto& [id, ticket] : by_id_) out.push_back(id);
        return out;
    }
    std::vector<Ticket> taken_away() { return std::exchange(taken_away_, {}); }

private:
    std::uint64_t last_ = 0;
    std::unordered_map<std::uint64_t, std::string> by_ticket_;
    std::unordered_map<std::string, std::uint64_t> by_id_;
    std::vector<Ticket> taken_away_;
};

}  // namespace semel::redis
