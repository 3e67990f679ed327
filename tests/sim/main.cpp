// semel_sim: runs simulations and says what they came to.
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.hpp"
#include "ledger/mutation.hpp"
#include "outbox_simulation.hpp"
#include "simulation.hpp"

#ifdef SEMEL_MUTANTS
namespace semel {
std::string_view active_mutation;
}
#endif

namespace semel::sim {
namespace {

constexpr std::string_view usage =
    R"(usage: semel_sim [OPTION…]

Runs the ledger, its committer, intents, workflows and their completer over a simulated store and clock with crashes, lost
replies, duplicate callers, pauses and clock jumps; then relays of the outbox over a simulated database and broker; and
checks the invariants. The same seed gives the same run.

  --seed N         run this seed; with --runs N the following ones too
  --runs N         how many seeds (default: 200 fixed ones and a random one; 1 with --seed)
  --steps N        events with faults per run, before calm (default 5000)
  --trace          print what happens
  --twice          run each seed twice: the traces have to be equal
  --floors         fail unless enough of everything happened (default without --seed)
  --no-random      leave out the random seed
  --judge RULE     judge this invariant and no other, by its name as violations print it
  --mutation NAME  break a rule on purpose, and succeed only if that is noticed (semel_sim_mutants)
  --help           this text

Exit codes: 0 all invariants hold, 1 one does not, 2 usage.
)";

struct Arguments {
    std::optional<std::uint64_t> seed;
    std::optional<std::uint64_t> runs;
    std::uint64_t steps = Options{}.steps;
    bool trace = false;
    bool twice = false;
    bool floors = false;
    bool random = true;
    std::string mutation;
    std::string only;
};

[[noreturn]] void refuse(const std::string& message) {
    fmt::print(stderr, "semel_sim: {}\n", message);
    std::exit(2);
}

std::uint64_t number(std::string_view option, std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        refuse(fmt::format("{} needs a number, not '{}'", option, text));
    return value;
}

Arguments parse(int argc, char** argv) {
    Arguments arguments;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        const auto value = [&]() -> std::string_view {
            if (++i == argc) refuse(fmt::format("{} needs a value", option));
            return argv[i];
        };
        if (option == "--help" || option == "-h") {
            fmt::print("{}", usage);
            std::exit(0);
        }
        if (option == "--seed")
            arguments.seed = number(option, value());
        else if (option == "--runs")
            arguments.runs = number(option, value());
        else if (option == "--steps")
            arguments.steps = number(option, value());
        else if (option == "--trace")
            arguments.trace = true;
        else if (option == "--twice")
            arguments.twice = true;
        else if (option == "--floors")
            arguments.floors = true;
        else if (option == "--no-random")
            arguments.random = false;
        else if (option == "--judge")
            arguments.only = value();
        else if (option == "--mutation")
            arguments.mutation = value();
        else
            refuse(fmt::format("unknown option '{}': see --help", option));
    }
    return arguments;
}

// ---- an assertion of the ledger's own stops the process; it still says which seed did it -------------------------

std::string last_words;
int exit_on_abort = 1;

void on_abort(int) {
    const auto written = write(STDERR_FILENO, last_words.data(), last_words.size());
    _exit(written < 0 ? 2 : exit_on_abort);
}

std::string replay(const Arguments& arguments, std::uint64_t seed) {
    const std::string steps = arguments.steps == Options{}.steps ? "" : fmt::format(" --steps {}", arguments.steps);
    return fmt::format("./dev sim --seed {}{} --trace", seed, steps);
}

// ---- floors ------------------------------------------------------------------------------------------------------

void print(const Counts& counts) {
    for (std::size_t i = 0; i < tally_count; ++i)
        fmt::print("  {:>9}  {}\n", counts.tallies[i], name(static_cast<Tally>(i)));
    fmt::print("faults\n");
    for (std::size_t i = 0; i < fault_count; ++i)
        fmt::print("  {:>9}  {}\n", counts.faults[i], name(static_cast<Fault>(i)));
}

