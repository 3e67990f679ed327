// bench_store: how fast the stores are, as ratios to what somebody would write by hand on the same machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "store/settings.hpp"

namespace semel::bench {

bool Settings::wants(std::string_view store) const { return std::ranges::find(stores, store) != stores.end(); }

}  // namespace semel::bench

int main(int argc, char** argv) {
    using namespace semel::bench;
    Settings settings;
    bool grow = false;
    bool sweep = false;
    bool check = false;
    std::string json;
    CLI::App app(
        "How fast the stores are: claim and settle beside loops written by hand. PostgreSQL is the one in "
        "SEMEL_TEST_POSTGRES; its schema `semel` is emptied.");
    app.add_option("--store", settings.stores, "sqlite, postgres or both")
        ->check(CLI::IsMember({"sqlite", "postgres"}))
        ->delimiter(',');
    app.add_option("--callers", settings.callers, "how many at once")->delimiter(',')->check(CLI::PositiveNumber);
    app.add_option("--rounds", settings.rounds, "how often everything is run")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--seconds", settings.seconds, "length of one run")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--body", settings.body_bytes, "bytes of each outcome")->capture_default_str();
    app.add_option("--records", settings.records, "with --grow: sizes to compare, small ones first")->delimiter(',');
    app.add_option("--sessions", settings.sessions, "connections of the PostgreSQL store; default: the store's");
    app.add_option("--folder", settings.folder, "where SQLite's files go; default: beside this program")
        ->check(CLI::ExistingDirectory);
    app.add_flag("--grow", grow, "instead: cost of a claim, memory and disk as the records become many");
    app.add_flag("--sweep", sweep, "instead: claims with a sweep of a million expired records beside them");
    app.add_flag("--full", settings.full, "with --grow: more than 10^6 records on PostgreSQL, too");
    app.add_flag("--check", check, "exit with 1 if a target is missed");
    app.add_option("--json", json, "write the figures to this file, too");
    CLI11_PARSE(app, argc, argv);

    if (const char* uri = std::getenv("SEMEL_TEST_POSTGRES")) settings.postgres = uri;
    if (settings.postgres.empty() && settings.wants("postgres")) {
        fmt::print(stderr, "bench: postgres is left out: SEMEL_TEST_POSTGRES is not set (./dev bench store sets it)\n");
        std::erase(settings.stores, "postgres");
    }
    Report report;
    if (grow) measure_growth(settings, report);
    if (sweep) measure_sweep(settings, report);
    if (!grow && !sweep) measure_pairs(settings, report);
    report.show_targets();
    if (!json.empty() && !report.write_json(json)) {
        fmt::print(stderr, "bench: {}: cannot be written (--json)\n", json);
        return 1;
    }
    return check && !report.all_met() ? 1 : 0;
}
