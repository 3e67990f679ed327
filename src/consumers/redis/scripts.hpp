// What has to happen at the server in one step, in Lua. KEYS[1] is the stream, ARGV[1] the group, ARGV[2] our consumer.
#pragma once

namespace semel::redis {

/// Who holds what was given back. Nobody reads by this name; whoever looks for idle entries takes them from it.
inline constexpr const char* given_back = "semel-given-back";

/// Hands entries that are still ours to the consumer ARGV[3], as if it had had them for ARGV[4] milliseconds; ARGV[5]… are
/// their ids. To ourselves with 0 that says that they are being worked on. Plain XCLAIM would take them from whoever has
/// taken them over from us. Returns {ids that are not ours any more, ids that were trimmed from the stream}.
///
/// XCLAIM of a trimmed entry drops it from the pending ones: this reply is the last that is heard of it.
inline constexpr const char* hand_over = R"lua(
local lost, trimmed = {}, {}
for i = 5, #ARGV do
  local id = ARGV[i]
  local held = redis.call('XPENDING', KEYS[1], ARGV[1], id, id, 1)[1]
  if not held or held[2] ~= ARGV[2] then
    lost[#lost + 1] = id
  elseif #redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, id, 'IDLE', ARGV[4], 'JUSTID') == 0 then
    trimmed[#trimmed + 1] = id
  end
end
return {lost, trimmed}
)lua";

/// XAUTOCLAIM of entries idle for ARGV[3] milliseconds from the id ARGV[4], at most ARGV[5]; its reply with a fourth part:
/// how often each entry was delivered.
inline constexpr const char* claim_idle = R"lua(
local reply = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local counts = {}
for i, entry in ipairs(reply[2]) do
  counts[i] = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)[1][4]
end
return {reply[1], reply[2], reply[3] or {}, counts}
)lua";

/// The entries that are pending for us after the id ARGV[3], at most ARGV[4], in the same form.
inline constexpr const char* read_own = R"lua(
local reply = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[4], 'STREAMS', KEYS[1], ARGV[3])
local entries = reply and reply[1][2] or {}
local counts = {}
for i, entry in ipairs(entries) do
  counts[i] = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)[1][4]
end
return {#entries > 0 and entries[#entries][1] or '', entries, {}, counts}
)lua";

/// Gives everything back that is pending for us, as if it had been had for ARGV[3] milliseconds, and then removes our
/// consumer if ARGV[4] is 1. Removing a consumer drops what is pending for it, so it stays if anything is: a trimmed entry
/// is left where the next XAUTOCLAIM finds and reports it. ARGV[5] is the consumer that gets the entries.
inline constexpr const char* leave = R"lua(
local from, left = '-', 0
while true do
  local held = redis.call('XPENDING', KEYS[1], ARGV[1], from, '+', 1000, ARGV[2])
  if #held == 0 then break end
  for _, entry in ipairs(held) do
    if #redis.call('XRANGE', KEYS[1], entry[1], entry[1]) == 0 then
      left = left + 1
    else
      redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[5], 0, entry[1], 'IDLE', ARGV[3], 'JUSTID')
    end
  end
  from = '(' .. held[#held][1]
end
if left == 0 and ARGV[4] == '1' then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2]) end
return left
)lua";

}  // namespace semel::redis
