// One request inside one process: claims its operation, performs the effect if it is granted, renews, settles, and tells
// its client. What a gateway, a consumer or a workflow engine does, kept to the ledger's contract (I4, I6, I11).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "instance.hpp"

namespace semel::sim {

/// What a client is told.
enum class Told { stored, replay, mismatch, expired, busy, unknown, unavailable, corrupt, refused };
std::string_view name(Told told);
using Tell = std::move_only_function<void(Told)>;

struct Request {
    const Subject* subject;
    Fingerprint fingerprint;
    Policy policy;  ///< as this process is configured; the operation's own may be another (I12)
    std::uint64_t number;
};

class Handler : public std::enable_shared_from_this<Handler> {
public:
    Handler(std::shared_ptr<Instance> instance, World& world, Judge& judge, Request request, Tell tell);
    void start();

private:
    /// A grant and what keeps it alive.
    struct Hold {
        const Subject* subject;
        Holder holder;
        bool doubt;
        Steady begin_before;
        std::vector<Checkpoint> checkpoints;
        bool over = false;  ///< no renewals any more
        bool lost = false;  ///< fenced: nothing may begin
    };
    using Held = std::shared_ptr<Hold>;
    using Answered = std::move_only_function<void(GroupAnswer)>;
    using Then = std::move_only_function<void()>;

    void claim();
    void claim_answered(GroupAnswer answer, Steady sent);
    void once();
    void once_answered(Result<Executed> result, const Outcome& outcome);
    Held hold(const Subject& subject, const Claimed& claimed, Steady sent);
    void renew(const Held& held);
    void begin(const Held& held);
    void send(const Held& held, std::move_only_function<void(Reply, std::string)> done, Then lost);
    void replied(const Held& held, Reply reply, const std::string& receipt);
    void settle(const Held& held, Outcome outcome, bool conclusive, int tries);
    void let_go(const Held& held, Command command, Told told);
    void join(const Held& held, int tries);
    // workflow
    void step(const Held& held, std::size_t number, std::string receipts, int tries);
    void step_claimed(const Held& held, std::size_t number, std::string receipts, const Held& child);
    void step_settled(const Held& held, std::size_t number, const std::string& receipts, const Held& child,
                      Outcome outcome, int tries);
    void step_over(const Held& held, std::size_t number, std::string receipts, const Outcome& outcome);

    [[nodiscard]] Claim claim_of(const Subject& subject, const Policy& policy);
    void ask(std::vector<Command> commands, Duration wait, Answered done);
    void post(Duration delay, What what);
    void tell(Told told);

    std::shared_ptr<Instance> instance_;
    Stage& stage_;
    World& world_;
    Judge& judge_;
    Request request_;
    Tell tell_;
    Duration paused_until_{0};
};

}  // namespace semel::sim
