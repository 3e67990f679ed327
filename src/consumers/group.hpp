// What a consumer's group has in common: its replay generation, and how far each member has come.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "semel/inbox.hpp"

namespace semel {

struct GroupState {
    TimePoint now{};  ///< by the database's clock
    std::uint32_t generation = 0;
    bool shelf_in_use = false;  ///< some message waits for its next try
};

/// Makes the group if it is not there; inside the open transaction. Others that begin meanwhile wait for its end.
Status make_group(Inbox& inbox, const std::string& consumer);

/// Begins a transaction with the group as it stands; made if it is not there. The generation cannot change before that
/// transaction has ended.
Result<GroupState> begin_for_group(Inbox& inbox, const std::string& consumer);

/// The next generation that was never used, for one message; inside the open transaction.
Result<std::uint32_t> next_generation(Inbox& inbox, const std::string& consumer);

/// "These again, on purpose": from here on the group works under a new generation, which is returned. `contended` while
/// anything of it is open: messages on the shelf, members that have not ended in order. In a transaction of its own.
Result<std::uint32_t> start_replay(Inbox& inbox, const std::string& consumer);

/// Everything this member settled before `progress` is acknowledged; in the open transaction. Also forgets members that
/// have been silent since this one has been at work for `silence_max`.
inline constexpr Duration silence_max = std::chrono::hours{1};
Status note_progress(Inbox& inbox, const std::string& consumer, const std::string& member, TimePoint progress,
                     TimePoint now, TimePoint since);
/// The member has ended in order: all it settled is acknowledged.
Status leave_group(Inbox& inbox, const std::string& consumer, const std::string& member);

/// For people. In a transaction of its own.
struct GroupReport {
    std::string name{};
    std::uint32_t generation = 0;
    std::int64_t waiting = 0;  ///< on the shelf, for their next try
    std::int64_t held = 0;     ///< on the shelf, for a gap to be filled
    std::int64_t dead = 0;
    std::int64_t members = 0;
    TimePoint progress{};  ///< the least of its members'; zero without members
};
Result<std::vector<GroupReport>> report_groups(Inbox& inbox);
/// Forgets its members' progress: the sweep no longer waits for them. False: there is no such consumer.
Result<bool> forget_members(Inbox& inbox, const std::string& consumer);

}  // namespace semel
