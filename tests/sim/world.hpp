// What the operations of a simulation are, and the world their effects happen in: providers that count what they did,
// some of which deduplicate by key for a while and some of which do not.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "semel/ledger.hpp"
#include "stage.hpp"

namespace semel::sim {

enum class Kind {
    refuse,    ///< a provider that does not deduplicate
    retry,     ///< a provider that does, within its window
    resume,    ///< a workflow: its effects are those of its steps
    joined,    ///< the application settles in its own transaction under the token
    once,      ///< claim, effect row and outcome in one transaction of the caller's
    workflow,  ///< run by the product's own workflow engine
};
std::string_view name(Kind kind);

/// One operation and all that its callers agree on.
struct Subject {
    std::size_t number;
    Kind kind;
    Operation operation;
    OperationId id;
    Policy policy;
    std::optional<TimePoint> key_time;
    Fingerprint fingerprint;
    const Subject* parent;              ///< the workflow that this is a step of
    std::vector<const Subject*> steps;  ///< of a workflow
    std::vector<const Subject*> undos;  ///< of one that is run by the engine: by step; null where there is none
    bool poison = false;                ///< its claim fails every transaction it is part of

    [[nodiscard]] std::string text() const;
};

/// Statuses that the handlers settle with.
inline constexpr std::int32_t status_done = 200;
inline constexpr std::int32_t status_declined = 402;   ///< conclusive: it was not done and never will be
inline constexpr std::int32_t status_try_later = 429;  ///< not done this time
inline constexpr std::int32_t status_refused_from = 400;
inline constexpr std::int32_t status_forgotten = 0;  ///< a transaction that gave no outcome

enum class Reply { done, declined, try_later };

class World {
public:
    explicit World(Stage& stage) : stage_(stage) {}

    /// A new operation. Rare ones end their retention within the run.
    const Subject& add(Kind kind, TimePoint store_now, bool finite_retention, const Subject* parent);
    /// A workflow and its steps, as the engine names them.
    struct StepOf {
        Kind kind;
        Operation operation;
        Policy policy;
        Fingerprint fingerprint;
    };
    const Subject& add_workflow(const StepOf& whole, const std::vector<StepOf>& steps,
                                const std::vector<std::optional<StepOf>>& undos);
    [[nodiscard]] const std::vector<std::unique_ptr<Subject>>& subjects() const { return subjects_; }
    [[nodiscard]] const Subject& subject(const OperationId& id) const;
    [[nodiscard]] bool knows(const OperationId& id) const { return by_id_.contains(id); }

    /// A request on its way to the provider. `reply` comes later, or never.
    void send(const Subject& subject, const std::string& key,
              std::move_only_function<void(Reply, std::string receipt)> reply);

    struct Effects {
        int executed = 0;
        int in_flight = 0;  ///< sent, not yet at the provider
        std::set<std::string> keys;
        std::string receipt;  ///< of the one that was executed
        Duration first_at{0};
    };
    [[nodiscard]] const Effects& effects(const Subject& subject) const { return effects_[subject.number]; }

    /// The store's clock went wrong by this much: a provider's declared window has to allow for it.
    void clock_jumped(Duration by) { jumped_ += by < Duration{0} ? -by : by; }

private:
    using Answered = std::shared_ptr<std::move_only_function<void(Reply, std::string)>>;
    Subject& add_named(const StepOf& what, const Subject* parent);
    void arrive(const Subject& subject, const std::string& key, const Answered& reply, bool twice);

    Stage& stage_;
    std::vector<std::unique_ptr<Subject>> subjects_;
    std::map<OperationId, const Subject*> by_id_;
    std::vector<Effects> effects_;
    Duration jumped_{0};
};

}  // namespace semel::sim
