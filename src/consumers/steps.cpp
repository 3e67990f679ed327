// Handlers with steps: each step is an operation of its own, in a transaction with its writes and its result, keyed
// derive(message, step). The message's lease only keeps two consumers from doing the same work at the same time; each step
// checks in its own transaction that it is still held.
#include <fmt/format.h>

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
        const Operation operation{item_.operation->scope, derive(*item_.operation, name)};
        const auto fail = [&](std::string_view why) {
            inbox_.roll_back();
            throw StepFailed(fmt::format("step {}: {}", name, why));
        };
        if (auto begun = inbox_.begin(); !begun) fail(begun.failure().message);
        auto held = inbox_.holds(item_.id, claimed_.token);
        if (!held) fail(held.failure().message);
        if (!*held) fail("the message was taken over by another consumer in the meantime");
        const Retention retention{options_.retention.identity, result_retention};
        const InboxClaim wanted{operation, fingerprint_of_bytes(name), retention, ""};
        auto answers = inbox_.claim(std::span(&wanted, 1));
        if (!answers) fail(answers.failure().message);
        TransactionClaim& answer = answers->front();
        if (auto* replay = std::get_if<Replay>(&answer)) {
            if (!replay->outcome.kept) fail("it was done so long ago that its result is no longer kept");
            inbox_.roll_back();
            return std::move(replay->outcome.body);
        }
        auto* mine = std::get_if<Claimed>(&answer);
        if (mine == nullptr) fail("its operation is in somebody else's hands");
        std::string result;
        try {
            result = effect(inbox_.transaction());
        } catch (...) {
            inbox_.roll_back();
            throw;
        }
        if (!inbox_.alive() || inbox_.broken()) fail("a statement failed, or the connection was lost");
        if (auto settled = inbox_.settle(operation, *mine, Outcome{message_status::handled, result, true}); !settled)
            fail(settled.failure().message);
        if (auto committed = inbox_.commit(); !committed) fail(committed.failure().message);
        if (options_.at) options_.at("step");
        return result;
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
