// Workflows inside of one process: the product's own engine and completer, on fibers, over the process's commit queue and the
// simulated store. What is simulated is what they wait for.
#pragma once

#include <map>
#include <memory>
#include <set>

#include "effects/completing.hpp"
#include "effects/surroundings.hpp"
#include "fiber.hpp"
#include "handler.hpp"
#include "instance.hpp"

namespace semel::sim {

/// The workflow of a simulation, the same for all of its processes: reserve (local), charge (a provider that deduplicates),
/// notify (one that does not) and ship (local); the first two can be undone.
struct Order {
    effects::Provider charges;
    effects::Provider notices;
    Duration lease{};
    effects::Limits limits{};

    static Order make(Stage& stage);
    /// A new one and its steps.
    const Subject& add_to(World& world, Stage& stage) const;
};

class WorkflowHost {
public:
    WorkflowHost(std::shared_ptr<Instance> instance, World& world, Judge& judge, const Order& order);
    ~WorkflowHost();
    WorkflowHost(const WorkflowHost&) = delete;
    WorkflowHost& operator=(const WorkflowHost&) = delete;

    void run(const Request& request, Tell tell);
    /// The completer looks, and carries on what it finds.
    void complete();

private:
    class Ledger;
    class Reader;
    class KeptLeases;
    class Time;
    class Rows;

    effects::Definition definition();
    effects::Reply call(const effects::Context& context, const effects::Call& call, std::size_t step, bool undo);
    void completes();

    std::shared_ptr<Instance> instance_;
    World& world_;
    Judge& judge_;
    Stage& stage_;
    Order order_;
    Fibers fibers_;
    std::unique_ptr<Reader> reader_;
    std::unique_ptr<Ledger> ledger_;
    std::unique_ptr<KeptLeases> leases_;
    std::unique_ptr<Time> time_;
    std::unique_ptr<effects::Workflow> workflow_;
    std::unique_ptr<effects::Completing> completing_;
};

}  // namespace semel::sim
