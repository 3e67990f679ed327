#include <fmt/format.h>
#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "outbox/publishers.hpp"
#include "outbox/pump.hpp"
#include "outbox/settings.hpp"
#include "semel/keys.hpp"
#include "semel/postgres.hpp"
#include "support/figures.hpp"
#include "support/rounds.hpp"
#include "tests/consumers/broker.hpp"

namespace semel::bench {
namespace {

using outbox::Handed;
using outbox::Publisher;
using outbox::Receipt;
using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long a naive poller sleeps when it has found nothing.
constexpr milliseconds naive_sleep{50};
constexpr milliseconds low_rate{10};
constexpr int stage_batch = 500;

double seconds_since(Steady::time_point began) { return std::chrono::duration<double>(Steady::now() - began).count(); }

class Database {
public:
    explicit Database(const std::string& uri) : connection_(PQconnectdb(uri.c_str())) {
        if (PQstatus(raw()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(raw()));
    }
    [[nodiscard]] PGconn* raw() const { return connection_.get(); }
    std::string run(const std::string& sql) const {
        const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(raw(), sql.c_str()), &PQclear);
        const auto status = PQresultStatus(result.get());
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) throw std::runtime_error(PQerrorMessage(raw()));
        return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
    }
    void reset() const {
        run("set client_min_messages = warning; truncate semel.outbox, semel.outbox_lease, semel.outbox_relay, "
            "semel.outbox_stuck; drop table if exists naive_outbox; "
            "create table naive_outbox (id bigserial primary key, topic text not null, key text not null, data text "
            "not null)");
    }

private:
    struct Finish {
        void operator()(PGconn* connection) const { PQfinish(connection); }
    };
    std::unique_ptr<PGconn, Finish> connection_;
};

outbox::To to(const std::string& broker) {
    const auto address = [](const char* name) -> std::string {
        const char* found = std::getenv(name);
        return found == nullptr ? "" : found;
    };
    if (broker == "kafka") return outbox::KafkaOptions{.brokers = address("SEMEL_TEST_KAFKA")};
    if (broker == "rabbitmq") {
        outbox::RabbitmqOptions options;
        options.connection.url = address("SEMEL_TEST_RABBITMQ");
        return options;
    }
    if (broker == "nats") {
        outbox::NatsOptions options;
        options.connection.url = address("SEMEL_TEST_NATS");
        return options;
    }
    outbox::RedisOptions options;
    options.connection.url = address("SEMEL_TEST_REDIS");
    return options;
}

std::unique_ptr<Publisher> open_to(const std::string& broker) {
    auto opened = outbox::open_publisher(to(broker));
    if (!opened) throw std::runtime_error(opened.failure().message);
    return std::move(*opened);
}

/// A topic, gone at the end.
class Topic {
public:
    explicit Topic(test::Broker& broker) : broker_(broker) { broker_.create(name_, 4); }
    ~Topic() { broker_.remove(name_); }
    Topic(const Topic&) = delete;
    Topic& operator=(const Topic&) = delete;
    [[nodiscard]] const std::string& name() const { return name_; }

private:
    test::Broker& broker_;
    std::string name_ = "bench-" + mint_uuid4().text();
};

/// Takes everything at once: what is left is the database.
class Nowhere final : public Publisher {
public:
    Result<Handed> publish(const OutboxRow& row) override {
        came_.push_back({row.place, Receipt::What::confirmed, ""});
        return Handed{};
    }
    Result<std::vector<Receipt>> receipts(Duration) override { return std::exchange(came_, {}); }
    [[nodiscard]] bool keeps_order() const override { return true; }
    [[nodiscard]] std::size_t on_their_way_max() const override { return 10'000; }
    void start_over() override { came_.clear(); }
    [[nodiscard]] std::string text() const override { return "nowhere"; }

private:
    std::vector<Receipt> came_;
};

/// Notes when the receipt of each event came.
class Timed final : public Publisher {
public:
    explicit Timed(Publisher& publisher) : publisher_(publisher) {}
    Result<Handed> publish(const OutboxRow& row) override {
        ids_[row.place] = row.staged.event.id;
        return publisher_.publish(row);
    }
    Result<std::vector<Receipt>> receipts(Duration wait) override {
        auto came = publisher_.receipts(wait);
        const auto now = Steady::now();
        if (!came) return came;
        const std::lock_guard lock(mutex_);
        for (const Receipt& each : *came) confirmed_.try_emplace(ids_[each.place], now);
        count_ = confirmed_.size();
        count_.notify_all();
        return came;
    }
    [[nodiscard]] bool keeps_order() const override { return publisher_.keeps_order(); }
    [[nodiscard]] std::size_t on_their_way_max() const override { return publisher_.on_their_way_max(); }
    void start_over() override { publisher_.start_over(); }
    [[nodiscard]] std::string text() const override { return publisher_.text(); }

