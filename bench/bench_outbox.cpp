// bench_outbox: events from committed rows to a broker, beside the poller that everybody writes first.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "outbox/settings.hpp"
#include "semel/postgres.hpp"

int main(int argc, char** argv) {
    using namespace semel::bench;
    OutboxSettings settings;
    bool check = false;
    std::string json;
    CLI::App app(
        "Events out of PostgreSQL into a broker: the naive poller (select … for update skip locked limit 1, publish, "
        "wait, "
        "delete, commit) and Semel. The servers are those in SEMEL_TEST_…; the outbox there is emptied.");
    app.add_option("--brokers", settings.brokers, "kafka, rabbitmq, nats, redis")
        ->check(CLI::IsMember({"kafka", "rabbitmq", "nats", "redis"}))
        ->delimiter(',');
    app.add_option("--rounds", settings.rounds, "how often everything is run")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--events", settings.events, "in one run")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--naive", settings.naive_events, "in one run of the naive poller")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--keys", settings.keys, "different ordering keys")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--bytes", settings.body_bytes, "of an event's data")
        ->check(CLI::Range(16, 1 << 20))
        ->capture_default_str();
    app.add_flag("--check", check, "exit with 1 if a target is missed");
    app.add_option("--json", json, "write the figures to this file, too");
    CLI11_PARSE(app, argc, argv);

    const char* uri = std::getenv("SEMEL_TEST_POSTGRES");
    if (uri == nullptr) {
        fmt::print(stderr, "bench: SEMEL_TEST_POSTGRES is not set (./dev bench outbox sets it)\n");
        return 2;
    }
    settings.postgres = uri;
    if (auto migrated = semel::postgres::migrate({.uri = settings.postgres}); !migrated) {
        fmt::print(stderr, "bench: {}\n", migrated.failure().message);
        return 1;
    }
    Report report;
    measure_outbox_throughput(settings, report);
    measure_outbox_delay(settings, report);
    report.show_targets();
    if (!json.empty() && !report.write_json(json)) {
        fmt::print(stderr, "bench: {}: cannot be written (--json)\n", json);
        return 1;
    }
    return check && !report.all_met() ? 1 : 0;
}
