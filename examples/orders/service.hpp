// What the three services share: their database, their broker, and how they end.
#pragma once

#include <semel/consumer.hpp>
#include <semel/kafka.hpp>
#include <semel/nats.hpp>
#include <semel/outbox.hpp>
#include <semel/postgres.hpp>

#include <libpq-fe.h>
#include <signal.h>
#include <simdjson.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace orders {

/// For starting up: what is there, or the end of the program.
template <class T>
T must(semel::Result<T> result) {
    if (!result) {
        std::cerr << result.failure().message << "\n";
        std::exit(1);
    }
    return std::move(*result);
}

/// A setting from the environment.
inline std::string setting(const char* name, const char* otherwise = nullptr) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
    if (otherwise != nullptr) return otherwise;
    std::cerr << name << " is not set\n";
    std::exit(2);
}

/// One statement in an open transaction. Throws if it fails.
inline void run(PGconn* transaction, const char* sql, std::initializer_list<std::string> parameters = {}) {
    std::vector<const char*> values;
    for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
    const std::unique_ptr<PGresult, void (*)(PGresult*)> result(
        PQexecParams(transaction, sql, static_cast<int>(values.size()), nullptr, values.data(), nullptr, nullptr, 0),
        PQclear);
    const auto status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) throw std::runtime_error(PQerrorMessage(transaction));
}

/// Puts an event beside what the transaction writes: it is published if and only if that commits. Events of one order are
/// published in the order in which they were committed.
inline void stage(PGconn* transaction, const std::string& topic, const std::string& order, const std::string& data,
                  const std::string& correlation) {
    semel::Event event;
    event.id = topic + "-" + order;  // there is one such event of an order
    event.source = "/orders";
    event.type = topic;
    event.subject = order;
    event.data_content_type = "application/json";
    event.data = data;
    event.extensions = {{"correlationid", correlation}};
    if (auto staged = semel::postgres::stage(transaction, {.topic = topic, .ordering_key = order, .event = event});
        !staged)
        throw std::runtime_error(staged.failure().message);
}

struct Order {
    std::string id{};
    std::int64_t cents = 0;
};

inline Order read_order(const semel::Event& event) {
    try {
        simdjson::ondemand::parser parser;
        const simdjson::padded_string text(event.data);
        auto data = parser.iterate(text);
        Order order;
        order.id = std::string(std::string_view(data["order"]));
        order.cents = data["cents"];
        return order;
    } catch (const simdjson::simdjson_error& error) {
        throw semel::Reject(error.what());  // no further try can help: it goes to the dead letters
    }
}

inline std::string correlation_of(const semel::Event& event) {
    const std::string* const correlation = event.extension("correlationid");
    return correlation == nullptr ? "" : *correlation;
}

/// For chaos: of every so many acknowledgements one is turned into its opposite, so that the broker delivers a message again
/// that was handled and committed.
class Forgetful final : public semel::Source {
public:
    Forgetful(std::unique_ptr<semel::Source> source, unsigned every) : source_(std::move(source)), every_(every) {}

    semel::Result<std::vector<semel::Delivery>> fetch(std::size_t limit, semel::Duration wait) override {
        return source_->fetch(limit, wait);
    }
    semel::Status acknowledge(std::span<const semel::Ticket> done) override {
        std::vector<semel::Ticket> kept;
        std::vector<semel::Ticket> forgotten;
        for (const semel::Ticket ticket : done) (random_() % every_ == 0 ? forgotten : kept).push_back(ticket);
        for (std::size_t i = 0; i < forgotten.size(); ++i) std::cout << "redelivery asked for" << std::endl;
        if (!forgotten.empty()) (void)source_->give_back(forgotten);
        return source_->acknowledge(kept);
    }
    semel::Status flush(semel::Duration wait) override { return source_->flush(wait); }
    semel::Status give_back(std::span<const semel::Ticket> undone) override { return source_->give_back(undone); }
    semel::Status keep(std::span<const semel::Ticket> working) override { return source_->keep(working); }
    [[nodiscard]] semel::Duration keep_every() const override { return source_->keep_every(); }
    std::vector<semel::Ticket> taken_away() override { return source_->taken_away(); }
    void close() override { source_->close(); }
    [[nodiscard]] std::string text() const override { return source_->text(); }

private:
    std::unique_ptr<semel::Source> source_;
    unsigned every_;
    std::minstd_rand random_{std::random_device{}()};
};

/// Messages of one topic: BROKER is nats or kafka, BROKER_URL where it is.
inline std::unique_ptr<semel::Source> open_source(const std::string& topic, const std::string& group) {
    const std::string broker = setting("BROKER", "nats");
    const std::string url = setting("BROKER_URL");
    std::unique_ptr<semel::Source> source;
    if (broker == "kafka")
        source = must(semel::kafka::open({.brokers = url,
                                          .group = group,
                                          .topics = {topic},
                                          // How long the others wait for one that was killed.
                                          .settings = {{"session.timeout.ms", "6000"}}}));
    else
        source = must(semel::nats::open({.url = url,
                                         .stream = "orders",
                                         .durable = group,
                                         .subject = topic,
                                         .ack_wait = std::chrono::seconds{2},
                                         .ordering_header = "ce-subject"}));
    const int every = std::atoi(setting("REDELIVER_ONE_IN", "0").c_str());
    if (every <= 0) return source;
    return std::make_unique<Forgetful>(std::move(source), static_cast<unsigned>(every));
}

/// Blocks the signals that end a service; before anything starts a thread.
inline sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    return signals;
}

/// Runs a consumer until a signal.
inline int serve(semel::Consumer& consumer, const sigset_t& signals) {
    int exit_code = 0;
    std::jthread worker([&](const std::stop_token& stop) {
        if (auto ended = consumer.run(stop); !ended) {
            std::cerr << ended.failure().message << "\n";
            exit_code = 1;
        }
        kill(getpid(), SIGTERM);  // if it has ended by itself: sigwait shall know
    });
    std::cout << "ready" << std::endl;
    std::uint64_t told = 0;
    const auto tell = [&] {
        if (const auto duplicates = consumer.counts().duplicates; duplicates != told)
            std::cout << "absorbed " << (told = duplicates) << " since the start" << std::endl;
    };
    const timespec now_and_then{.tv_sec = 0, .tv_nsec = 200'000'000};
    while (sigtimedwait(&signals, nullptr, &now_and_then) < 0) tell();
    worker.request_stop();
    worker.join();
    tell();
    return exit_code;
}

}  // namespace orders
