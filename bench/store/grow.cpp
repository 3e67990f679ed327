// What a claim costs as the records become many, with the memory and the disk they take.
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "semel/sqlite.hpp"
#include "store/settings.hpp"
#include "store/stores.hpp"
#include "support/callers.hpp"
#include "support/process.hpp"
#include "support/rounds.hpp"

namespace semel::bench {
namespace {

constexpr std::uint64_t postgres_records_quick = 1'000'000;

std::string power(std::uint64_t count) { return fmt::format("10^{:.0f}", std::log10(static_cast<double>(count))); }

/// A store with so many records, closed between measurements.
struct Filled {
    std::uint64_t records;
    double bytes_each;
    std::function<Opened()> open;
    std::vector<double> resident;  ///< at the end of each run, in a process of its own
    Contender* contender = nullptr;
};

/// In a child: the memory is that of a process that knows this store only.
Run claims_on(Filled& filled, const Settings& settings) {
    const auto numbers = in_child([&]() -> std::vector<double> {
        Load load;
        load.settles = false;
        load.length = std::chrono::duration<double>{settings.seconds};
        const Opened opened = filled.open();
        // Caches are full before anything is measured.
        Load first = load;
        first.callers = 512;
        run_callbacks(*opened.committer, first);
        Run run = run_callbacks(*opened.committer, load);
        std::vector<double> all{run.per_second, static_cast<double>(resident_bytes())};
        all.insert(all.end(), run.micros.begin(), run.micros.end());
        return all;
    });
    filled.resident.push_back(numbers.at(1));
    Run run;
    run.per_second = numbers.at(0);
    run.micros.assign(numbers.begin() + 2, numbers.end());
    return run;
}

void measure(const std::string& store, std::vector<Filled>& sizes, const Settings& settings, Report& report) {
    Rounds rounds;
    for (Filled& filled : sizes)
        filled.contender =
            &rounds.add(power(filled.records), [&filled, &settings] { return claims_on(filled, settings); });
    rounds.run(settings.rounds);

    Table table(
        {store + ", records", "claims/s", "µs per claim", "p50 µs", "p99 µs", "memory MB", "bytes per tombstone"});
    for (const Filled& filled : sizes) {
        const Figures& figures = filled.contender->figures;
        const double per_second = median(figures.per_second);
        table.add({power(filled.records), fmt::format("{:.0f}", per_second), fmt::format("{:.1f}", 1e6 / per_second),
                   fmt::format("{:.0f}", median(figures.p50)), fmt::format("{:.0f}", median(figures.p99)),
                   fmt::format("{:.1f}", median(filled.resident) / 1e6), fmt::format("{:.1f}", filled.bytes_each)});
        const std::string name = fmt::format("{}/grow/{}", store, power(filled.records));
        report.figure(name + "/claims_per_second", per_second);
        report.figure(name + "/claim_p50_us", median(figures.p50));
        report.figure(name + "/claim_p99_us", median(figures.p99));
        report.figure(name + "/resident_bytes", median(filled.resident));
        report.figure(name + "/bytes_per_tombstone", filled.bytes_each);
    }
    Report::show(
        fmt::format("claims of new keys, 64 callers, median of {} rounds of {:g} s", settings.rounds, settings.seconds),
        table);

    const Filled& first = sizes.front();
    const Filled& last = sizes.back();
    report.at_most(
        fmt::format("{}: cost of a claim, {} as a multiple of {}", store, power(last.records), power(first.records)),
        ratio(*first.contender, *last.contender), 1.5);
    if (sizes.size() > 1) {
        const Filled& before = sizes[sizes.size() - 2];
        report.at_most(fmt::format("{}: resident memory, {} as a multiple of {}", store, power(last.records),
                                   power(before.records)),
                       median(last.resident) / median(before.resident), 1.1);
    }
    report.at_most(fmt::format("{}: bytes on disk per tombstone, {}", store, power(last.records)), last.bytes_each,
                   150);
}

/// What a tombstone takes that was claimed, settled with an answer, and swept: not only one that was written as such.
double lived_bytes(const std::function<Opened()>& open, const std::function<double()>& used_bytes) {
    const double before = used_bytes();
    double operations = 0;
    {
        const Opened opened = open();
        Load load;
        load.callers = 512;
        load.warm_up = load.warm_up.zero();
        load.length = std::chrono::duration<double>{3};
        load.policy.retention.response = std::chrono::microseconds{1};
        operations = run_callbacks(*opened.committer, load).per_second * load.length.count();
        bool more = true;
        while (more) {
            const auto swept = opened.store->sweep(500);
            if (!swept) give_up(swept.failure().message);
            more = swept->more;
        }
    }
    return (used_bytes() - before) / operations;
}

void measure_sqlite(const Settings& settings, Report& report) {
    const TemporaryFolder folder(settings.folder);
    std::vector<Filled> sizes;
    for (const std::uint64_t records : settings.records) {
        const std::string path = folder.file(power(records) + ".db");
        in_child([&]() -> std::vector<double> {
            fill_sqlite(path, records, Past::tombstones);
            return {};
        });
        const double bytes = static_cast<double>(std::filesystem::file_size(path));
        sizes.push_back(
            {records, bytes / static_cast<double>(records), [path] { return open_sqlite(path); }, {}, nullptr});
    }
    measure("sqlite", sizes, settings, report);

    const std::string path = folder.file("lived.db");
    fill_sqlite(path, 0, Past::tombstones);
    const double lived = lived_bytes([&] { return open_sqlite(path); }, [&] { return sqlite_used_bytes(path); });
    report.at_most("sqlite: bytes on disk per tombstone that was claimed, settled and swept", lived, 150);
}

void measure_postgres(const Settings& settings, Report& report) {
    std::vector<Filled> sizes;
    std::vector<std::unique_ptr<PostgresDatabase>> databases;
    for (const std::uint64_t records : settings.records) {
        if (records > postgres_records_quick && !settings.full) continue;
        databases.push_back(
            std::make_unique<PostgresDatabase>(settings.postgres, fmt::format("semel_bench_{}", records)));
        const std::string uri = databases.back()->uri();
        in_child([&]() -> std::vector<double> {
            fill_postgres(uri, records, Past::tombstones);
            return {};
        });
        const double bytes = postgres_used_bytes(uri);
        sizes.push_back(
            {records, bytes / static_cast<double>(records), [uri] { return open_postgres(uri); }, {}, nullptr});
    }
    measure("postgres", sizes, settings, report);

    const PostgresDatabase database(settings.postgres, "semel_bench_lived");
    const double lived =
        lived_bytes([&] { return open_postgres(database.uri()); }, [&] { return postgres_used_bytes(database.uri()); });
    report.figure("postgres/bytes_per_lived_tombstone", lived);
    fmt::print(
        "\npostgres: {:.0f} bytes on disk per tombstone that was claimed, settled and swept, before its space is used "
        "again\n",
        lived);
}

}  // namespace

void measure_growth(const Settings& settings, Report& report) {
    if (settings.wants("sqlite")) measure_sqlite(settings, report);
    if (settings.wants("postgres")) measure_postgres(settings, report);
}

}  // namespace semel::bench
