// Walks every reachable state of one operation and checks every step out of each against the invariants.
//
//   enumerate --states-min N --edges-min N     the rules as shipped: every step must keep them all
//             --settings N                     only the first N settings
//   enumerate --mutation NAME --breaks I3      one rule broken on purpose: the walk must notice, and say which
//
// A violation is shown with the shortest history that leads to it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <ranges>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/assert.hpp"
#include "ledger/mutation.hpp"
#include "predicates.hpp"

#ifdef SEMEL_MUTANTS
std::string_view semel::active_mutation;
#endif

namespace semel::enumerate {
namespace {

constexpr std::array settings{
    Setting{.name = "keys without time", .identity = identity_ticks, .response = response_ticks, .key_time = {}},
    Setting{.name = "keys with time", .identity = identity_ticks, .response = response_ticks, .key_time = 1},
    Setting{.name = "keys with time, tombstones for ever", .identity = {}, .response = response_ticks, .key_time = 0},
    Setting{.name = "kept for ever", .identity = {}, .response = {}, .key_time = {}},
};

/// How often each answer was given: a walk that never meets one has not tested its rule.
using Answers = std::array<std::size_t, std::variant_size_v<Answer>>;

struct Found {
    Violation violation;
    std::vector<std::string> history;
};

class Walk {
public:
    explicit Walk(const Setting& setting) : setting_(setting) { number(pack(first_world(setting)), 0, 0); }

    /// Every state, every step. The first violation ends it.
    std::optional<Found> run() {
        for (std::uint32_t at = 0; at < states_.size(); ++at) {
            const World world = unpack(states_[at].packed, setting_);
            const std::vector<Move> possible = moves(world);
            next_begin_.push_back(next_.size());
            for (std::uint32_t m = 0; m < possible.size(); ++m) {
                const Step step = make(world, possible[m]);
                try {
                    check(step);
                } catch (const Violation& violation) {
                    return Found{violation, history(at, step)};
                }
                ++answers_[step.decision.answer.index()];
                follow(at, m, step);
            }
            forget_doubles();
            edges_ += possible.size();
        }
        next_begin_.push_back(next_.size());
        return std::nullopt;
    }

    /// A state from which neither settled nor absent can be reached, by the moves `all` or by time and a person alone.
    std::optional<Found> stuck(bool all) const {
        std::vector<bool> ends(states_.size());
        for (std::size_t at = 0; at < states_.size(); ++at) ends[at] = is_end(at);
        // Most steps lead to later numbers, so going backwards settles nearly all of it in one pass.
        for (bool grew = true; grew;) {
            grew = false;
            for (std::size_t at = states_.size(); at-- > 0;) {
                if (ends[at] || !reaches(at, ends, all)) continue;
                ends[at] = grew = true;
            }
        }
        const auto lost = std::ranges::find(ends, false) - ends.begin();
        if (static_cast<std::size_t>(lost) == states_.size()) return std::nullopt;
        return Found{{"I11", all ? "an operation that can never end" : "an operation that a person cannot end"},
                     history(static_cast<std::uint32_t>(lost))};
    }

    [[nodiscard]] std::size_t states() const { return states_.size(); }
    [[nodiscard]] std::size_t edges() const { return edges_; }
    [[nodiscard]] const Answers& answers() const { return answers_; }

private:
    struct Visited {
        Packed packed;
        std::uint32_t from;  ///< where the walk first came from
        std::uint32_t move;  ///< and by which of its moves
    };
    struct Next {
        std::uint32_t state;
        bool unaided;  ///< needs no holder and no claimant: time, or a person
        auto operator<=>(const Next&) const = default;
    };

    std::uint32_t number(Packed packed, std::uint32_t from, std::uint32_t move) {
        const auto [entry, is_new] = numbers_.try_emplace(packed, static_cast<std::uint32_t>(states_.size()));
        if (is_new) states_.push_back({packed, from, move});
        return entry->second;
    }

    void follow(std::uint32_t at, std::uint32_t move, const Step& step) {
        const std::size_t known = states_.size();
        const std::uint32_t to = number(pack(step.after), at, move);
        if (to == known) SEMEL_ASSERT(survives_packing(step.after), "a packed world keeps all that rules read");
        if (to == at) return;
        const Arrive* arrived = std::get_if<Arrive>(&step.move);
        const bool by_person = arrived && std::holds_alternative<Resolve>(arrived->command);
        next_.push_back({to, by_person || std::holds_alternative<PassTime>(step.move)});
    }

    void forget_doubles() {
        const auto begin = next_.begin() + static_cast<std::ptrdiff_t>(next_begin_.back());
        std::sort(begin, next_.end());
        next_.erase(std::unique(begin, next_.end()), next_.end());
    }

    [[nodiscard]] bool is_end(std::size_t at) const {
        const World world = unpack(states_[at].packed, setting_);
        return !world.record || world.record->state == State::settled;
    }

    [[nodiscard]] bool reaches(std::size_t at, const std::vector<bool>& ends, bool all) const {
        for (std::size_t i = next_begin_[at]; i < next_begin_[at + 1]; ++i)
            if ((all || next_[i].unaided) && ends[next_[i].state]) return true;
        return false;
    }

