// Ships what is paid for: one shipment for each order.paid, in the transaction that notes that the event was handled.
//
//     DATABASE=postgres://… BROKER=nats BROKER_URL=nats://… fulfilment_service
#include "service.hpp"

int main() {
    const sigset_t signals = orders::block_signals();
    semel::ConsumerOptions options;
    options.name = "fulfilment";
    options.retries.first = std::chrono::milliseconds{100};
    options.log = [](std::string_view line) { std::cerr << line << "\n"; };
    const auto ship = [](semel::Work& work) {
        const orders::Order order = orders::read_order(work.event);
        // No unique constraint: a second shipment would be seen.
        orders::run(work.transaction.postgres, "insert into shipment (order_id, correlation) values ($1, $2)",
                    {order.id, orders::correlation_of(work.event)});
    };
    const auto consumer = orders::must(
        semel::Consumer::make(options, orders::open_source("order.paid", "fulfilment"),
                              orders::must(semel::postgres::open_inbox({.uri = orders::setting("DATABASE")})), ship));
    return orders::serve(*consumer, signals);
}
