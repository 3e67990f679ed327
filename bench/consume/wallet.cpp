#include "consume/wallet.hpp"

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <deque>
#include <span>
#include <stdexcept>
#include <thread>

#include "semel/postgres.hpp"

namespace semel::bench {
namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point began) { return std::chrono::duration<double>(Steady::now() - began).count(); }

void must(PGresult* result, PGconn* connection) {
    const auto status = PQresultStatus(result);
    PQclear(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) throw std::runtime_error(PQerrorMessage(connection));
}

std::string id_of(const Message& message) {
    for (const MessageHeader& header : message.headers)
        if (header.name.ends_with("id")) return header.value;
    return {};
}

}  // namespace

Postgres::Postgres(const std::string& uri) : connection_(PQconnectdb(uri.c_str())) {
    if (PQstatus(raw()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(raw()));
}

void Postgres::run(const char* sql) const { must(PQexec(raw(), sql), raw()); }

void Postgres::reset() const {
    run("set client_min_messages = warning; drop table if exists account, seen; "
        "create table account (number integer primary key, balance bigint not null); "
        "insert into account select n, 0 from generate_series(0, 999) n; create table seen (id text primary key); "
        "truncate semel.operation, semel.shelf, semel.dead_letter, semel.consumer, semel.consumer_member");
}

void credit(PGconn* connection, int account) {
    constexpr const char* name = "bench_credit";
    const std::string number = std::to_string(account);
    const char* values[] = {number.c_str()};
    thread_local int prepared = 0;  // on which server process
    if (prepared != PQbackendPID(connection)) {
        must(PQprepare(connection, name, "update account set balance = balance + 1 where number = $1::integer", 1,
                       nullptr),
             connection);
        prepared = PQbackendPID(connection);
    }
    must(PQexecPrepared(connection, name, 1, values, nullptr, nullptr, 0), connection);
}

std::vector<Message> make_messages(const std::string& broker, int count, int bytes, double duplicates) {
    const std::string prefix = broker == "kafka" ? "ce_" : broker == "rabbitmq" ? "cloudEvents:" : "ce-";
    std::vector<Message> messages;
    const int every = duplicates > 0 ? static_cast<int>(1 / duplicates) : 0;
    for (int i = 0; i < count; ++i) {
        if (every > 0 && i % every == every - 1) {
            messages.push_back(messages[messages.size() / 2]);
            continue;
        }
        Message message;
        message.content_type = "application/json";
        message.ordering_key = fmt::format("account-{}", i % accounts);
        message.headers = {{prefix + "specversion", "1.0"},
                           {prefix + "id", fmt::format("credit-{}", i)},
                           {prefix + "source", "/bench"},
                           {prefix + "type", "credit"}};
        message.body = fmt::format(R"({{"account":{},"note":"{}"}})", i % accounts, std::string(bytes - 30, 'x'));
        messages.push_back(std::move(message));
    }
    return messages;
}

int account_of(std::string_view body) {
    constexpr std::string_view before = R"({"account":)";
    int account = 0;
    std::from_chars(body.data() + before.size(), body.data() + body.size(), account);
    return account;
}

double run_raw(test::Broker& broker, const std::string& topic, int count) {
    auto source = broker.open(topic, "raw");
    int got = 0;
    Steady::time_point began{};
    while (got < count) {
        auto fetched = source->fetch(256, std::chrono::seconds{1});
        if (!fetched) throw std::runtime_error(fetched.failure().message);
        if (fetched->empty()) continue;
        if (got == 0) began = Steady::now();
        std::vector<Ticket> tickets;
        for (const Delivery& delivery : *fetched) tickets.push_back(delivery.ticket);
        (void)source->acknowledge(tickets);
        got += static_cast<int>(fetched->size());
    }
    (void)source->flush(std::chrono::seconds{10});
    const double seconds = seconds_since(began);
    source->close();
    return seconds;
}

namespace {

/// The textbook: one transaction for one message.
class Textbook {
public:
    explicit Textbook(const std::string& uri) : database_(uri) {
        must(PQprepare(database_.raw(), "seen", "insert into seen (id) values ($1) on conflict do nothing", 1, nullptr),
             database_.raw());
    }
    void handle(Source& source, const Delivery& delivery) {
        PGconn* connection = database_.raw();
        const std::string id = id_of(delivery.message);
        const char* values[] = {id.c_str()};
        must(PQexec(connection, "begin"), connection);
        PGresult* inserted = PQexecPrepared(connection, "seen", 1, values, nullptr, nullptr, 0);
        const bool is_new = std::string_view(PQcmdTuples(inserted)) == "1";
        must(inserted, connection);
        if (is_new) credit(connection, account_of(delivery.message.body));
        must(PQexec(connection, "commit"), connection);
        (void)source.acknowledge(std::span(&delivery.ticket, 1));
    }

private:
    Postgres database_;
};

}  // namespace

double run_textbook(test::Broker& broker, const std::string& topic, int count, const std::string& uri) {
    auto source = broker.open(topic, "textbook");
    Textbook book(uri);
    int got = 0;
    Steady::time_point began{};
    while (got < count) {
        auto fetched = source->fetch(256, std::chrono::seconds{1});
        if (!fetched) throw std::runtime_error(fetched.failure().message);
        if (got == 0 && !fetched->empty()) began = Steady::now();
        for (const Delivery& delivery : *fetched) book.handle(*source, delivery);
        got += static_cast<int>(fetched->size());
    }
    const double seconds = seconds_since(began);
    source->close();
    return seconds;
}

void run_textbook_until(test::Broker& broker, const std::string& topic, const std::string& uri,
                        const std::stop_token& stop, std::atomic<std::uint64_t>& done) {
    auto source = broker.open(topic, "textbook");
    Textbook book(uri);
    while (!stop.stop_requested()) {
        auto fetched = source->fetch(256, std::chrono::milliseconds{200});
        if (!fetched) throw std::runtime_error(fetched.failure().message);
        for (const Delivery& delivery : *fetched) {
            book.handle(*source, delivery);
            ++done;
            done.notify_all();
        }
    }
    source->close();
}

namespace {

std::vector<std::unique_ptr<Inbox>> open_inboxes(const std::string& uri, int lanes) {
    std::vector<std::unique_ptr<Inbox>> inboxes;
    for (int i = 0; i < lanes; ++i) {
        auto inbox = postgres::open_inbox({.uri = uri});
        if (!inbox) throw std::runtime_error(inbox.failure().message);
        inboxes.push_back(std::move(*inbox));
    }
    return inboxes;
}

}  // namespace

void run_semel_until(test::Broker& broker, const std::string& topic, const std::string& uri,
                     const std::stop_token& stop, std::atomic<std::uint64_t>& done) {
    ConsumerOptions options;
    options.name = "semel";
    std::atomic<std::uint64_t> handled = 0;
    options.at = [&](std::string_view point) {
        if (point != "committed") return;
        done = handled.load();
        done.notify_all();
    };
    auto consumer = Consumer::make(options, broker.open(topic, "semel"), open_inboxes(uri, 2), [&](Work& work) {
        credit(work.transaction.postgres, account_of(work.event.data));
        ++handled;
    });
    if (!consumer) throw std::runtime_error(consumer.failure().message);
    (void)(*consumer)->run(stop);
}

SemelRun run_semel(test::Broker& broker, const std::string& topic, int count, const ConsumeSettings& settings,
                   int lanes, Poison poison) {
    ConsumerOptions options;
    options.name = "semel";
    options.retries = {.tries_max = 1};
    std::atomic<Steady::rep> began = 0;
    std::atomic<std::uint64_t> news = 0;
    options.at = [&](std::string_view point) {
        if (point == "claimed" && began == 0) {
            Steady::rep nobody = 0;
            began.compare_exchange_strong(nobody, Steady::now().time_since_epoch().count());
        }
        if (point != "acknowledged") return;
        ++news;
        news.notify_all();
    };
    constexpr std::size_t one_in = 100;
    auto consumer = Consumer::make(
        options, broker.open(topic, "semel", settings.tuning), open_inboxes(settings.postgres, lanes), [&](Work& work) {
            const bool fails = poison != Poison::none && std::hash<std::string>{}(work.event.id) % one_in == 0;
            if (fails && poison == Poison::at_once) throw std::runtime_error("poison");
            credit(work.transaction.postgres, account_of(work.event.data));
            if (fails) throw std::runtime_error("poison");
        });
    if (!consumer) throw std::runtime_error(consumer.failure().message);
    SemelRun run;
    std::jthread thread([&](const std::stop_token& stop) { (void)(*consumer)->run(stop); });
    while (true) {
        const std::uint64_t seen = news;
        run.counts = (*consumer)->counts();
        if (run.counts.applied + run.counts.duplicates + run.counts.dead >= static_cast<std::uint64_t>(count)) break;
        news.wait(seen);
    }
    run.seconds =
        std::chrono::duration<double>(Steady::now().time_since_epoch() - Steady::duration{began.load()}).count();
    return run;
}

namespace {

/// Batches of 256 of those messages whose account is this connection's.
void write_batches(const Postgres& database, int count, int connections, int mine) {
    PGconn* connection = database.raw();
    std::vector<int> numbers;
    for (int i = 0; i < count; ++i)
        if (i % accounts % connections == mine) numbers.push_back(i);
    constexpr std::size_t batch = 256;
    for (std::size_t at = 0; at < numbers.size(); at += batch) {
        const auto some = std::span(numbers).subspan(at, std::min(batch, numbers.size() - at));
        must(PQexec(connection, "begin"), connection);
        std::string ids;
        for (const int i : some) ids += fmt::format("{}credit-{}", ids.empty() ? "{" : ",", i);
        ids += "}";
        const char* values[] = {ids.c_str()};
        must(PQexecParams(connection,
                          "insert into seen (id) select * from unnest($1::text[]) on conflict do nothing returning id",
                          1, nullptr, values, nullptr, nullptr, 0),
             connection);
        for (const int i : some) credit(connection, i % accounts);
        must(PQexec(connection, "commit"), connection);
    }
}

}  // namespace

double run_batches(int count, const std::string& uri, int connections) {
    std::deque<Postgres> databases;
    for (int i = 0; i < connections; ++i) databases.emplace_back(uri);
    const auto began = Steady::now();
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < connections; ++i)
            threads.emplace_back(
                [&, i] { write_batches(databases[static_cast<std::size_t>(i)], count, connections, i); });
    }
    return seconds_since(began);
}

}  // namespace semel::bench
