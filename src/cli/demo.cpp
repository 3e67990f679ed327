// semel demo: a payments API, the gateway before it on SQLite, and clients that send everything twice.
//
//   clients --retries, double clicks…--> gateway --once--> payments API, which charges for every request it gets
//                                           |
//                                        ledger: sqlite
//
// At the end of the traffic the API's own count of charges is compared with what the clients were told; then all of it
// stays up, to be tried by hand.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/json.hpp"
#include "base/random.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/demo_api.hpp"
#include "cli/demo_plan.hpp"
#include "cli/demo_report.hpp"
#include "cli/demo_traffic.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_record.hpp"
#include "gateway/config_reader.hpp"
#include "gateway/server.hpp"

namespace semel::cli {
namespace demo {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

/// How long the traffic takes where somebody watches.
constexpr milliseconds watched_traffic{5'000};
/// How late a slow API is: hardly, while the traffic runs; for a person to see, afterwards.
constexpr milliseconds late_in_traffic{50};
constexpr milliseconds late_by_hand{3'000};
constexpr milliseconds progress_every{50};
/// Tried first where somebody may want to remember it.
constexpr std::uint16_t usual_port = 8080;

struct Options {
    bool once = false;
    bool keep = false;
    std::string payments = "300";
    std::optional<std::string> seed;
    std::optional<std::string> listen;
};

/// SIGINT and SIGTERM, which nobody gets but who waits here. Made before any thread.
class Ending {
public:
    Ending() {
        sigemptyset(&signals_);
        sigaddset(&signals_, SIGINT);
        sigaddset(&signals_, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
        signal(SIGPIPE, SIG_IGN);  // whoever reads us may leave; the folder is still to be removed
    }
    /// Whether it has come within that time.
    [[nodiscard]] bool within(milliseconds time) const {
        const timespec limit{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
        return sigtimedwait(&signals_, nullptr, &limit) > 0;
    }
    void wait() const {
        int taken = 0;
        sigwait(&signals_, &taken);
    }

private:
    sigset_t signals_{};
};

/// A folder for store, configuration and log, removed at the end unless it is to be kept.
class Folder {
public:
    static Result<Folder> make(bool keep) {
        std::error_code error;
        std::string path = (fs::temp_directory_path(error) / "semel-demo-XXXXXX").string();
        if (error || mkdtemp(path.data()) == nullptr)
            return refused(
                fmt::format("folder {}: cannot be made; set TMPDIR to a folder that can be written to", path));
        return Folder(std::move(path), keep);
    }
    Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, {})), keep_(other.keep_) {}
    Folder& operator=(Folder&&) = delete;
    ~Folder() {
        std::error_code ignored;
        if (!keep_ && !path_.empty()) fs::remove_all(path_, ignored);
    }
    [[nodiscard]] std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }
    [[nodiscard]] bool kept() const { return keep_; }

private:
    Folder(std::string path, bool keep) : path_(std::move(path)), keep_(keep) {}
    std::string path_;
    bool keep_;
};

// ---- the gateway -----------------------------------------------------------------------------------------------

/// A file name as a value of the configuration, in which a dollar begins a variable.
std::string quoted(const std::string& text) {
    std::string value;
    for (const char c : text) value += c == '$' ? std::string("$$") : std::string(1, c);
    return json_text(value);
}

std::string configuration(const Folder& folder, std::uint16_t port, std::uint16_t api) {
    return fmt::format(
        "store: {}\n"
        "listen: 127.0.0.1:{}\n"
        "admin: 127.0.0.1:0\n"
        "upstream: http://127.0.0.1:{}\n"
        "tenant: {{ header: Authorization }}\n"
        "log: {{ file: {} }}\n"
        "routes:\n"
        "  - name: payments\n"
        "    match: POST /v1/payments\n"
        "    release_on: [503]  # this API answers it before it charges\n",
        quoted("sqlite:" + folder.file("semel.db")), port, api, quoted(folder.file("gateway.log")));
}

/// The gateway with what it stands on.
struct Service {
    std::unique_ptr<gateway::Logger> log;
    std::unique_ptr<Store> store;
    std::unique_ptr<gateway::Gateway> gateway;
};

Result<Service> serve(const Folder& folder, std::uint16_t port, std::uint16_t api) {
    const std::string file = folder.file("semel.yaml");
    std::ofstream(file) << configuration(folder, port, api);
    gateway::ReadConfig read = gateway::read_config(file);
    if (!read.config) return Failure{Code::unavailable, read.problems.empty() ? file : read.problems.front().message};
    Service service;
    auto log = gateway::Logger::open(read.config->log);
    if (!log) return log.failure();
    service.log = std::move(*log);
    const auto url = parse_store_url(read.config->store);
    if (!url) return url.failure();
    if (const auto migrated = migrate_store(*url); !migrated) return migrated.failure();
    auto store = open_store(*url, Purpose::change);
    if (!store) return store.failure();
    service.store = std::move(*store);
    auto gateway = gateway::Gateway::start(std::move(*read.config), *service.store, *service.log);
    if (!gateway) return gateway.failure();
    service.gateway = std::move(*gateway);
    return service;
}

/// Where the user says; else where one would look for it, if that is free; a script does not care.
Result<Service> serve_somewhere(const Folder& folder, const std::optional<std::uint16_t>& wanted, bool once,
                                std::uint16_t api) {
    if (wanted) return serve(folder, *wanted, api);
    if (!once)
        if (auto service = serve(folder, usual_port, api)) return service;
    return serve(folder, 0, api);
}

// ---- the run ---------------------------------------------------------------------------------------------------

/// Progress as one line that changes on a terminal, and as a few lines elsewhere.
class Progress {
public:
    Progress(const Traffic& traffic, const PaymentsApi& api, std::size_t payments, bool watched, const Paint& paint)
        : traffic_(traffic), api_(api), payments_(payments), watched_(watched), paint_(paint) {}

    void show() {
        const Tally tally = traffic_.tally();
        if (!watched_ && tally.done < next_) return;
        const std::string line = progress_line(tally, payments_, api_.charges(), paint_);
        if (watched_)
            fmt::print("\r\x1b[K{}", line);
        else
            fmt::print("{}\n", line);
        std::fflush(stdout);
        next_ = tally.done == payments_ ? payments_ + 1
                                        : std::min(payments_, tally.done + std::max<std::size_t>(1, payments_ / 5));
    }
    void end() {
        show();
        if (watched_) fmt::print("\n");
    }

private:
    const Traffic& traffic_;
    const PaymentsApi& api_;
    std::size_t payments_;
    bool watched_;
    const Paint& paint_;
    std::size_t next_ = 1;  ///< elsewhere: how many payments make the next line
};

/// False: a signal came first.
bool watch(const Traffic& traffic, Progress& progress, const Ending& ending) {
    while (!traffic.finished()) {
        progress.show();
        if (ending.within(progress_every)) return false;
    }
    progress.end();
    return true;
}

std::string curl_line(const std::string& url, std::string_view body) {
    return fmt::format(
        "  curl -i {}/v1/payments -H 'Authorization: Bearer demo' -H 'Idempotency-Key: my-order-1' "
        "-H 'Content-Type: application/json' -d '{}'\n",
        url, body);
}

void print_what_to_try(const gateway::Gateway& gateway, const Folder& folder, const Paint& paint) {
    const std::string url = "http://" + gateway.address().text();
    const auto comment = [&](std::string_view text) { fmt::print("{}\n", paint.dim(fmt::format("  # {}", text))); };
    fmt::print("\n{}\n", paint.bold(fmt::format("The gateway listens on {}. Try it:", url)));
    comment("a payment");
    fmt::print("{}", curl_line(url, R"({"amount":1999,"currency":"EUR"})"));
    comment("the same again, written differently: the same answer, replayed; nothing is charged");
    fmt::print("{}", curl_line(url, R"({"currency":"EUR", "amount":1999.0})"));
    comment("the same key for another payment: 422");
    fmt::print("{}", curl_line(url, R"({"amount":2999,"currency":"EUR"})"));
    fmt::print(
        "\nWith a new key and -H 'X-Demo: …' the API misbehaves: slow (answers late), drop (charges and hangs up),\n"
        "crash (charges and dies), error (charges and answers 500), busy (answers 503, charges nothing).\n\n");
    fmt::print("  charges so far   {}/v1/charges\n", url);
    if (const auto admin = gateway.admin_address()) {
        fmt::print("  metrics          http://{}/metrics\n", admin->text());
        fmt::print("  the ledger       http://{}/operations\n", admin->text());
    }
    fmt::print("                   semel ops list --store {}\n", shell_word("sqlite:" + folder.file("semel.db")));
    fmt::print("  configuration    {}\n", folder.file("semel.yaml"));
    fmt::print("  log              {}\n", folder.file("gateway.log"));
    fmt::print("\nCtrl-C ends it{}.\n", folder.kept() ? "" : " and removes all of this");
    std::fflush(stdout);
}

int run_in(const Folder& folder, const Plan& plan, std::uint64_t seed, const Options& options,
           const std::optional<std::uint16_t>& port) {
    const Ending ending;
    const bool watched = isatty(STDOUT_FILENO) != 0;
    const Paint paint(watched && std::getenv("NO_COLOR") == nullptr);
    const auto api = PaymentsApi::start();
    if (!api) return fail(api.failure());
    const auto service = serve_somewhere(folder, port, options.once, (*api)->port());
    if (!service) return fail(service.failure());
    gateway::Gateway& gateway = *service->gateway;
    (*api)->slow_for(late_in_traffic);
    fmt::print("{}\n{}\n\n",
               paint.bold(fmt::format("{} payments through the gateway, and everything that makes them arrive twice",
                                      plan.steps.size())),
               paint.dim(fmt::format("seed {}, store sqlite:{}", seed, folder.file("semel.db"))));
    {
        const bool paced = watched && !options.once;
        const Traffic traffic(plan, **api, gateway.address().port, paced ? watched_traffic : milliseconds{0});
        Progress progress(traffic, **api, plan.steps.size(), watched, paint);
        if (!watch(traffic, progress, ending)) {
            if (watched) fmt::print("\n");
            complain("interrupted");
            return exit_failure;
        }
        if (const auto failure = traffic.failure()) return fail({Code::unavailable, failure->message});
        const Verdict verdict = traffic.judge();
        fmt::print("\n{}", report(plan, traffic.tally(), verdict, paint));
        if (!verdict.passed()) {
            complain(fmt::format("the demo's check failed; `semel demo --seed {}` sends the same again", seed));
            return exit_failure;
        }
    }
    std::fflush(stdout);
    if (!options.once) {
        (*api)->slow_for(late_by_hand);
        print_what_to_try(gateway, folder, paint);
        ending.wait();
        if (watched) fmt::print("\n");
    } else if (folder.kept()) {
        fmt::print("\nThe store was kept:\n  semel ops list --store {}\n",
                   shell_word("sqlite:" + folder.file("semel.db")));
    }
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
    std::optional<std::uint16_t> port;
    if (options.listen) {
        const auto parsed = parse_count("--listen", *options.listen, 1, UINT16_MAX);
        if (!parsed) return fail(parsed.failure());
        port = static_cast<std::uint16_t>(*parsed);
    }
    const auto folder = Folder::make(options.keep);
    if (!folder) return fail(folder.failure());
    return run_in(*folder, make_plan(*payments, seed), seed, options, port);
}

}  // namespace
}  // namespace demo

void add_demo(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<demo::Options>();
    CLI::App* const command = root.add_subcommand("demo", "see duplicates being absorbed, with nothing to install");
    command->footer(
        "Starts a small payments API, the gateway before it with a ledger on SQLite, and clients that time out, click twice,\n"
        "retry and reuse keys while the API is slow, loses answers and crashes. Then the API's own count of charges is\n"
        "compared with what the clients were told; the exit code is 1 if they differ. All of it stays up until Ctrl-C, with\n"
        "curl lines to try. Everything listens on loopback and lives in a temporary folder.");
    command->add_flag("--once", options->once, "end after the traffic, which is sent at full speed");
    command->add_option("--payments", options->payments, "how many, up to 100000")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--seed", options->seed, "the payments and troubles of an earlier run")->type_name("N");
    command->add_option("--listen", options->listen, "the gateway's port; default: 8080, or a free one")
        ->type_name("PORT");
    command->add_flag("--keep", options->keep, "keep the folder with store, configuration and log");
    when_asked(*command, chosen, [options] { return demo::run(*options); });
}

}  // namespace semel::cli
