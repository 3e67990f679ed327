// The workflow of the tests: reserve (local), charge (external), ship (local), and their undoing.
#pragma once

#include <functional>
#include <string>

#include "consumers/database.hpp"
#include "provider.hpp"
#include "semel/workflow.hpp"

namespace semel::test {

using namespace std::chrono_literals;

/// The provider of the charges: it deduplicates, or nothing is known about it.
inline effects::Provider provider_of(Honours honours, Duration lease) {
    auto provider = honours == Honours::keys ? effects::Provider::deduplicating("bank", 24h)
                                             : effects::Provider::at_most_once("bank");
    provider.lease = lease;
    provider.call_deadline = lease;
    return provider;
}

struct OrderParts {
    ChargeBook charges;
    ChargeBook refunds;
    Honours honours;
    Duration lease;
    /// Called inside of the call that charges, after it was charged.
    std::function<void()> inside{};
};

inline void note(const effects::Context& context, const Transaction& transaction, const std::string& what) {
    execute(transaction,
            "insert into done (id, step) values ('" + context.operation().key.text() + "', '" + what + "')");
}

/// An input that begins with "fail" lets `ship` fail for good.
inline effects::Definition order_definition(OrderParts parts) {
    using namespace effects;
    const auto done = [](std::string body) { return Answered{{200, std::move(body), true}, true}; };
    const auto local = [](std::string what) {
        return Local{[what](const Context& context, Transaction transaction) {
            note(context, transaction, what);
            return what + " done";
        }};
    };
    const Limits limits{.calls_max = 3, .total = 20s, .backoff_first = 20ms, .backoff_max = 200ms};
    Definition definition{.name = "order"};
    definition.steps.push_back({"reserve", local("reserve"), local("unreserve")});
    definition.steps.push_back({"charge",
                                External{.provider = provider_of(parts.honours, parts.lease),
                                         .call = [parts, done](const Context&, const Call& call) -> Reply {
                                             auto receipt = parts.charges.charge(call.key.text());
                                             if (parts.inside) parts.inside();
                                             return done(std::move(receipt));
                                         },
                                         .limits = limits},
                                External{.provider = provider_of(parts.honours, parts.lease),
                                         .call = [parts, done](const Context& context, const Call& call) -> Reply {
                                             (void)context.result("charge");
                                             return done(parts.refunds.charge(call.key.text()));
                                         },
                                         .limits = limits}});
    definition.steps.push_back({"ship", Local{[](const Context& context, Transaction transaction) {
                                    note(context, transaction, "ship");
                                    if (context.input().starts_with("fail")) throw StepFailed("out of stock");
                                    return "shipped after " + context.result("charge");
                                }},
                                std::nullopt});
    return definition;
}

inline constexpr const char* done_table = "create table done (id text not null, step text not null)";

}  // namespace semel::test
