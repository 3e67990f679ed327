// The dead letters: messages that nobody will try again unless a person says so.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "semel/inbox.hpp"
#include "semel/message.hpp"

namespace semel {

/// Why a message is dead, in a word that programs may rely on.
enum class DeadReason : std::uint8_t {
    unreadable,       ///< no envelope, or none of the configured kind
    no_key,           ///< without the id that the configuration names
    rejected,         ///< the handler, or the endpoint, says that no further try can help
    tries_exhausted,  ///< failed as often as it may
    key_reused,       ///< same id as an earlier message, other content
    outcome_unknown,  ///< an earlier holder vanished in mid-effect
    key_expired,      ///< so old that its record may have been swept
    refused,          ///< the ledger cannot take it
};
std::string_view name(DeadReason reason);

struct DeadLetter {
    std::int64_t number = 0;  ///< given by the database
    std::string consumer{};
    std::uint32_t generation = 0;
    std::optional<Operation> operation{};  ///< absent where no key was found
    std::string reason{};                  ///< name(DeadReason)
    std::string error{};
    std::uint32_t tries = 0;
    TimePoint at{};
    Message message{};
    std::string damage{};  ///< why its message or operation cannot be read any more; empty: it can
};

/// Buries a message, inside the open transaction, which fails if that fails. The same delivery again, or the same operation,
/// is not buried twice.
void bury(Inbox& inbox, const DeadLetter& letter);

/// For people and their tools, newest first, after `before` (zero: the newest). Each in a transaction of its own.
struct DeadFilter {
    std::optional<std::string> consumer{};
    std::optional<std::string> reason{};
    std::int64_t before = 0;
};
Result<std::vector<DeadLetter>> list_dead(Inbox& inbox, const DeadFilter& filter, std::size_t limit);
Result<std::optional<DeadLetter>> find_dead(Inbox& inbox, std::int64_t number);

/// Puts it back on the shelf, to be tried at once, under a new generation of its consumer: the original stays settled.
/// Returns that generation; nothing if there is no such letter.
Result<std::optional<std::uint32_t>> retry_dead(Inbox& inbox, std::int64_t number);
/// Forgets it. False: there is no such letter.
Result<bool> drop_dead(Inbox& inbox, std::int64_t number);

}  // namespace semel
