// bench_gateway: what the gateway costs beside nginx as the same proxy, or beside the libraries that services use instead:
// same load, same run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "gateway/load.hpp"
#include "gateway/peers.hpp"
#include "gateway/servers.hpp"
#include "support/report.hpp"
#include "support/rounds.hpp"

namespace semel::bench {
namespace {

struct Settings {
    int rounds = 5;
    double seconds = 2;
    std::size_t connections = 64;
    std::string postgres;
};

/// Everything that runs, for as long as it is measured.
struct World {
    TemporaryFolder upstream_folder;
    TemporaryFolder proxy_folder;
    TemporaryFolder folder;
    Server upstream;
    Server nginx;
    Server sqlite;
    std::optional<Server> postgres;
};

HttpLoad load_of(const Settings& settings, const Server& server, const std::string& path, Keys keys) {
    HttpLoad load;
    load.port = server.port;
    load.path = path;
    load.keys = keys;
    load.connections = settings.connections;
    load.length = std::chrono::duration<double>(settings.seconds);
    const Child* const child = server.child.get();
    load.cpu_seconds = [child] { return child->cpu_seconds(); };
    return load;
}

void measure_throughput(const Settings& settings, World& world, Report& report) {
    Rounds rounds;
    const auto add = [&](const std::string& name, const Server& server, const std::string& path,
                         Keys keys) -> Contender& {
        return rounds.add(name, [load = load_of(settings, server, path, keys)] { return run_http(load); });
    };
    Contender& nginx = add("nginx, the same proxy", world.nginx, "/v1/payments", Keys::none);
    std::vector<Contender*> mine;
    Contender& pass = add("semel, passed through", world.sqlite, "/v1/refunds", Keys::none);
    Contender& first = add("semel, first with a key, sqlite", world.sqlite, "/v1/payments", Keys::fresh);
    Contender& replay = add("semel, replay, sqlite", world.sqlite, "/v1/payments", Keys::known);
    Contender* first_postgres = nullptr;
    Contender* replay_postgres = nullptr;
    if (world.postgres) {
        first_postgres = &add("semel, first with a key, postgres", *world.postgres, "/v1/payments", Keys::fresh);
        replay_postgres = &add("semel, replay, postgres", *world.postgres, "/v1/payments", Keys::known);
    }
    rounds.run(settings.rounds);
    Table table({"", "requests/s", "× nginx", "CPU µs", "p50 µs", "p99 µs"});
    for (Contender* each : {&nginx, &pass, &first, &replay, first_postgres, replay_postgres}) {
        if (each == nullptr) continue;
        table.add({each->name, fmt::format("{:.0f}", median(each->figures.per_second)),
                   fmt::format("{:.2f}", ratio(*each, nginx)),
                   fmt::format("{:.0f}", median(each->figures.cpu_micros_each)),
                   fmt::format("{:.0f}", median(each->figures.p50)), fmt::format("{:.0f}", median(each->figures.p99))});
        report.figure(each->name + "/per_second", median(each->figures.per_second));
    }
    Report::show(fmt::format("{} connections, median of {} rounds of {} s; CPU is the proxy's own per request",
                             settings.connections, settings.rounds, settings.seconds),
                 table);
    report.at_least("passed through: × nginx", ratio(pass, nginx), 1.0);
    report.at_least("first with a key, sqlite: × nginx", ratio(first, nginx), 0.3);
    report.at_least("replay, sqlite: × nginx", ratio(replay, nginx), 1.3);
    if (first_postgres != nullptr)
        report.at_least("first with a key, postgres: × nginx", ratio(*first_postgres, nginx), 0.2);
}

/// What a request takes longer than through nginx, when half of what can be done is asked for.
void measure_latency(const Settings& settings, World& world, Report& report) {
    Table table(
        {"at half load", "requests/s", "nginx p50 µs", "semel p50 µs", "nginx p99 µs", "semel p99 µs", "p99 added ms"});
    const auto compare = [&](const std::string& name, const Server& server, double allowed_ms) {
        HttpLoad full = load_of(settings, server, "/v1/payments", Keys::fresh);
        full.length = std::chrono::duration<double>(1);
        const double rate = run_http(full).per_second / 2;
        Rounds rounds;
        const auto add = [&](const std::string& contender, const Server& which, Keys keys) -> Contender& {
            HttpLoad load = load_of(settings, which, "/v1/payments", keys);
            load.rate = rate;
            return rounds.add(contender, [load] { return run_http(load); });
        };
        Contender& nginx = add("nginx", world.nginx, Keys::none);
        Contender& semel = add(name, server, Keys::fresh);
        rounds.run(settings.rounds);
        const double added = (median(semel.figures.p99) - median(nginx.figures.p99)) / 1000;
        table.add({name, fmt::format("{:.0f}", rate), fmt::format("{:.0f}", median(nginx.figures.p50)),
                   fmt::format("{:.0f}", median(semel.figures.p50)), fmt::format("{:.0f}", median(nginx.figures.p99)),
                   fmt::format("{:.0f}", median(semel.figures.p99)), fmt::format("{:.2f}", added)});
        report.at_most(fmt::format("p99 added at half load, {}: ms", name), added, allowed_ms);
    };
    compare("sqlite", world.sqlite, 1);
    if (world.postgres) compare("postgres", *world.postgres, 3);
    Report::show("first requests with a key, both durable", table);
}

/// The libraries run inside the service, so the service is in their figures: without a key it is all that is measured.
void measure_peers(const Settings& settings, World& world, Report& report) {
    const TemporaryFolder folder;
    const Server redis = start_redis(folder);
    const Server node = start_node_peer(url_of(redis));
    std::optional<Server> node_postgres;
    if (world.postgres) node_postgres = start_node_peer(settings.postgres);
    const Server python = start_python_peer(redis);
    Rounds rounds;
    const auto add = [&](const std::string& name, const Server& server, Keys keys = Keys::fresh) {
        return &rounds.add(name, [load = load_of(settings, server, "/v1/payments", keys)] { return run_http(load); });
    };
    std::vector<Contender*> semel;
    if (world.postgres) semel.push_back(add("semel, postgres", *world.postgres));
    semel.push_back(add("semel, sqlite", world.sqlite));
    std::vector<Contender*> peers{add("node-idempotency, Fastify, Redis", node),
                                  add("asgi-idempotency-header, FastAPI, Redis", python)};
    if (node_postgres) peers.push_back(add("node-idempotency, Fastify, PostgreSQL", *node_postgres));
    const std::vector<Contender*> plain{add("the Fastify service without a key", node, Keys::none),
                                        add("the FastAPI service without a key", python, Keys::none)};
    rounds.run(settings.rounds);
    std::vector<std::string> head{"", "requests/s", "CPU µs", "p50 µs", "p99 µs"};
    for (const Contender* mine : semel) head.push_back(fmt::format("{} is ×", mine->name));
    Table table(head);
    for (const auto& group : {semel, peers, plain})
        for (const Contender* each : group) {
            std::vector<std::string> row{each->name, fmt::format("{:.0f}", median(each->figures.per_second)),
                                         fmt::format("{:.0f}", median(each->figures.cpu_micros_each)),
                                         fmt::format("{:.0f}", median(each->figures.p50)),
                                         fmt::format("{:.0f}", median(each->figures.p99))};
            for (const Contender* mine : semel) row.push_back(fmt::format("{:.2f}", ratio(*mine, *each)));
            table.add(row);
            report.figure(each->name + "/per_second", median(each->figures.per_second));
        }
    Report::show(fmt::format("first requests with a key, {} connections, median of {} rounds of {} s; Redis, too, "
                             "syncs every write; CPU without the database's",
                             settings.connections, settings.rounds, settings.seconds),
                 table);
    for (const Contender* mine : semel)
        for (const Contender* peer : peers)
            report.at_least(fmt::format("{}: × {}", mine->name, peer->name), ratio(*mine, *peer), 5);
}

void measure_memory(World& world, Report& report) {
    constexpr std::size_t count = 2000;
    const std::uint64_t before = world.sqlite.child->resident_bytes();
    const IdleConnections idle(world.sqlite.port, count);
    const double each = static_cast<double>(world.sqlite.child->resident_bytes() - before) / count;
    fmt::print("\nmemory of an idle connection: {:.0f} bytes\n", each);
    report.figure("memory per idle connection", each);
}

}  // namespace
}  // namespace semel::bench

