// bench_consume: what applying each message once costs, beside the client alone and beside the loop everybody writes first.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>

#include "consume/settings.hpp"
#include "semel/postgres.hpp"

int main(int argc, char** argv) {
    using namespace semel::bench;
    ConsumeSettings settings;
    bool latency = false;
    bool poison = false;
    bool check = false;
    std::string json;
    CLI::App app(
        "Messages into PostgreSQL, from each broker: the client alone, one transaction per message, Semel. The servers "
        "are "
        "those in SEMEL_TEST_…; the schema `semel` is emptied.");
    app.add_option("--brokers", settings.brokers, "kafka, rabbitmq, nats, redis")
        ->check(CLI::IsMember({"kafka", "rabbitmq", "nats", "redis"}))
        ->delimiter(',');
    app.add_option("--rounds", settings.rounds, "how often everything is run")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--messages", settings.messages, "in one run")->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("--textbook", settings.textbook_messages, "in one run of the textbook loop")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--bytes", settings.body_bytes, "of a message's body")
        ->check(CLI::Range(64, 1 << 20))
        ->capture_default_str();
    app.add_option("--unacknowledged", settings.tuning.unacknowledged_max,
                   "at Semel at once: RabbitMQ's prefetch, and of NATS")
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
    app.add_flag("--latency", latency, "instead: how long one message takes at a low rate");
    app.add_flag("--poison", poison, "instead: with 1 % of messages that fail for good");
    app.add_flag("--check", check, "exit with 1 if a target is missed");
    app.add_option("--json", json, "write the figures to this file, too");
    CLI11_PARSE(app, argc, argv);

    const char* uri = std::getenv("SEMEL_TEST_POSTGRES");
    if (uri == nullptr) {
        fmt::print(stderr, "bench: SEMEL_TEST_POSTGRES is not set (./dev bench consume sets it)\n");
        return 2;
    }
    settings.postgres = uri;
    if (auto migrated = semel::postgres::migrate({.uri = settings.postgres}); !migrated) {
        fmt::print(stderr, "bench: {}\n", migrated.failure().message);
        return 1;
    }
    Report report;
    if (latency) measure_latency(settings, report);
    if (poison) measure_poison(settings, report);
    if (!latency && !poison) measure_throughput(settings, report);
    report.show_targets();
    if (!json.empty() && !report.write_json(json)) {
        fmt::print(stderr, "bench: {}: cannot be written (--json)\n", json);
        return 1;
    }
    return check && !report.all_met() ? 1 : 0;
}
