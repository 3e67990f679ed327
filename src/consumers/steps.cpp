// Handlers with steps: each is a local step (async/local_step.hpp) keyed derive(message, step), under the message's lease.
#include <fmt/format.h>

#include "async/local_step.hpp"
#include "consumers/leased.hpp"
#include "semel/fingerprint.hpp"
#include "semel/keys.hpp"

namespace semel {
namespace {

/// How long the results of steps are kept: longer than any message may take from its first try to its last.
constexpr Duration result_retention = std::chrono::hours{24 * 30};

/// The step could not be done; nothing of it remains. Passes through the handler.
class StepFailed : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class StepsOfMessage final : public Steps {
public:
    StepsOfMessage(const ConsumerOptions& options, const Item& item, const Claimed& claimed, Inbox& inbox)
        : options_(options), item_(item), claimed_(claimed), inbox_(inbox) {}

    [[nodiscard]] const Event& event() const override { return item_.event; }
    [[nodiscard]] const Message& message() const override { return *item_.message; }
    [[nodiscard]] const Operation& operation() const override { return *item_.operation; }
    [[nodiscard]] std::uint32_t tries() const override { return item_.tries; }

    std::string step(std::string_view name, const std::function<std::string(Transaction)>& effect) override {
        const LocalStep step{.operation = {item_.operation->scope, derive(*item_.operation, name)},
                             .fingerprint = fingerprint_of_bytes(name),
                             .retention = {options_.retention.identity, result_retention},
                             .correlation = "",
                             .whole = item_.id,
                             .token = claimed_.token};
        auto answer = run_local_step(inbox_, step, [&](Transaction transaction) {
            return Outcome{message_status::handled, effect(transaction), true};
        });
        const auto fail = [&](std::string_view why) { return StepFailed(fmt::format("step {}: {}", name, why)); };
        if (!answer) throw fail(answer.failure().message);
        auto* done = std::get_if<StepDone>(&*answer);
        if (done == nullptr) throw fail("the message was taken over by another consumer in the meantime");
        if (!done->outcome.kept) throw fail("it was done so long ago that its result is no longer kept");
        if (!done->replayed && options_.at) options_.at("step");
        return std::move(done->outcome.body);
    }

private:
    const ConsumerOptions& options_;
    const Item& item_;
    const Claimed& claimed_;
    Inbox& inbox_;
};

}  // namespace

LeasedEffect run_steps(const ConsumerOptions& options, StepHandler handler) {
    return [&options, handler = std::move(handler)](const Item& item, const Claimed& claimed,
                                                    Inbox& inbox) -> EffectAnswer {
        StepsOfMessage steps(options, item, claimed, inbox);
        try {
            handler(steps);
            return Succeeded{};
        } catch (const Reject& reject) {
            return Refused{reject.what()};
        } catch (...) {
            return NotDone{what_was_thrown(), std::nullopt};
        }
    };
}

}  // namespace semel
