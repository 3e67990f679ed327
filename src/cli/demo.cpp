// semel demo: a wallet that receives payments, with duplicates injected at the five places where they arise.
//
//   client --request--> payments API --charge--> provider       claim, effect, settle: the ledger with a lease
//                            |
//                         message
//                            v
//                          broker --delivery--> consumer        claim, credit and outcome in the wallet's transaction
//
// The consumer is a process of its own and is killed for real. At the end the wallets are compared with the payments.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <thread>

#include "base/random.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/demo_consumer.hpp"
#include "cli/demo_payments.hpp"
#include "cli/demo_plan.hpp"
#include "cli/demo_report.hpp"
#include "cli/demo_wallet.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_record.hpp"
#include "semel/sqlite.hpp"

namespace semel::cli {
namespace demo {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

/// How long a run takes where somebody watches.
constexpr std::chrono::milliseconds watched_run{6'000};

std::atomic<bool> interrupted = false;
void interrupt(int) { interrupted = true; }

// ---- the world -------------------------------------------------------------------------------------------------

/// Everything that takes part, on one database file.
class World {
public:
    static Result<std::unique_ptr<World>> make(const std::string& path, const Plan& plan) {
        sqlite::Options options;
        options.path = path;
        auto store = sqlite::open(std::move(options));
        if (!store) return store.failure();
        auto world = std::unique_ptr<World>(new World(path, plan, std::move(*store)));
        auto committer = Committer::start(world->store_);
        if (!committer) return committer.failure();
        world->committer_ = std::move(*committer);
        auto wallet = Wallet::open(path);
        if (!wallet) return wallet.failure();
        if (auto created = wallet->create(plan.accounts); !created) return created.failure();
        world->wallet_.emplace(std::move(*wallet));
        if (auto started = world->start_consumer(); !started) return started.failure();
        world->api_.emplace(world->store_, *world->committer_, world->provider_);
        return world;
    }

    /// One payment on its whole way, with everything that is to go wrong with it.
    Status play(std::size_t number) {
        const Step& step = plan_.steps[number];
        if (auto paid = request(step); !paid) return paid;
        if (auto credited = first_delivery(step); !credited) return credited;
        if (step.acknowledgement_lost) {
            if (auto again = redeliver(step.payment, Duplicate::lost_acknowledgement); !again) return again;
        }
        for (std::size_t back = 0; back < step.broker_goes_back; ++back) {
            const Payment& earlier = plan_.steps[number + 1 - step.broker_goes_back + back].payment;
            if (auto again = redeliver(earlier, Duplicate::broker_replay); !again) return again;
        }
        return Done{};
    }

    Result<std::vector<Wallet::Check>> check() {
        auto checks = wallet_->check(plan_);
        if (!checks) return checks.failure();
        const auto applied = wallet_->applied();
        if (!applied) return applied.failure();
        tally_.applied = *applied;
        tally_.charges = provider_.charges();
        checks->push_back(
            {tally_.charges == tally_.payments,
             fmt::format("the provider charged {} times for {} payments", tally_.charges, tally_.payments)});
        checks->push_back({answers_equal_, "every retry got the first answer, byte for byte"});
        checks->push_back({tally_.absorbed == tally_.injected, "every duplicate was absorbed"});
        return checks;
    }

    [[nodiscard]] const Tally& tally() const { return tally_; }

private:
    World(std::string path, const Plan& plan, std::unique_ptr<Store> store)
        : path_(std::move(path)), plan_(plan), store_(std::move(store)) {
        tally_.payments = plan.steps.size();
    }

    Status start_consumer() {
        auto consumer = ConsumerProcess::start(path_);
        if (!consumer) return consumer.failure();
        consumer_ = std::move(*consumer);
        return Done{};
    }

    /// The client's part: the request, and its retry.
    Status request(const Step& step) {
        const std::uint64_t lost_before = store_.replies_lost();
        if (step.claim_reply_lost) store_.lose_next_reply();
        std::future<Result<PaymentsApi::Response>> overtaking;
        if (step.retry_overtakes) overtaking = std::async(std::launch::async, [&] { return api_->pay(step); });
        const auto first = api_->pay(step);
        std::optional<Result<PaymentsApi::Response>> second;
        if (step.retry_overtakes)
            second = overtaking.get();
        else if (step.client_retries)
            second = api_->pay(step);
        ++tally_.requests;
        if (!first) return first.failure();
        const bool charged_once = provider_.charges_of(PaymentsApi::charge_key(step.payment)) == 1;
        if (second) {
            ++tally_.requests;
            if (!*second) return second->failure();
            answers_equal_ = answers_equal_ && (*second)->outcome == first->outcome;
            tally_.count(Duplicate::client_retry, charged_once && ((*second)->replayed || first->replayed));
        }
        for (std::uint64_t i = lost_before; i < store_.replies_lost(); ++i)
            tally_.count(Duplicate::database_reply_lost, charged_once);
        return Done{};
    }

    Result<std::string> deliver(const Payment& payment, Fault fault) {
        ++tally_.deliveries;
        return consumer_->deliver(payment, fault);
    }

    /// The broker's part: until the consumer acknowledges.
    Status first_delivery(const Step& step) {
        if (step.consumer_crashes) {
            const auto written = deliver(step.payment, Fault::crash_before_commit);
            if (!written) return written.failure();
            if (*written != "before-commit")
                return Failure{Code::unavailable, "the consumer did not stop before its commit"};
            consumer_->kill();
            if (auto started = start_consumer(); !started) return started;
        }
        const auto answer = deliver(step.payment, step.consumer_reply_lost ? Fault::reply_lost : Fault::none);
        if (!answer) return answer.failure();
        if (step.consumer_crashes) tally_.count(Duplicate::consumer_crash, answer->starts_with("applied"));
        if (step.consumer_reply_lost) tally_.count(Duplicate::database_reply_lost, *answer == "applied replay");
        return Done{};
    }

    Status redeliver(const Payment& payment, Duplicate why) {
        const auto answer = deliver(payment, Fault::none);
        if (!answer) return answer.failure();
        tally_.count(why, *answer == "replay");
        return Done{};
    }

    std::string path_;
    const Plan& plan_;
    LossyStore store_;
    Provider provider_;
    std::unique_ptr<Committer> committer_;
    std::optional<PaymentsApi> api_;
    std::optional<Wallet> wallet_;
    std::unique_ptr<ConsumerProcess> consumer_;
    Tally tally_;
    bool answers_equal_ = true;
};

// ---- the run ---------------------------------------------------------------------------------------------------

struct Options {
    bool once = false;
    bool keep = false;
    std::string payments = "300";
    std::optional<std::string> seed;
    std::optional<std::string> store;
};

/// The folder of the database, removed at the end unless it is to be kept.
class Place {
public:
    static Result<Place> make(const std::optional<StoreUrl>& url, bool keep) {
        if (url) return Place({}, url->place, true);
        std::error_code error;
        std::string folder = (fs::temp_directory_path(error) / "semel-demo-XXXXXX").string();
        if (error || mkdtemp(folder.data()) == nullptr)
            return refused(
                fmt::format("folder {}: cannot be made; set TMPDIR to a folder that can be written to", folder));
        return Place(folder, folder + "/wallet.db", keep);
    }
    Place(Place&& other) noexcept
        : folder_(std::exchange(other.folder_, {})), path_(std::move(other.path_)), keep_(other.keep_) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
        std::error_code ignored;
        if (!keep_ && !folder_.empty()) fs::remove_all(folder_, ignored);
    }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] bool kept() const { return keep_; }

private:
    Place(std::string folder, std::string path, bool keep)
        : folder_(std::move(folder)), path_(std::move(path)), keep_(keep) {}
    std::string folder_;
    std::string path_;
    bool keep_;
};

/// Progress as one line that changes on a terminal, and as a few lines elsewhere.
class Progress {
public:
    Progress(std::size_t steps, bool watched, Paint paint)
        : steps_(steps),
          watched_(watched),
          paint_(paint),
          every_(watched ? std::max<std::size_t>(1, steps / 200) : std::max<std::size_t>(1, steps / 5)) {}
    void show(const Tally& tally, std::size_t done) const {
        if (done % every_ != 0 && done != steps_) return;
        const std::string line = progress_line(tally, done, paint_);
        if (watched_)
            fmt::print("\r\x1b[K{}", line);
        else
            fmt::print("{}\n", line);
        std::fflush(stdout);
    }
    void end() const {
        if (watched_) fmt::print("\n");
    }

private:
    std::size_t steps_;
    bool watched_;
    Paint paint_;
    std::size_t every_;
};

void print_what_next(const Place& place, const Plan& plan) {
    if (!place.kept()) {
        fmt::print(
            "\nTry next:\n"
            "  semel demo --keep      the same, and the store stays to be looked into\n"
            "  semel key new --uuid7  a key for your own first request\n"
            "  semel --help           everything else\n");
        return;
    }
    const std::string store = shell_word("sqlite:" + place.path());
    const Payment& payment = plan.steps.front().payment;
    fmt::print(
        "\nThe store was kept. Try next:\n"
        "  semel ops list --store {0} --correlation {1}\n"
        "  semel ops show --store {0} {2} {3}\n"
        "  semel ops show --store {0} --body {2} {3}\n",
        store, payment.correlation, payments_scope, payment.key.text());
}

int play(World& world, const Plan& plan, const Options& options, bool watched, const Paint& paint) {
    const Progress progress(plan.steps.size(), watched, paint);
    const bool paced = watched && !options.once;
    const auto started = Steady::now();
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
        if (interrupted) {
            progress.end();
            complain("interrupted");
            return exit_failure;
        }
        if (auto played = world.play(i); !played) {
            progress.end();
            return fail({Code::unavailable, played.failure().message});
        }
        progress.show(world.tally(), i + 1);
        if (paced) std::this_thread::sleep_until(started + watched_run * (i + 1) / plan.steps.size());
    }
    progress.end();
    return exit_ok;
}