    Steady::time_point wait_for(const std::string& id, std::size_t count) {
        for (std::size_t seen = count_; seen < count; seen = count_) count_.wait(seen);
        const std::lock_guard lock(mutex_);
        return confirmed_.at(id);
    }

private:
    Publisher& publisher_;
    std::map<OutboxPlace, std::string> ids_;
    std::mutex mutex_;
    std::map<std::string, Steady::time_point> confirmed_;
    std::atomic<std::size_t> count_ = 0;
};

/// Stages `count` events, so many in a transaction. Seconds.
double stage_all(const Database& database, const OutboxSettings& settings, const std::string& topic, int count) {
    const auto began = Steady::now();
    for (int from = 0; from < count; from += stage_batch)
        database.run(
            fmt::format("select count(semel.stage('{}', '/bench', 'paid', convert_to(repeat('x', {}), 'UTF8'), "
                        "'key-' || n % {}, 'event-' || n)) from generate_series({}, {}) n",
                        topic, settings.body_bytes, settings.keys, from, std::min(from + stage_batch, count) - 1));
    return seconds_since(began);
}

/// Until the outbox is empty; seconds.
double pump_all(const std::string& uri, Publisher& publisher, int count) {
    auto table = postgres::open_outbox({.uri = uri}, "main", mint_uuid4().text());
    if (!table) throw std::runtime_error(table.failure().message);
    outbox::Pump pump(**table, publisher, {}, [](std::string_view level, std::string_view text) {
        if (level != "info") fmt::print(stderr, "bench: {}\n", text);
    });
    const auto began = Steady::now();
    std::jthread thread([&](const std::stop_token& stop) { pump.run(stop); });
    while (pump.state().published < static_cast<std::uint64_t>(count)) std::this_thread::sleep_for(milliseconds{1});
    const double seconds = seconds_since(began);
    thread.request_stop();
    thread.join();
    return seconds;
}

/// The naive poller: one transaction for each event, as it is commonly written. Whether there was one.
bool naive_step(const Database& database, Publisher& publisher) {
    database.run("begin");
    const std::unique_ptr<PGresult, decltype(&PQclear)> found(
        PQexec(database.raw(),
               "select id, topic, key, data from naive_outbox order by id limit 1 for update skip locked"),
        &PQclear);
    if (PQntuples(found.get()) == 0) {
        database.run("commit");
        return false;
    }
    const std::string id = PQgetvalue(found.get(), 0, 0);
    OutboxRow row;
    row.place.sequence = std::stoll(id);
    row.staged = {.topic = PQgetvalue(found.get(), 0, 1), .ordering_key = PQgetvalue(found.get(), 0, 2)};
    row.staged.event = {.id = "naive-" + id, .source = "/bench", .type = "paid", .data = PQgetvalue(found.get(), 0, 3)};
    if (auto handed = publisher.publish(row); !handed) throw std::runtime_error(handed.failure().message);
    while (true) {
        auto came = publisher.receipts(std::chrono::seconds{10});
        if (!came) throw std::runtime_error(came.failure().message);
        if (!came->empty()) break;
    }
    database.run("delete from naive_outbox where id = " + id);
    database.run("commit");
    return true;
}

Run of(int count, double seconds) {
    Run run;
    run.per_second = count / seconds;
    run.done = count;
    return run;
}

void fill_naive(const Database& database, const OutboxSettings& settings, const std::string& topic, int count) {
    database.run(
        fmt::format("insert into naive_outbox (topic, key, data) select '{}', 'key-' || n % {}, repeat('x', {}) from "
                    "generate_series(0, {}) n",
                    topic, settings.keys, settings.body_bytes, count - 1));
}

}  // namespace

void measure_outbox_throughput(const OutboxSettings& settings, Report& report) {
    for (const std::string& name : settings.brokers) {
        const auto broker = test::make_broker(name);
        const Database database(settings.postgres);
        Rounds rounds;
        const Contender& naive = rounds.add("naive poller", [&]() -> Run {
            database.reset();
            const Topic topic(*broker);
            fill_naive(database, settings, topic.name(), settings.naive_events);
            const auto publisher = open_to(name);
            const Database own(settings.postgres);
            const auto began = Steady::now();
            while (naive_step(own, *publisher)) {
            }
            return of(settings.naive_events, seconds_since(began));
        });
        const Contender& staging = rounds.add(fmt::format("database: staging, {} a commit", stage_batch), [&]() -> Run {
            database.reset();
            return of(settings.events, stage_all(database, settings, "nowhere", settings.events));
        });
        const Contender& removing = rounds.add("database: reading and deleting, without a broker", [&]() -> Run {
            database.reset();
            stage_all(database, settings, "nowhere", settings.events);
            Nowhere nowhere;
            return of(settings.events, pump_all(settings.postgres, nowhere, settings.events));
        });
        const Contender& mine = rounds.add("Semel", [&]() -> Run {
            database.reset();
            const Topic topic(*broker);
            stage_all(database, settings, topic.name(), settings.events);
            const auto publisher = open_to(name);
            return of(settings.events, pump_all(settings.postgres, *publisher, settings.events));
        });
        rounds.run(settings.rounds);
        Table table({name, "events/s", "of the naive poller"});
        for (const Contender* each : {&naive, &staging, &removing, &mine}) {
            table.add({each->name, fmt::format("{:.0f}", median(each->figures.per_second)),
                       fmt::format("{:.1f}", ratio(*each, naive))});
            report.figure(fmt::format("{}/{}", name, each->name), median(each->figures.per_second));
        }
        Report::show(fmt::format("{}: events of {} bytes, {} ordering keys", name, settings.body_bytes, settings.keys),
                     table);
        report.at_least(name + ": Semel as a multiple of the naive poller", ratio(mine, naive), 5);
        const double limit = std::min(median(staging.figures.per_second), median(removing.figures.per_second));
        report.at_least(name + ": Semel, events/s (20,000, or what the database stages or deletes in batches)",
                        median(mine.figures.per_second), std::min(20'000.0, limit));
    }
}

void measure_outbox_delay(const OutboxSettings& settings, Report& report) {
    for (const std::string& name : settings.brokers) {
        const auto broker = test::make_broker(name);
        const Database database(settings.postgres);
        const auto slowly = [&](Timed& timed, const std::string& prefix, const auto& commit) {
            std::vector<double> micros;
            for (int i = 1; i <= settings.latency_events + 10; ++i) {
                commit(i);
                const auto committed = Steady::now();
                const auto there = timed.wait_for(prefix + std::to_string(i), static_cast<std::size_t>(i));
                // The first ones find nothing warm.
                if (i > 10)
                    micros.push_back(
                        std::max(0.0, std::chrono::duration<double, std::micro>(there - committed).count()));
                std::this_thread::sleep_for(low_rate);
            }
            return micros;
        };
        Rounds rounds;
        const Contender& naive = rounds.add("naive poller", [&]() -> Run {
            database.reset();
            const Topic topic(*broker);
            const auto publisher = open_to(name);
            Timed timed(*publisher);
            std::jthread poller([&](const std::stop_token& stop) {
                const Database own(settings.postgres);
                while (!stop.stop_requested())
                    if (!naive_step(own, timed)) std::this_thread::sleep_for(naive_sleep);
            });
            Run run;
            run.micros = slowly(timed, "naive-", [&](int) { fill_naive(database, settings, topic.name(), 1); });
            return run;
        });
        const Contender& mine = rounds.add("Semel", [&]() -> Run {
            database.reset();
            const Topic topic(*broker);
            const auto publisher = open_to(name);
            Timed timed(*publisher);
            auto table = postgres::open_outbox({.uri = settings.postgres}, "main", mint_uuid4().text());
            if (!table) throw std::runtime_error(table.failure().message);
            outbox::Pump pump(**table, timed, {}, [](auto, auto) {});
            std::jthread thread([&](const std::stop_token& stop) { pump.run(stop); });
            Run run;
            run.micros = slowly(timed, "event-", [&](int i) {
                database.run(fmt::format("select semel.stage('{}', '/bench', 'paid', '\\x00', 'key', 'event-{}')",
                                         topic.name(), i));
            });
            return run;
        });
        rounds.run(settings.rounds);
        Table shown({name, "p50 µs", "p99 µs"});
        for (const Contender* each : {&naive, &mine}) {
            shown.add({each->name, fmt::format("{:.0f}", median(each->figures.p50)),
                       fmt::format("{:.0f}", median(each->figures.p99))});
            report.figure(fmt::format("{}/{}/p50 µs", name, each->name), median(each->figures.p50));
            report.figure(fmt::format("{}/{}/p99 µs", name, each->name), median(each->figures.p99));
        }
        Report::show(
            fmt::format("{}: from commit to the broker's receipt, one event at a time (the poller sleeps {} ms)", name,
                        naive_sleep.count()),
            shown);
    }
}

}  // namespace semel::bench
