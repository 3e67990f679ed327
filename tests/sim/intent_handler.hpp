// One intent performed inside one process: the machine that Intents::perform drives, driven by simulated time.
#pragma once

#include <memory>
#include <optional>

#include "effects/intent_machine.hpp"
#include "handler.hpp"

namespace semel::sim {

class IntentHandler : public std::enable_shared_from_this<IntentHandler> {
public:
    /// `lookup`: the provider can be asked what became of a request. Only where the store's clock can be trusted.
    IntentHandler(std::shared_ptr<Instance> instance, World& world, Judge& judge, Request request, bool lookup,
                  Tell tell);
    void start();

private:
    using Answered = std::move_only_function<void(GroupAnswer)>;

    void act(effects::Act act);
    void claim();
    void call(const Claimed& claimed);
    void send(const Claimed& claimed);
    void holder_command(Command command, std::move_only_function<effects::Act(Result<HolderAnswer>)> then);
    void look_up();
    void resolve(const std::optional<Outcome>& verdict);
    void renew(const Holder& holder);
    void over(const Result<effects::Performance>& answer);
    void tell(Told told);

    void post(Duration delay, What what);
    void ask(std::vector<Command> commands, Duration wait, Answered done);
    [[nodiscard]] Duration elapsed() const { return stage_.now() - began_; }

    std::shared_ptr<Instance> instance_;
    Stage& stage_;
    World& world_;
    Judge& judge_;
    Request request_;
    Tell tell_;
    effects::IntentMachine machine_;
    Duration began_{0};
    Steady sent_{};
    Steady begin_before_{};
    std::optional<Holder> held_;
    Token token_seen_{};
    Outcome said_{};
    bool in_doubt_ = false;  ///< something of ours was sent, and nobody has said since what it came to
    Duration paused_until_{0};
};

}  // namespace semel::sim
