#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "consume/settings.hpp"
#include "consume/wallet.hpp"
#include "semel/keys.hpp"
#include "semel/postgres.hpp"
#include "support/figures.hpp"
#include "support/rounds.hpp"

namespace semel::bench {
namespace {

/// A topic filled with messages, gone at the end.
class Filled {
public:
    Filled(test::Broker& broker, const std::vector<Message>& messages) : broker_(broker) {
        broker_.create(topic_, 4);
        if (!messages.empty()) broker_.publish(topic_, messages);
    }
    ~Filled() { broker_.remove(topic_); }
    Filled(const Filled&) = delete;
    Filled& operator=(const Filled&) = delete;
    [[nodiscard]] const std::string& topic() const { return topic_; }

private:
    test::Broker& broker_;
    std::string topic_ = "bench-" + mint_uuid4().text();
};

Run of(int count, double seconds) {
    Run run;
    run.per_second = count / seconds;
    run.done = count;
    return run;
}

std::string per_second(const Contender& contender) {
    return fmt::format("{:.0f}", median(contender.figures.per_second));
}

}  // namespace

void measure_throughput(const ConsumeSettings& settings, Report& report) {
    for (const std::string& name : settings.brokers) {
        const auto broker = test::make_broker(name);
        const Postgres database(settings.postgres);
        const auto with = [&](int count, double duplicates, const auto& work) {
            return [&, count, duplicates, work]() -> Run {
                database.reset();
                const Filled filled(*broker, make_messages(name, count, settings.body_bytes, duplicates));
                return of(count, work(filled.topic(), count));
            };
        };
        const auto semel = [&](int lanes) {
            return [&, lanes](const std::string& topic, int count) {
                return run_semel(*broker, topic, count, settings, lanes).seconds;
            };
        };
        const auto textbook = [&](const std::string& topic, int count) {
            return run_textbook(*broker, topic, count, settings.postgres);
        };
        const auto by_hand = [&](int connections) {
            return [&, connections]() -> Run {
                database.reset();
                return of(settings.messages, run_batches(settings.messages, settings.postgres, connections));
            };
        };
        const double share1 = 0.01;
        const double share30 = 1.0 / 3;
        Rounds rounds;
        const Contender& raw = rounds.add(
            "client alone", with(settings.messages, 0,
                                 [&](const std::string& topic, int count) { return run_raw(*broker, topic, count); }));
        const Contender& book = rounds.add("textbook loop", with(settings.textbook_messages, 0, textbook));
        const Contender& limit = rounds.add("database, batches of 256 by hand", by_hand(1));
        const Contender& mine = rounds.add("Semel, four lanes", with(settings.messages, 0, semel(4)));
        const Contender& mine1 =
            rounds.add("Semel, four lanes, 1 % duplicates", with(settings.messages, share1, semel(4)));
        const Contender& mine30 =
            rounds.add("Semel, four lanes, 30 % duplicates", with(settings.messages, share30, semel(4)));
        const Contender& one = rounds.add("Semel, one lane", with(settings.messages, 0, semel(1)));
        const Contender& limit2 = rounds.add("database, by hand, two connections", by_hand(2));
        const Contender& limit4 = rounds.add("database, by hand, four connections", by_hand(4));
        const Contender& book30 =
            rounds.add("textbook loop, 30 % duplicates", with(settings.textbook_messages, share30, textbook));
        rounds.run(settings.rounds);
        Table table({name, "messages/s", "of the textbook loop", "of by hand"});
        for (const Contender* each : {&raw, &limit, &limit2, &limit4, &book, &mine, &mine1, &mine30, &one, &book30}) {
            table.add({each->name, per_second(*each), fmt::format("{:.1f}", ratio(*each, book)),
                       fmt::format("{:.2f}", ratio(*each, limit))});
            report.figure(fmt::format("{}/{}", name, each->name), median(each->figures.per_second));
        }
        Report::show(fmt::format("{}: messages of {} bytes into PostgreSQL", name, settings.body_bytes), table);
        // 10 times the textbook loop, or 0.8 of what the client or the database can do at all, where that is less.
        const double database_max = std::max({ratio(limit, book), ratio(limit2, book), ratio(limit4, book)});
        const double lower = std::min({10.0, 0.8 * ratio(raw, book), 0.8 * database_max});
        report.at_least(name + ": Semel as a multiple of the textbook loop", ratio(mine, book), lower);
        report.at_least(name + ": the same with 1 % duplicates", ratio(mine1, book), lower);
        report.at_least(name + ": the same with 30 % duplicates", ratio(mine30, book), lower);
    }
}

void measure_poison(const ConsumeSettings& settings, Report& report) {
    for (const std::string& name : settings.brokers) {
        const auto broker = test::make_broker(name);
        const Postgres database(settings.postgres);
        const auto with = [&](Poison poison) {
            return [&, poison]() -> Run {
                database.reset();
                const Filled filled(*broker, make_messages(name, settings.messages, settings.body_bytes, 0));
                return of(settings.messages,
                          run_semel(*broker, filled.topic(), settings.messages, settings, 4, poison).seconds);
            };
        };
        Rounds rounds;
        const Contender& clean = rounds.add("Semel", with(Poison::none));
        const Contender& at_once = rounds.add("Semel, 1 % poison", with(Poison::at_once));
        const Contender& late = rounds.add("Semel, 1 % poison, after its write", with(Poison::after_its_write));
        rounds.run(settings.rounds);
        Table table({name, "messages/s"});
        for (const Contender* each : {&clean, &at_once, &late}) table.add({each->name, per_second(*each)});
        Report::show(name + ": messages that fail for good", table);
        for (const Contender* each : {&at_once, &late})
            report.at_least(fmt::format("{}: {}", name, each->name), ratio(*each, clean), 0.9);
    }
}

// ---- latency ---------------------------------------------------------------------------------------------------

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::milliseconds low_rate{5};

/// Publishes one message at a time, with a pause after each, and waits until `done` counts it.
std::vector<double> publish_slowly(const ConsumeSettings& settings, test::Broker& broker, const std::string& topic,
                                   const std::atomic<std::uint64_t>& done) {
    const auto messages = make_messages(broker.name(), settings.latency_messages + 10, settings.body_bytes, 0);
    std::vector<double> micros;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const auto began = Steady::now();
        broker.publish(topic, std::span(&messages[i], 1));
        for (std::uint64_t seen = done; seen <= i; seen = done) done.wait(seen);
        // The first ones find nothing warm.
        if (i >= 10) micros.push_back(std::chrono::duration<double, std::micro>(Steady::now() - began).count());
        std::this_thread::sleep_for(low_rate);
    }
    return micros;
}

}  // namespace

