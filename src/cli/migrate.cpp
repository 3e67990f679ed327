// semel migrate: creates a store, or brings its schema up to this program's.
#include <fmt/format.h>

#include <memory>

#include "base/json.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"

namespace semel::cli {
namespace {

struct Options {
    std::string store;
    bool json = false;
};

int run(const Options& options) {
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto migrated = migrate_store(*url);
    if (!migrated) return fail(migrated.failure());
    if (options.json) {
        JsonWriter json;
        json.begin_object().member("store", url->text()).member("before", migrated->before);
        json.member("after", migrated->after).end_object();
        fmt::print("{}\n", json.text());
    } else if (migrated->before == migrated->after) {
        fmt::print("{}: schema version {}, nothing to do\n", url->text(), migrated->after);
    } else {
        fmt::print("{}: schema version {} -> {}\n", url->text(), migrated->before, migrated->after);
    }
    return exit_ok;
}

}  // namespace

void add_migrate(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = root.add_subcommand("migrate", "create a store, or bring its schema up to date");
    command->footer("Version 0 is a store without Semel's tables. A schema newer than this program is refused.");
    add_store_option(*command, options->store);
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
