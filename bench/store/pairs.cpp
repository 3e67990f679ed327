// Claim+settle pairs per second, durable, beside the loop that commits once per command and the fastest hand-batched one.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include "store/references.hpp"
#include "store/settings.hpp"
#include "store/stores.hpp"
#include "support/callers.hpp"
#include "support/process.hpp"
#include "support/rounds.hpp"

namespace semel::bench {
namespace {

constexpr std::size_t target_callers = 64;  // the load the targets are about
constexpr std::size_t threads_max = 64;
constexpr std::size_t postgres_connections = 16;

/// Processor time so far of this process and of the private PostgreSQL's connections that have ended.
double cpu_so_far() {
    static const int postmaster = [] {
        const char* home = std::getenv("SEMEL_TEST_POSTGRES_HOME");
        int pid = 0;
        if (home != nullptr) std::ifstream(std::string(home) + "/data/postmaster.pid") >> pid;
        return pid;
    }();
    return cpu_seconds() + (postmaster > 0 ? children_cpu_seconds(postmaster) : 0);
}

/// The run with what it cost the processors. The server's connections end a moment after ours.
Run with_cpu(const std::function<Run()>& work) {
    const double before = cpu_so_far();
    Run run = work();
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    run.cpu_micros_each = (cpu_so_far() - before) * 1e6 / run.done;
    return run;
}

/// How one store is measured. Each call starts with an empty ledger.
struct Side {
    std::string store;
    std::function<Run(const std::function<Run(Committer&)>&)> with_committer;
    std::function<Run()> one_by_one;
    std::function<Run(std::size_t batch)> batched;
    std::string one_by_one_name;
};

Side sqlite_side(const Settings& settings, const SampleRows& rows) {
    const std::string folder = settings.folder;
    const Seconds length{settings.seconds};
    return {.store = "sqlite",
            .with_committer =
                [folder](const auto& work) {
                    const TemporaryFolder place(folder);
                    const Opened opened = open_sqlite(place.file("semel.db"));
                    return work(*opened.committer);
                },
            .one_by_one =
                [=] {
                    const TemporaryFolder place(folder);
                    return sqlite_by_hand(place.file("hand.db"), 1, length, rows);
                },
            .batched =
                [=](std::size_t batch) {
                    const TemporaryFolder place(folder);
                    return sqlite_by_hand(place.file("hand.db"), batch, length, rows);
                },
            .one_by_one_name = "by hand, a commit each"};
}

Side postgres_side(const Settings& settings, const SampleRows& rows) {
    const std::string uri = settings.postgres;
    const std::size_t sessions = settings.sessions;
    const Seconds length{settings.seconds};
    const auto emptied = [uri] { postgres_sql(uri, "truncate semel.operation"); };
    return {.store = "postgres",
            .with_committer =
                [=](const auto& work) {
                    const Opened opened = open_postgres(uri, sessions);
                    emptied();
                    return work(*opened.committer);
                },
            .one_by_one =
                [=] {
                    emptied();
                    return postgres_one_by_one(uri, postgres_connections, length, rows);
                },
            .batched =
                [=](std::size_t batch) {
                    emptied();
                    return postgres_batched(uri, 1, batch, length, rows);
                },
            .one_by_one_name = fmt::format("by hand, a commit each, {} connections", postgres_connections)};
}

void measure(const Side& side, const Settings& settings, Report& report) {
    Rounds rounds;
    Contender& one_by_one = rounds.add(side.one_by_one_name, [&side] { return with_cpu(side.one_by_one); });
    std::map<std::size_t, Contender*> batched;
    struct Row {
        std::size_t callers;
        std::string how;
        Contender* contender;
    };
    std::vector<Row> all;
    for (const std::size_t callers : settings.callers) {
        Load load;
        load.callers = callers;
        load.length = Seconds{settings.seconds};
        load.body_bytes = settings.body_bytes;
        const auto with = [&side, load](auto run) {
            return [&side, load, run] {
                return with_cpu([&] { return side.with_committer([&](Committer& c) { return run(c, load); }); });
            };
        };
        all.push_back({callers, "callbacks", &rounds.add(fmt::format("{} callers", callers), with(run_callbacks))});
        if (callers <= threads_max)
            all.push_back({callers, "threads", &rounds.add(fmt::format("{} threads", callers), with(run_threads))});
        if (callers >= target_callers)
            batched[callers] = &rounds.add(fmt::format("by hand, {} a commit", callers), [&side, callers] {
                return with_cpu([&] { return side.batched(callers); });
            });
    }
    rounds.run(settings.rounds);

    const auto whole = [](double value) { return fmt::format("{:.0f}", value); };
    Table table({side.store, "pairs/s", "× a commit each", "× by hand", "CPU µs", "claim p50 µs", "p99 µs"});
    table.add({one_by_one.name, whole(median(one_by_one.figures.per_second)), "1.00", "",
               whole(median(one_by_one.figures.cpu_micros_each))});
    report.figure(side.store + "/by_hand/one_by_one/per_second", median(one_by_one.figures.per_second));
    for (const auto& [batch, contender] : batched) {
        table.add({contender->name, whole(median(contender->figures.per_second)),
                   fmt::format("{:.2f}", ratio(*contender, one_by_one)), "1.00",
                   whole(median(contender->figures.cpu_micros_each))});
        report.figure(fmt::format("{}/by_hand/{}/per_second", side.store, batch),
                      median(contender->figures.per_second));
    }
    for (const Row& row : all) {
        const Figures& figures = row.contender->figures;
        const double by_hand = batched.contains(row.callers) ? ratio(*row.contender, *batched[row.callers]) : 0;
        table.add({fmt::format("semel, {} {}", row.callers, row.how == "threads" ? "threads" : "callers"),
                   whole(median(figures.per_second)), fmt::format("{:.2f}", ratio(*row.contender, one_by_one)),
                   by_hand > 0 ? fmt::format("{:.2f}", by_hand) : "", whole(median(figures.cpu_micros_each)),
                   whole(median(figures.p50)), whole(median(figures.p99))});
        const std::string name = fmt::format("{}/{}/{}", side.store, row.how, row.callers);
        report.figure(name + "/per_second", median(figures.per_second));
        report.figure(name + "/cpu_us", median(figures.cpu_micros_each));
        report.figure(name + "/claim_p50_us", median(figures.p50));
        report.figure(name + "/claim_p99_us", median(figures.p99));
        if (row.callers != target_callers || row.how != "callbacks") continue;
        report.at_least(side.store + ", 64 callers: × the loop that commits once per command",
                        ratio(*row.contender, one_by_one), 4);
        if (side.store == "sqlite")
            report.at_least("sqlite, 64 callers: × the fastest hand-batched loop", by_hand, 0.7);
    }
    Report::show(fmt::format("claim+settle, durable, {} bytes of outcome, median of {} rounds of {:g} s",
                             settings.body_bytes, settings.rounds, settings.seconds),
                 table);
}

}  // namespace

void measure_pairs(const Settings& settings, Report& report) {
    const SampleRows rows = sample_rows(settings.body_bytes);
    if (settings.wants("sqlite")) measure(sqlite_side(settings, rows), settings, report);
    if (settings.wants("postgres")) {
        open_postgres(settings.postgres);  // the schema, before the first reference
        measure(postgres_side(settings, rows), settings, report);
    }
}

}  // namespace semel::bench
