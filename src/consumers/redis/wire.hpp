// A thin layer over hiredis: one connection that never blocks, with commands sent ahead of their replies.
//
// hiredis connects, writes commands out as bytes and reads replies; the waiting and the sending are ours: it would wait
// for longer than a fetch may, and its write raises SIGPIPE where a server has gone.
#pragma once

#include <hiredis/hiredis.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "consumers/redis/address.hpp"
#include "semel/result.hpp"

namespace semel::redis {

using Steady = std::chrono::steady_clock::time_point;

struct FreeReply {
    void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

std::string_view text_of(const redisReply& reply);  ///< of a string, a status or an error; else empty
bool is_array(const redisReply& reply);

/// Any failure of it is `unavailable` and final: the connection is of no more use, and what the commands without a reply
/// have done is unknown.
class Wire {
public:
    /// Begins to connect; the first replies wait for it.
    static Result<Wire> begin(const Address& address);

    /// Queues a command and sends what the connection takes without waiting.
    Status send(const std::vector<std::string_view>& arguments);

    /// The next reply; nothing if there is none by the deadline.
    Result<std::optional<Reply>> next(Steady deadline);

private:
    struct Free {
        void operator()(redisContext* context) const { redisFree(context); }
    };
    Status write();
    Status finish_connecting();
    Failure lost(std::string_view what) const;

    std::unique_ptr<redisContext, Free> context_;
    std::string out_;  ///< bytes to be sent
    bool connected_ = false;
};

}  // namespace semel::redis
