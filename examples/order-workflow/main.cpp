// One order as a workflow on SQLite: reserve stock, charge the card, ship; docs/effects.md explains it.
//
//   order_workflow DATABASE KEY ITEM     runs it, goes on with it, or tells how it ended
//
// `ITEM` broken-card lets the charge be declined, so that the stock is given back; crash lets the process die after the card was
// charged, so that the next call of the same order goes on from there.
#include <sqlite3.h>
#include <semel/committer.hpp>
#include <semel/sqlite.hpp>
#include <semel/workflow.hpp>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

using namespace semel;
using namespace semel::effects;
using namespace std::chrono_literals;

namespace {

void execute(sqlite3* database, const std::string& sql) {
    if (sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK)
        throw std::runtime_error(sql + ": " + sqlite3_errmsg(database));
}

Local move_stock(int by) {
    return {[by](const Context&, Transaction transaction) {
        execute(transaction.sqlite, "update stock set left = left + " + std::to_string(by));
        return std::string("moved");
    }};
}

/// The card processor: in real life an HTTP call that carries call.key as its Idempotency-Key. Whether the process is to die
/// in the middle is decided outside.
Reply charge(const Context& context, const Call& call) {
    std::cout << "charging with key " << call.key.text() << (call.doubt ? ", again" : "") << "\n" << std::flush;
    if (context.input() == "crash" && !call.doubt) std::_Exit(9);
    if (context.input() == "broken-card") return Answered{{402, "the card was declined", true}, true};
    return Answered{{201, "receipt 17", true}, true};
}

Definition order() {
    auto processor = Provider::stripe();  // remembers our keys for 24 hours
    processor.lease = 2s;
    Definition definition{.name = "order"};
    definition.steps = {
        {.name = "reserve", .run = move_stock(-1), .compensation = move_stock(+1)},
        {.name = "charge", .run = External{.provider = processor, .call = charge}},
        {.name = "ship", .run = Local{[](const Context& context, Transaction) {
                             return "shipped " + context.input() + ", " + context.result("charge");
                         }}},
    };
    return definition;
}

int tell(const WorkflowAnswer& answer) {
    return std::visit(
        match{[](const Completed& c) { return std::cout << c.result << (c.replayed ? " (before)" : "") << "\n", 0; },
              [](const Compensated& c) { return std::cout << c.failed_step << ": " << c.failure.body << "\n", 1; },
              [](const Parked& p) { return std::cout << "parked at " << p.step << ": " << p.why << "\n", 3; },
              [](const Unfinished& u) { return std::cout << "not done yet: " << u.error << "\n", 3; },
              [](const Busy&) { return std::cout << "somebody is at it\n", 3; },
              [](const Mismatch&) { return std::cout << "this key was used for another order\n", 2; },
              [](const Superseded&) { return std::cout << "somebody took it over\n", 3; },
              [](const DefinitionChanged& d) { return std::cout << d.why << "\n", 2; }},
        answer);
}

template <class T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.failure().message);
    return std::move(*result);
}

int run(const std::string& path, const std::string& key, const std::string& item) {
    auto open_inbox = [path] { return sqlite::open_inbox({.path = path}); };
    const auto store = must(sqlite::open({.path = path}));
    {
        const auto inbox = must(open_inbox());
        (void)must(inbox->begin());
        execute(inbox->transaction().sqlite, "create table if not exists stock (left integer not null)");
        execute(inbox->transaction().sqlite, "insert into stock select 10 where not exists (select 1 from stock)");
        (void)must(inbox->commit());
    }
    const auto committer = must(Committer::start(*store));
    WorkflowOptions options;
    options.lease = 2s;
    options.inbox = open_inbox;
    const auto workflow = must(Workflow::make(order(), options, *committer));
    return tell(must(workflow->run({.key = must(Key::parse(key)), .input = item})));
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return std::cerr << "usage: order_workflow DATABASE KEY ITEM\n", 2;
    try {
        return run(argv[1], argv[2], argv[3]);
    } catch (const std::exception& error) {
        return std::cerr << error.what() << "\n", 1;
    }
}
