// semel ops sweep: drops what has outlived its retention, in small batches.
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "base/json.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"

namespace semel::cli {
namespace {

constexpr std::uint64_t batch_max = 10'000;

struct Options {
    std::string store;
    bool json = false;
    std::string limit = "500";
    std::optional<std::string> batches;
    bool accept_clock = false;
};

struct Total {
    Swept swept;
    std::uint64_t batches = 0;
};

Result<Total> sweep_all(Store& store, std::uint64_t limit, std::uint64_t batches, bool accept_clock) {
    Total total;
    do {
        const auto swept = store.sweep(limit, accept_clock);
        if (!swept) return swept.failure();
        ++total.batches;
        total.swept.bodies_dropped += swept->bodies_dropped;
        total.swept.removed += swept->removed;
        total.swept.more = swept->more;
        // A batch that found only what cannot be trusted would find the same again.
        if (swept->bodies_dropped + swept->removed == 0) break;
    } while (total.swept.more && total.batches < batches);
    return total;
}

int run(const Options& options) {
    const auto limit = parse_count("--limit", options.limit, 1, batch_max);
    if (!limit) return fail(limit.failure());
    std::uint64_t batches = std::numeric_limits<std::uint64_t>::max();
    if (options.batches) {
        const auto parsed = parse_count("--batches", *options.batches, 1, std::numeric_limits<std::uint64_t>::max());
        if (!parsed) return fail(parsed.failure());
        batches = *parsed;
    }
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto store = open_store(*url, Purpose::change);
    if (!store) return fail(store.failure());
    const auto total = sweep_all(**store, *limit, batches, options.accept_clock);
    if (!total) return fail(total.failure());
    if (options.json) {
        JsonWriter json;
        json.begin_object()
            .member("bodies_dropped", total->swept.bodies_dropped)
            .member("removed", total->swept.removed);
        json.member("batches", total->batches).member("more", total->swept.more).end_object();
        fmt::print("{}\n", json.text());
    } else {
        fmt::print("{}: {} answers dropped, {} operations forgotten, in {} batches{}\n", (*store)->text(),
                   total->swept.bodies_dropped, total->swept.removed, total->batches,
                   total->swept.more ? "; more is due" : "; nothing more is due");
    }
    return exit_ok;
}

}  // namespace

void add_ops_sweep(CLI::App& ops, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = ops.add_subcommand("sweep", "drop what has outlived its retention");
    command->footer(
        "Works in short transactions until nothing is due. What is running or unknown is never touched. It halts when the\n"
        "store's clock has jumped since the last sweep.");
    add_store_option(*command, options->store);
    command->add_option("--limit", options->limit, "operations in one batch, up to 10000")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--batches", options->batches, "at most this many batches")->type_name("N");
    command->add_flag("--accept-clock", options->accept_clock, "the clock is right although it seems to have jumped");
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
