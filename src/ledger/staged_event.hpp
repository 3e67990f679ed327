// A staged event as the databases keep it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "semel/outbox.hpp"

namespace semel {

/// How many bytes of data one read of an outbox takes, of all shards together, however many events it may have: rows up to the
/// one that reaches it, and of each shard at least one. The rest is there at the next turn.
inline constexpr std::size_t outbox_read_bytes_max = 32U << 20;

/// `name=value`, a line each, in the order of names.
std::string extension_lines(const Event& event);
std::vector<MessageHeader> extensions_of(std::string_view lines);

}  // namespace semel