int run(const Options& options) {
    const auto payments = parse_count("--payments", options.payments, 1, payments_max);
    if (!payments) return fail(payments.failure());
    std::uint64_t seed = SystemRandom().bits() % 1'000'000;
    if (options.seed) {
        const auto parsed = parse_count("--seed", *options.seed, 0, UINT64_MAX);
        if (!parsed) return fail(parsed.failure());
        seed = *parsed;
    }
    std::optional<StoreUrl> url;
    if (options.store) {
        auto parsed = parse_store_url(*options.store);
        if (!parsed) return fail(parsed.failure());
        if (parsed->kind != StoreUrl::Kind::sqlite)
            return fail(refused(fmt::format(
                "--store {}: the demo is about SQLite; name a new file, as in sqlite:demo.db", parsed->text())));
        std::error_code ignored;
        if (fs::exists(parsed->place, ignored))
            return fail(refused(fmt::format("--store {}: that file exists; the demo wants a new one", parsed->text())));
        const fs::path folder = fs::path(parsed->place).parent_path();
        if (!folder.empty() && !fs::is_directory(folder, ignored))
            return fail(refused(fmt::format("--store {}: there is no folder {}", parsed->text(), folder.string())));
        url = std::move(*parsed);
    }
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    signal(SIGPIPE, SIG_IGN);  // whoever reads us may leave; the database is still to be removed
    const bool watched = isatty(STDOUT_FILENO) != 0;
    const Paint paint(watched && std::getenv("NO_COLOR") == nullptr);
    const auto place = Place::make(url, options.keep);
    if (!place) return fail(place.failure());
    const Plan plan = make_plan(*payments, seed);
    fmt::print("{}\n{}\n\n",
               paint.bold(fmt::format("{} payments into {} wallets, and everything that makes them arrive twice",
                                      plan.steps.size(), plan.accounts.size())),
               paint.dim(fmt::format("seed {}, store sqlite:{}", seed, place->path())));
    const auto world = World::make(place->path(), plan);
    if (!world) return fail(world.failure());
    if (const int code = play(**world, plan, options, watched, paint); code != exit_ok) return code;
    const auto checks = (*world)->check();
    if (!checks) return fail(checks.failure());
    fmt::print("\n{}", report((*world)->tally(), *checks, paint));
    if (!std::ranges::all_of(*checks, &Wallet::Check::passed)) {
        complain(fmt::format("the demo's check failed; `semel demo --seed {}` shows it again", seed));
        return exit_failure;
    }
    print_what_next(*place, plan);
    return exit_ok;
}

}  // namespace
}  // namespace demo

void add_demo(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<demo::Options>();
    CLI::App* const command = root.add_subcommand("demo", "see duplicates being absorbed, with nothing to install");
    command->footer(
        "A wallet on SQLite receives payments. Duplicates are injected where they arise: client retry, lost "
        "acknowledgement,\n"
        "broker replay, a consumer killed before its commit, a database reply that is lost. At the end the balances "
        "are\n"
        "compared with the payments; the exit code is 1 if they differ.");
    command->add_flag("--once", options->once, "one run at full speed, also where somebody watches");
    command->add_option("--payments", options->payments, "how many, up to 100000")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--seed", options->seed, "repeat an earlier run")->type_name("N");
    command->add_option("--store", options->store, "a new database, which stays: sqlite:PATH")->type_name("URL");
    command->add_flag("--keep", options->keep, "keep the database, to look into it");
    when_asked(*command, chosen, [options] { return demo::run(*options); });

    const auto path = std::make_shared<std::string>();
    CLI::App* const consumer = root.add_subcommand("demo-consumer", "the demo's consumer process");
    consumer->group("");  // started by the demo, not by users
    consumer->add_option("path", *path)->required();
    when_asked(*consumer, chosen, [path] { return demo::consume(*path); });
}

}  // namespace semel::cli