void measure_latency(const ConsumeSettings& settings, Report& report) {
    for (const std::string& name : settings.brokers) {
        const auto broker = test::make_broker(name);
        const Postgres database(settings.postgres);
        Rounds rounds;
        const Contender& book = rounds.add("textbook loop", [&]() -> Run {
            database.reset();
            const Filled filled(*broker, {});
            std::atomic<std::uint64_t> done = 0;
            std::jthread thread([&](const std::stop_token& stop) {
                run_textbook_until(*broker, filled.topic(), settings.postgres, stop, done);
            });
            Run run;
            run.micros = publish_slowly(settings, *broker, filled.topic(), done);
            return run;
        });
        const Contender& mine = rounds.add("Semel", [&]() -> Run {
            database.reset();
            const Filled filled(*broker, {});
            std::atomic<std::uint64_t> done = 0;
            std::jthread thread([&](const std::stop_token& stop) {
                run_semel_until(*broker, filled.topic(), settings.postgres, stop, done);
            });
            Run run;
            run.micros = publish_slowly(settings, *broker, filled.topic(), done);
            return run;
        });
        rounds.run(settings.rounds);
        Table table({name, "p50 µs", "p99 µs"});
        for (const Contender* each : {&book, &mine})
            table.add({each->name, fmt::format("{:.0f}", median(each->figures.p50)),
                       fmt::format("{:.0f}", median(each->figures.p99))});
        Report::show(name + ": from publishing to the commit, one message at a time", table);
        report.at_most(name + ": p50 added to the textbook loop's, in ms",
                       (median(mine.figures.p50) - median(book.figures.p50)) / 1000, 1.0);
    }
}

}  // namespace semel::bench