    [[nodiscard]] std::vector<std::string> history(std::uint32_t at) const {
        std::vector<std::string> lines{"then: " + text(unpack(states_[at].packed, setting_))};
        for (; at != 0; at = states_[at].from) {
            const World world = unpack(states_[states_[at].from].packed, setting_);
            lines.push_back(line(make(world, moves(world).at(states_[at].move))));
        }
        std::ranges::reverse(lines);
        return lines;
    }

    [[nodiscard]] std::vector<std::string> history(std::uint32_t at, const Step& last) const {
        auto lines = history(at);
        lines.back() = line(last);
        lines.push_back("then: " + text(last.after));
        return lines;
    }

    static std::string line(const Step& step) {
        return fmt::format("{:60} | {} -> {}", text(step.before), text(step.move), text(step.decision.answer));
    }

    const Setting& setting_;
    std::vector<Visited> states_;
    std::unordered_map<Packed, std::uint32_t> numbers_;
    std::vector<Next> next_;  ///< where each state leads, without doubles
    std::vector<std::size_t> next_begin_;
    std::size_t edges_ = 0;
    Answers answers_{};
};

struct Totals {
    std::size_t states = 0;
    std::size_t edges = 0;
    Answers answers{};
};

std::optional<Found> walk_all(std::size_t settings_max, Totals& totals) {
    for (const Setting& setting : settings | std::views::take(settings_max)) {
        const auto started = std::chrono::steady_clock::now();
        Walk walk(setting);
        auto found = walk.run();
        if (!found) found = walk.stuck(true);
        if (!found) found = walk.stuck(false);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
        fmt::print("{}: {} states, {} edges, {:.1f} s\n", setting.name, walk.states(), walk.edges(), took.count());
        totals.states += walk.states();
        totals.edges += walk.edges();
        std::ranges::transform(totals.answers, walk.answers(), totals.answers.begin(), std::plus{});
        if (found) return found;
    }
    return std::nullopt;
}

void show(const Found& found) {
    fmt::print("violates {}: {}\n", found.violation.invariant, found.violation.what);
    for (const std::string& line : found.history) fmt::print("    {}\n", line);
}

struct Arguments {
    std::size_t settings_max = settings.size();
    std::size_t states_min = 0;
    std::size_t edges_min = 0;
    std::string mutation;
    std::string breaks;
};

Arguments read_arguments(int argc, char** argv) {
    Arguments arguments;
    for (int i = 1; i + 1 < argc; i += 2) {
        const std::string name = argv[i];
        if (name == "--settings") arguments.settings_max = std::stoul(argv[i + 1]);
        if (name == "--states-min") arguments.states_min = std::stoul(argv[i + 1]);
        if (name == "--edges-min") arguments.edges_min = std::stoul(argv[i + 1]);
        if (name == "--mutation") arguments.mutation = argv[i + 1];
        if (name == "--breaks") arguments.breaks = argv[i + 1];
    }
    return arguments;
}

/// Prints how often each answer was given; false if one never was. Withheld is a store's word, not a rule's.
bool show_answers(const Totals& totals) {
    static const std::array<Answer, 11> all{Claimed{}, Replay{},  Busy{},   Mismatch{}, Unknown{}, Expired{},
                                            Ok{},      Settled{}, Fenced{}, TooEarly{}, Late{}};
    bool every = true;
    for (const Answer& answer : all) {
        const std::size_t count = totals.answers[answer.index()];
        const std::string line = text(answer);
        fmt::print("{:>9} {}\n", count, line.substr(0, line.find(' ')));
        every = every && count > 0;
    }
    return every;
}

int judge_rules(const Arguments& arguments) {
    Totals totals;
    if (const auto found = walk_all(arguments.settings_max, totals)) {
        show(*found);
        return EXIT_FAILURE;
    }
    fmt::print("all: {} states, {} edges\n", totals.states, totals.edges);
    const bool every_answer = show_answers(totals) || arguments.settings_max < settings.size();
    if (every_answer && totals.states >= arguments.states_min && totals.edges >= arguments.edges_min)
        return EXIT_SUCCESS;
    fmt::print("too few: there must be {} states, {} edges and every answer\n", arguments.states_min,
               arguments.edges_min);
    return EXIT_FAILURE;
}

int judge_mutation(const Arguments& arguments) {
    Totals totals;
    const auto found = walk_all(arguments.settings_max, totals);
    if (!found) {
        fmt::print("{} survived: no predicate notices that the rule is broken\n", arguments.mutation);
        return EXIT_FAILURE;
    }
    show(*found);
    if (found->violation.invariant == arguments.breaks) return EXIT_SUCCESS;
    fmt::print("{} should break {}\n", arguments.mutation, arguments.breaks);
    return EXIT_FAILURE;
}

}  // namespace
}  // namespace semel::enumerate

int main(int argc, char** argv) {
    using namespace semel::enumerate;
    const Arguments arguments = read_arguments(argc, argv);
    if (arguments.mutation.empty()) return judge_rules(arguments);
#ifdef SEMEL_MUTANTS
    semel::active_mutation = arguments.mutation;
#endif
    return judge_mutation(arguments);
}
