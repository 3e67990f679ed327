// What a sweep beside them does to claims: the same claims with it and without it, in turns.
#include <fmt/format.h>

#include <atomic>
#include <memory>
#include <thread>

#include "store/settings.hpp"
#include "store/stores.hpp"
#include "support/callers.hpp"
#include "support/process.hpp"
#include "support/rounds.hpp"

namespace semel::bench {
namespace {

constexpr std::uint64_t expired_records = 1'000'000;

/// Sweeps in small batches until told to stop.
class Sweeper {
public:
    explicit Sweeper(Store& store) : thread_([this, &store](const std::stop_token& stop) { run(store, stop); }) {}
    void end() { thread_ = {}; }
    [[nodiscard]] std::uint64_t removed() const { return removed_; }
    [[nodiscard]] bool more() const { return more_; }

private:
    void run(Store& store, const std::stop_token& stop) {
        while (more_ && !stop.stop_requested()) {
            const auto from = std::chrono::steady_clock::now();
            const auto swept = store.sweep(sweep_batch);
            if (!swept) give_up(swept.failure().message);
            removed_ += swept->removed;
            more_ = swept->more;
            std::this_thread::sleep_for((std::chrono::steady_clock::now() - from) * sweep_rest);
        }
    }

    static constexpr std::size_t sweep_batch = 100;
    static constexpr int sweep_rest = 4;  // it rests so many times as long as it works
    std::atomic<std::uint64_t> removed_ = 0;
    std::atomic<bool> more_ = true;
    std::jthread thread_;
};

void measure(const std::string& name, Opened opened, const Settings& settings, Report& report) {
    Load load;
    load.settles = false;
    load.length = std::chrono::duration<double>{settings.seconds};
    double swept = 0;
    double swept_seconds = 0;
    Rounds rounds;
    Contender& alone = rounds.add("without a sweep", [&] { return run_callbacks(*opened.committer, load); });
    Contender& beside = rounds.add("with a sweep", [&] {
        const auto from = std::chrono::steady_clock::now();
        Sweeper sweeper(*opened.store);
        Run run = run_callbacks(*opened.committer, load);
        sweeper.end();
        swept += static_cast<double>(sweeper.removed());
        swept_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
        return run;
    });
    rounds.run(settings.rounds);

    Table table({name, "claims/s", "p50 µs", "p99 µs", "swept/s"});
    std::vector<double> ratios;
    for (const Contender* each : {&alone, &beside}) {
        const Figures& figures = each->figures;
        table.add({each->name, fmt::format("{:.0f}", median(figures.per_second)),
                   fmt::format("{:.0f}", median(figures.p50)), fmt::format("{:.0f}", median(figures.p99)),
                   each == &beside ? fmt::format("{:.0f}", swept / swept_seconds) : ""});
    }
    for (std::size_t i = 0; i < alone.figures.p99.size(); ++i)
        ratios.push_back(beside.figures.p99[i] / alone.figures.p99[i]);
    Report::show(
        fmt::format(
            "claims of new keys, 64 callers, beside a sweep of {} expired records, median of {} rounds of {:g} s",
            expired_records, settings.rounds, settings.seconds),
        table);
    report.figure(name + "/sweep/alone_p99_us", median(alone.figures.p99));
    report.figure(name + "/sweep/beside_p99_us", median(beside.figures.p99));
    report.figure(name + "/sweep/removed_per_second", swept / swept_seconds);
    report.at_most(name + ": p99 of claims, with a sweep as a multiple of without", median(ratios), 2);
}

}  // namespace

void measure_sweep(const Settings& settings, Report& report) {
    if (settings.wants("sqlite")) {
        const TemporaryFolder folder(settings.folder);
        const std::string path = folder.file("expired.db");
        fill_sqlite(path, expired_records, Past::expired);
        measure("sqlite", open_sqlite(path), settings, report);
    }
    if (settings.wants("postgres")) {
        const PostgresDatabase database(settings.postgres, "semel_bench_expired");
        fill_postgres(database.uri(), expired_records, Past::expired);
        measure("postgres", open_postgres(database.uri()), settings, report);
    }
}

}  // namespace semel::bench
