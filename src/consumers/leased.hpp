// Messages whose effect no single transaction covers: each holds a lease in the ledger while it is worked on.
//
// States of a message, and what a crash in each leaves:
//   claimed         a lease that runs out; the message is delivered again, is Busy until then and is taken over afterwards if
//                   its policy allows that (`resume`: its steps are operations of their own; `retry`: the other side
//                   deduplicates), or else is unknown
//   given up        surely not done: the lease is released, and then it is put on the shelf; in between it is as if it had
//                   never been tried, and is delivered again
//   settled         done; the message is delivered again and found done
//   acknowledged    the same; the broker is done with it
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <variant>
#include <vector>

#include "async/lease_keeper.hpp"
#include "consumers/engine.hpp"
#include "consumers/group.hpp"
#include "semel/committer.hpp"

namespace semel {

/// What an effect came to.
struct Succeeded {
    Outcome outcome = Outcome::tombstone(message_status::handled);
};
/// It was not done, for sure: to be tried again.
struct NotDone {
    std::string error{};
    std::optional<Duration> not_before{};  ///< the other side asked for it
};
/// Nobody knows whether it was done. `repeat`: the other side deduplicates by our key, so that it may be tried again.
struct InDoubt {
    std::string error{};
    bool repeat = false;
    std::optional<Duration> not_before{};
};
/// No further try can help.
struct Refused {
    std::string error{};
};
/// Nothing can be delivered to the other side now, this message or another: everything waits.
struct Pause {
    std::string error{};
};
using EffectAnswer = std::variant<Succeeded, NotDone, InDoubt, Refused, Pause>;

/// Performs the effect of a message that is held. Must not throw.
using LeasedEffect = std::function<EffectAnswer(const Item& item, const Claimed& claimed, Inbox& inbox)>;

class Leased final : public Engine {
public:
    Leased(const ConsumerOptions& options, Policy policy, Inbox& inbox, Committer& committer,
           std::shared_ptr<LeaseKeeper> keeper, LeasedEffect effect);

    Status apply(std::vector<Item>& items) override;
    Result<FromShelf> apply_due(std::size_t limit) override;
    [[nodiscard]] TimePoint began() const override { return now_; }

private:
    Status apply_one(Item& item);
    Status perform(Item& item, const Claimed& claimed, std::chrono::steady_clock::time_point sent);
    Status conclude(Item& item, const Claimed& claimed, EffectAnswer answer);
    Status look_up_group();
    Result<bool> has_to_wait(const Item& item);
    Status retry_later(Item& item, std::string_view error, std::optional<Duration> not_before);
    Status bury_item(Item& item, DeadReason reason, std::string_view error, const Claimed* held = nullptr);
    Status put_back(const Item& item, Duration wait);
    Status forget_shelf(const Item& item);
    void at(std::string_view point) const;

    const ConsumerOptions& options_;
    Policy policy_;
    Inbox& inbox_;
    Committer& committer_;
    std::shared_ptr<LeaseKeeper> keeper_;
    LeasedEffect effect_;
    Shelf shelf_;
    GroupState group_{};
    std::chrono::steady_clock::time_point look_again_at_{};
    TimePoint now_{};
};

/// The effect of a handler with steps.
LeasedEffect run_steps(const ConsumerOptions& options, StepHandler handler);

}  // namespace semel