int main(int argc, char** argv) {
    using namespace semel::bench;
    Settings settings;
    bool check = false;
    bool throughput = true;
    bool latency = true;
    bool peers = false;
    bool with_postgres = true;
    std::string json;
    CLI::App app(
        "What the gateway costs, beside nginx as the same proxy. PostgreSQL is the one in SEMEL_TEST_POSTGRES.");
    app.add_option("--rounds", settings.rounds, "how often everything is run")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--seconds", settings.seconds, "length of one run")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--connections", settings.connections, "requests on their way at once")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_flag("!--no-throughput", throughput, "latency only");
    app.add_flag("!--no-latency", latency, "throughput only");
    app.add_flag("!--no-postgres", with_postgres, "SQLite only");
    app.add_flag("--peers", peers, "beside libraries for Node and Python, instead of nginx");
    app.add_flag("--check", check, "exit with 1 if a target is missed");
    app.add_option("--json", json, "write the figures to this file, too");
    CLI11_PARSE(app, argc, argv);
    if (const char* uri = std::getenv("SEMEL_TEST_POSTGRES"); uri != nullptr && with_postgres) settings.postgres = uri;

    World world;
    world.upstream = start_upstream(world.upstream_folder);
    if (!peers) world.nginx = start_nginx_proxy(world.proxy_folder, world.upstream.port);
    world.sqlite =
        start_gateway(world.folder, "sqlite", "sqlite:" + world.folder.file("semel.db"), world.upstream.port);
    if (!settings.postgres.empty()) {
        run_command({std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "semel", "migrate",
                     "--store", settings.postgres});
        world.postgres = start_gateway(world.folder, "postgres", settings.postgres, world.upstream.port);
    }
    Report report;
    if (peers) {
        measure_peers(settings, world, report);
    } else {
        if (throughput) measure_throughput(settings, world, report);
        if (latency) measure_latency(settings, world, report);
        measure_memory(world, report);
    }
    report.show_targets();
    if (!json.empty() && !report.write_json(json)) {
        fmt::print(stderr, "bench: {}: cannot be written (--json)\n", json);
        return 1;
    }
    return check && !report.all_met() ? 1 : 0;
}
