// What a listener of ours serves: one whole request in, one reply out. It lets a listener and what it serves be written
// without each other.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "http/problem.hpp"
#include "http/request.hpp"

namespace semel::http {

struct Reply {
    int status = 200;
    std::string type = "application/json";
    std::string body{};
    std::vector<std::pair<std::string, std::string>> fields{};  ///< besides Content-Type and what the listener writes
    /// Called, on the listener's thread, if the reply was not written whole, so that nobody can have read it.
    std::move_only_function<void()> undelivered{};

    static Reply of(ProblemAnswer problem) {
        Reply reply{
            .status = problem.status, .type = std::string(problem_content_type), .body = std::move(problem.body)};
        if (!problem.retry_after.empty()) reply.fields.emplace_back("Retry-After", std::move(problem.retry_after));
        return reply;
    }
};

/// Makes a reply, on the listener's thread: whoever has the answer need not spend its own time on writing it down.
using MakeReply = std::move_only_function<Reply()>;

/// An answer that is on its way. Used on the listener's thread.
class Pending {
public:
    virtual ~Pending() = default;
    /// Nobody waits any more: the client has hung up, or `within` has passed. The reply to give instead; from then on
    /// nothing else is answered. Nothing: the answer is on its way. It is asked again, every moment, until one is there.
    virtual std::optional<Reply> give_up() = 0;
};

/// Thread safe: several listeners may serve it. It outlives them.
class Service {
public:
    virtual ~Service() = default;

    /// Whether a path is one of its own.
    [[nodiscard]] virtual bool serves(std::string_view path) const = 0;

    /// Judges a request by its head: how many bytes of body it may have, or the reply if nothing more has to be read.
    [[nodiscard]] virtual std::variant<std::size_t, Reply> admit(const RequestHead& head) const = 0;

    /// Answers a request that was admitted and is there as a whole. Must not block. `done` is called at most once, on any
    /// thread, and not after give_up() has given a reply. `head` is gone when this returns.
    virtual std::unique_ptr<Pending> answer(const RequestHead& head, std::string body,
                                            std::move_only_function<void(MakeReply)> done) = 0;

    /// How long an answer may take.
    [[nodiscard]] virtual std::chrono::milliseconds within() const = 0;

    /// What it counts, in Prometheus' format.
    [[nodiscard]] virtual std::string metrics() const { return {}; }
};

}  // namespace semel::http
