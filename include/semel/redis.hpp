// Messages from Redis Streams, by hiredis: a consumer group.
#pragma once

#include <memory>
#include <string>

#include "semel/source.hpp"

namespace semel::redis {

struct Options {
    std::string url{};  ///< redis://[[user]:password@]host:port[/database]; %NN for what a URL cannot carry
    std::string stream{};
    std::string group{};  ///< made if it is not there, from the stream's beginning
    /// This process's name in the group, and nobody else's; empty: minted, and removed again on close.
    std::string consumer{};
    /// Entries that a consumer has had for this long without a `keep` are taken over by another (XAUTOCLAIM).
    Duration idle_max = std::chrono::seconds{30};
    std::string ordering_field{};  ///< the field that keeps order; empty: none
    Duration connect_timeout = std::chrono::seconds{5};
    Duration timeout = std::chrono::seconds{5};  ///< for a reply
};

/// For Redis 7; its user needs the commands of streams and EVAL. What is given back, or left on close, is held by the
/// consumer `semel-given-back` until somebody takes it over, at once. A lost connection takes no ticket away: entries belong
/// to the consumer's name. To acknowledge an entry that another consumer has taken over without our knowing counts, as it
/// was done.
/// position is `stream@id`. An entry that was trimmed away before it was handled is reported once, by a failure `corrupt`
/// of fetch that names it, and is gone: nobody can deliver it any more. The server need not be there yet.
Result<std::unique_ptr<Source>> open(Options options);

}  // namespace semel::redis