/// A run in which nothing happens must not pass.
bool above_floors(const Counts& counts, std::uint64_t runs) {
    bool good = true;
    const auto least = [&](std::string_view what, std::uint64_t seen, std::uint64_t floor) {
        if (seen >= floor) return;
        fmt::print(stderr, "floor: {} of '{}' in {} runs, at least {} expected\n", seen, what, runs, floor);
        good = false;
    };
    for (std::size_t i = 0; i < fault_count; ++i) least(name(static_cast<Fault>(i)), counts.faults[i], runs / 4);
    for (std::size_t i = 0; i < tally_count; ++i) {
        const auto tally = static_cast<Tally>(i);
        std::uint64_t floor = runs / 2;
        if (tally == Tally::stored || tally == Tally::effects) floor = runs * 20;
        if (tally == Tally::replays || tally == Tally::grants) floor = runs * 30;
        if (tally == Tally::inconclusive) floor = runs / 20;
        if (tally == Tally::too_early) floor = runs / 8;
        if (tally == Tally::unclaimed) floor = runs / 4;
        least(name(tally), counts.tallies[i], floor);
    }
    return good;
}

// ---- running -----------------------------------------------------------------------------------------------------

/// The ledger and all that stands on it; then the outbox.
Report simulate(const Options& options) {
    // One invariant alone is judged where it can be broken.
    if (judged_of_outbox(options.only)) return simulate_outbox(options);
    Report report = simulate_ledger(options);
    if (!options.only.empty()) return report;
    const Report outbox = simulate_outbox(options);
    report.counts.add(outbox.counts);
    report.trace_hash = (report.trace_hash ^ outbox.trace_hash) * 0x100000001b3;
    return report;
}

/// False: an invariant does not hold.
bool run_seed(const Arguments& arguments, std::uint64_t seed, Counts& total, std::uint64_t& hash) {
    last_words = fmt::format("semel_sim: seed {}: an assertion failed\nreplay: {}\n", seed, replay(arguments, seed));
    try {
        const Options options{seed, arguments.steps, arguments.trace, arguments.only};
        const Report report = simulate(options);
        total.add(report.counts);
        hash = report.trace_hash;
        if (arguments.twice && simulate(options).trace_hash != hash) {
            fmt::print(stderr, "semel_sim: seed {} did not give the same trace twice\n", seed);
            return false;
        }
        return true;
    } catch (const Violation& violation) {
        fmt::print(stderr, "{}: {}\nreplay: {}\n", arguments.mutation.empty() ? "VIOLATED" : "noticed",
                   violation.what(), replay(arguments, seed));
        return false;
    }
}

int run(const Arguments& arguments) {
    const std::uint64_t first = arguments.seed.value_or(1);
    const std::uint64_t runs = arguments.runs.value_or(arguments.seed ? 1 : 200);
    const bool mutated = !arguments.mutation.empty();
    Counts total;
    std::uint64_t all = 0;
    for (std::uint64_t i = 0; i < runs; ++i) {
        std::uint64_t hash = 0;
        const bool good = run_seed(arguments, first + i, total, hash);
        if (!good) return mutated ? 0 : 1;
        if (runs == 1 || arguments.trace) fmt::print("seed {}: trace {:016x}\n", first + i, hash);
        all = (all ^ hash) * 0x100000001b3;
    }
    if (mutated) {
        fmt::print(stderr, "nothing noticed that '{}' is broken, in {} runs\n", arguments.mutation, runs);
        return 1;
    }
    const bool standard = !arguments.seed;
    const bool good = !(standard || arguments.floors) || above_floors(total, runs);
    if (standard && arguments.random) {
        SystemRandom system;
        const std::uint64_t seed = system.bits() >> 16;
        fmt::print("random seed {}\n", seed);
        std::uint64_t hash = 0;
        if (!run_seed(arguments, seed, total, hash)) return 1;
    }
    print(total);
    fmt::print("{} run{}: every invariant held; traces {:016x}\n", runs, runs == 1 ? "" : "s", all);
    return good ? 0 : 1;
}

}  // namespace
}  // namespace semel::sim

int main(int argc, char** argv) {
    using namespace semel::sim;
    const Arguments arguments = parse(argc, argv);
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (!arguments.mutation.empty()) {
#ifdef SEMEL_MUTANTS
        semel::active_mutation = arguments.mutation;
        // An assertion is noticed too, if that is what should notice it.
        exit_on_abort = arguments.only.empty() || arguments.only == "assertion" ? 0 : 1;
#else
        refuse("this program follows the rules; semel_sim_mutants can break them");
#endif
    }
    std::signal(SIGABRT, on_abort);
    return run(arguments);
}
