// semel verify: tests whether any HTTP API makes retries harmless. This file reads the options and runs the rounds; the
// rules are in src/verify/.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/clock.hpp"
#include "base/quote.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/table.hpp"
#include "cli/verify_report.hpp"
#include "http/fields.hpp"
#include "verify/scenarios.hpp"

namespace semel::cli {
namespace {

constexpr std::size_t body_bytes_max = 64U << 20;
constexpr std::uint64_t parallel_max = 500;
constexpr Duration wait_max = std::chrono::hours(1);
constexpr Duration every_max = std::chrono::hours(24 * 30);

struct Options {
    std::optional<std::string> url;
    std::string method = "POST";
    std::optional<std::string> data;
    std::vector<std::string> headers;
    std::string key_header = "Idempotency-Key";
    std::string key_format = "uuid";
    bool quoted_key = false;
    bool key_optional = false;
    std::optional<std::string> other_data;
    std::vector<std::string> other_tenant;
    std::vector<std::string> error_headers;
    std::optional<std::string> error_data;
    std::vector<std::string> secret_headers;
    bool literal = false;

    std::optional<std::string> count_command;
    std::vector<std::string> count_sql;
    std::optional<std::string> count_url;
    std::optional<std::string> count_pointer;
    std::vector<std::string> count_headers;

    std::vector<std::string> only;
    std::vector<std::string> skip;
    bool list = false;
    std::string parallel = "20";
    std::string timeout = "10s";
    std::string retry_within = "10s";
    std::string count_within = "5s";
    std::string count_settle = "300ms";
    std::string cacert;

    bool json = false;
    std::string junit;
    bool all_exchanges = false;
    std::optional<std::string> every;
    std::optional<std::string> rounds;
    std::string metrics_file;
};

/// What the options mean.
struct Plan {
    verify::Subject subject;
    verify::Patience patience;
    verify::Tls tls;
    std::unique_ptr<verify::Counter> counter;  ///< null: effects are not counted
    std::vector<const verify::Scenario*> chosen;
    Exchanges exchanges = Exchanges::of_failures;
    std::optional<Duration> every;
    std::uint64_t rounds_max = 1;
};

// ---- reading the options -------------------------------------------------------------------------------------------

Failure of_option(std::string_view name, const Failure& failure) {
    return refused(fmt::format("{}: {}", name, failure.message));
}

/// BODY, or @FILE as curl has it.
Result<std::string> read_body(std::string_view name, const std::string& text) {
    if (!text.starts_with('@')) return text;
    auto read = read_file(text.substr(1), body_bytes_max);
    if (!read) return of_option(name, read.failure());
    return read;
}

Status read_bodies(const Options& options, verify::Subject& subject) {
    struct Body {
        const char* name;
        const std::optional<std::string>& text;
        std::optional<std::string>& into;
    };
    for (const auto& [name, text, into] :
         {Body{"--data", options.data, subject.body}, Body{"--other-data", options.other_data, subject.other_body},
          Body{"--error-data", options.error_data, subject.error_body}}) {
        if (!text) continue;
        auto body = read_body(name, *text);
        if (!body) return body.failure();
        into = std::move(*body);
    }
    return Done{};
}

Status read_header_list(std::string_view name, const std::vector<std::string>& words,
                        std::vector<verify::Header>& into) {
    for (const std::string& word : words) {
        auto header = verify::parse_header(word);
        if (!header) return of_option(name, header.failure());
        into.push_back(std::move(*header));
    }
    return Done{};
}

Status read_headers(const Options& options, verify::Subject& subject) {
    struct List {
        const char* name;
        const std::vector<std::string>& words;
        std::vector<verify::Header>& into;
    };
    for (const auto& [name, words, into] : {List{"--header", options.headers, subject.headers},
                                            List{"--other-tenant", options.other_tenant, subject.other_tenant},
                                            List{"--error-header", options.error_headers, subject.error_headers}})
        if (auto read = read_header_list(name, words, into); !read) return read;
    for (const verify::Header& header : subject.headers)
        if (http::same_name(header.name, options.key_header))
            return refused(fmt::format("--header {}: keys are made here, one per intent", in_quotes(header.name)));
    if (!verify::parse_header(options.key_header + ": k"))
        return refused(fmt::format("--key-header {}: that is no name of a header", in_quotes(options.key_header)));
    subject.key_header = options.key_header;
    subject.secret_headers = options.secret_headers;
    for (const verify::Header& header : subject.other_tenant) subject.secret_headers.push_back(header.name);
    return Done{};
}

Status check_templates(const Options& options, const verify::Subject& subject) {
    std::vector<std::pair<std::string_view, std::string_view>> texts{{"URL", subject.url}};
    for (const auto* body : {&subject.body, &subject.other_body, &subject.error_body})
        if (*body) texts.emplace_back("--data", **body);
    for (const auto* list : {&subject.headers, &subject.other_tenant, &subject.error_headers})
        for (const verify::Header& header : *list) texts.emplace_back("--header", header.value);
    if (options.count_command) texts.emplace_back("--count-command", *options.count_command);
    if (options.count_url) texts.emplace_back("--count-url", *options.count_url);
    for (const std::string& word : options.count_sql) texts.emplace_back("--count-sql", word);
    for (const auto& [name, text] : texts)
        if (auto fits = verify::check_placeholders(name, text); !fits) return fits;
    return Done{};
}

Result<verify::Subject> read_subject(const Options& options) {
    if (!options.url) return refused("a URL is missing, as in http://127.0.0.1:8080/v1/payments; --help shows how");
    verify::Subject subject;
    subject.url = *options.url;
    subject.method = options.method;
    subject.key_optional = options.key_optional;
    subject.key_spelling = options.quoted_key ? verify::KeySpelling::quoted : verify::KeySpelling::bare;
    const auto format = parse_format(options.key_format);
    if (!format)
        return refused(fmt::format("--key-format {}: must be any, uuid or uuidv7", in_quotes(options.key_format)));
    subject.key_format = *format;
    if (auto read = read_bodies(options, subject); !read) return read.failure();
    if (auto read = read_headers(options, subject); !read) return read.failure();
    if (!options.literal)
        if (auto fits = check_templates(options, subject); !fits) return fits.failure();
    const auto url = verify::Url::parse(verify::fill_in(subject.url, verify::make_intent(1, subject.key_format)));
    if (!url) return url.failure();
    const verify::Request sample{.method = subject.method, .url = *url, .headers = {}, .body = ""};
    if (auto bytes = verify::to_bytes(sample); !bytes) return of_option("--method", bytes.failure());
    return subject;
}

Result<verify::Patience> read_patience(const Options& options) {
    verify::Patience patience;
    struct Wait {
        const char* name;
        const std::string& text;
        Duration& into;
    };
    for (const auto& [name, text, into] : {Wait{"--timeout", options.timeout, patience.timeout},
                                           Wait{"--retry-within", options.retry_within, patience.retry_within},
                                           Wait{"--count-within", options.count_within, patience.count_within},
                                           Wait{"--count-settle", options.count_settle, patience.count_settle}}) {
        const auto wait = parse_duration_of(name, text);
        if (!wait) return wait.failure();
        if (*wait <= Duration::zero() || *wait > wait_max)
            return refused(fmt::format("{} {}: must be longer than 0s and at most 1h", name, in_quotes(text)));
        into = *wait;
    }
    const auto parallel = parse_count("--parallel", options.parallel, 2, parallel_max);
    if (!parallel) return parallel.failure();
    patience.parallel = *parallel;
    return patience;
}

/// Null: none was asked for.
Result<std::unique_ptr<verify::Counter>> read_counter(const Options& options, Duration timeout,
                                                      const verify::Tls& tls) {
    const int ways =
        int{options.count_command.has_value()} + int{!options.count_sql.empty()} + int{options.count_url.has_value()};
    if (ways > 1) return refused("--count-command, --count-sql and --count-url: effects are counted in one way");
    if (options.count_url.has_value() != options.count_pointer.has_value())
        return refused(
            "--count-url and --count-pointer belong together: where to ask, and where in the answer the number is");
    if (!options.count_url && !options.count_headers.empty())
        return refused("--count-header: is sent to --count-url, which is not given");
    if (options.count_command) return verify::count_by_command(*options.count_command, timeout);
    if (!options.count_sql.empty()) return verify::count_by_sql(options.count_sql[0], options.count_sql[1], timeout);
    if (!options.count_url) return std::unique_ptr<verify::Counter>();
    auto pointer = JsonPointer::parse(*options.count_pointer);
    if (!pointer) return of_option("--count-pointer", pointer.failure());
    const auto url = verify::Url::parse(verify::fill_in(*options.count_url, verify::make_intent(1, KeyFormat::uuid)));
    if (!url) return of_option("--count-url", url.failure());
    std::vector<verify::Header> headers;
    if (auto read = read_header_list("--count-header", options.count_headers, headers); !read) return read.failure();
    return verify::count_by_url(*options.count_url, std::move(headers), std::move(*pointer), timeout, tls);
}

Result<std::vector<const verify::Scenario*>> choose(const Options& options, const verify::Subject& subject) {
    const auto unknown = [](const char* name, const std::string& word) {
        return refused(fmt::format("{} {}: there is no such scenario; --list shows all", name, in_quotes(word)));
    };
    std::vector<const verify::Scenario*> chosen;
    for (const std::string& word : options.only) {
        const verify::Scenario* const scenario = verify::find_scenario(word);
        if (scenario == nullptr) return unknown("--scenario", word);
        if (const auto lacking = scenario->lacks(subject); !lacking.empty())
            return refused(fmt::format("--scenario {}: it needs {}", word, lacking));
        chosen.push_back(scenario);
    }
    if (chosen.empty())
        for (const verify::Scenario& each : verify::scenarios()) chosen.push_back(&each);
    for (const std::string& word : options.skip) {
        if (verify::find_scenario(word) == nullptr) return unknown("--skip", word);
        std::erase(chosen, verify::find_scenario(word));
    }
    if (chosen.empty()) return refused("--skip: nothing is left to do");
    return chosen;
}

/// A file that is written at the end should not turn out then to be in no folder.
Status check_writable(std::string_view name, const std::string& path) {
    if (path.empty()) return Done{};
    std::error_code error;
    const auto folder = std::filesystem::absolute(path, error).parent_path();
    if (std::filesystem::is_directory(path, error) || access(folder.c_str(), W_OK) != 0)
        return refused(fmt::format("{} {}: no file can be written there", name, in_quotes(path)));
    return Done{};
}

Status read_rounds(const Options& options, Plan& plan) {
    if (options.every) {
        const auto every = parse_duration_of("--every", *options.every);
        if (!every) return every.failure();
        if (*every <= Duration::zero() || *every > every_max)
            return refused(
                fmt::format("--every {}: must be longer than 0s and at most 30d", in_quotes(*options.every)));
        plan.every = *every;
        plan.rounds_max = UINT64_MAX;
    }
    if (options.rounds) {
        if (!options.every) return refused("--rounds: how many, of those that --every asks for, which is not given");
        const auto rounds = parse_count("--rounds", *options.rounds, 1, UINT32_MAX);
        if (!rounds) return rounds.failure();
        plan.rounds_max = *rounds;
    }
    return Done{};
}

Result<std::unique_ptr<Plan>> read_plan(const Options& options) {
    auto subject = read_subject(options);
    if (!subject) return subject.failure();
    const auto patience = read_patience(options);
    if (!patience) return patience.failure();
    auto tls = verify::Tls::make(options.cacert);
    if (!tls) return tls.failure();
    auto chosen = choose(options, *subject);
    if (!chosen) return chosen.failure();
    // The counter refers to the plan's own TLS settings.
    auto plan = std::make_unique<Plan>(Plan{.subject = std::move(*subject),
                                            .patience = *patience,
                                            .tls = std::move(*tls),
                                            .counter = nullptr,
                                            .chosen = std::move(*chosen),
                                            .exchanges = Exchanges::of_failures,
                                            .every = std::nullopt});
    auto counter = read_counter(options, plan->patience.timeout, plan->tls);
    if (!counter) return counter.failure();
    plan->counter = std::move(*counter);
    plan->exchanges = options.all_exchanges ? Exchanges::all : Exchanges::of_failures;
    for (const auto& [name, path] : {std::pair<std::string_view, const std::string&>{"--junit", options.junit},
                                     {"--metrics-file", options.metrics_file}})
        if (auto fits = check_writable(name, path); !fits) return fits.failure();
    if (auto read = read_rounds(options, *plan); !read) return read.failure();
    return plan;
}

// ---- rounds --------------------------------------------------------------------------------------------------------

std::atomic<bool> asked_to_stop = false;

/// From here on SIGINT and SIGTERM end the rounds after the one that runs; a second signal ends the program.
void stop_between_rounds() {
    struct sigaction action {};
    action.sa_handler = [](int) { asked_to_stop = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

/// Until that moment, or until it is time to stop.
void wait_until(std::chrono::steady_clock::time_point moment) {
    sigset_t signals;
    sigset_t before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    const auto left = moment - std::chrono::steady_clock::now();
    if (!asked_to_stop && left > left.zero()) {
        const auto seconds = std::chrono::floor<std::chrono::seconds>(left);
        const timespec time{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
        if (sigtimedwait(&signals, nullptr, &time) > 0) asked_to_stop = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// Readers see the old file or the new one, never half of one.
Status write_whole(const std::string& path, std::string_view text) {
    const std::string beside = fmt::format("{}.{}.tmp", path, getpid());
    const auto failed = [&] {
        return Failure{Code::exhausted, fmt::format("file {}: it could not be written", in_quotes(path))};
    };
    std::FILE* const file = std::fopen(beside.c_str(), "wbe");
    if (file == nullptr) return failed();
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    const bool closed = std::fclose(file) == 0;
    if (written && closed && std::rename(beside.c_str(), path.c_str()) == 0) return Done{};
    std::remove(beside.c_str());
    return failed();
}

/// What is shown and put on metrics: a query may hold a credential.
std::string target_text(const verify::Subject& subject) {
    return fmt::format("{} {}", subject.method, subject.url.substr(0, subject.url.find('?')));
}

VerifyReport run_round(const Plan& plan, verify::Probe& probe, const verify::Progress& progress) {
    VerifyReport report;
    report.target = target_text(plan.subject);
    report.counted = probe.counts();
    report.began = SystemClock().wall();
    report.outcomes = verify::run(probe, plan.chosen, progress);
    return report;
}

verify::Progress progress_of(const Plan& plan) {
    if (plan.every) return [](const verify::Scenario&, const verify::Outcome*) {};
    return [at = std::size_t{0}, count = plan.chosen.size()](const verify::Scenario& scenario,
                                                             const verify::Outcome* outcome) mutable {
        if (outcome == nullptr)
            fmt::print(stderr, "[{}/{}] {} … ", ++at, count, scenario.name);
        else
            fmt::print(stderr, "{} ({} ms)\n",
                       std::holds_alternative<verify::Failed>(outcome->verdict)   ? "FAILED"
                       : std::holds_alternative<verify::Passed>(outcome->verdict) ? "passed"
                                                                                  : "not applicable",
                       outcome->took.count());
        std::fflush(stderr);
    };
}

Status publish(const Options& options, const Plan& plan, const VerifyReport& report, VerifyMetrics& metrics) {
    if (options.json)
        fmt::print("{}\n", verify_json(report, plan.exchanges));
    else
        fmt::print("{}{}", verify_text(report, plan.exchanges), plan.every ? "\n" : "");
    std::fflush(stdout);
    metrics.add(report);
    if (!options.junit.empty())
        if (auto written = write_whole(options.junit, verify_junit(report)); !written) return written;
    if (!options.metrics_file.empty()) return write_whole(options.metrics_file, metrics.text());
    return Done{};
}

int run_rounds(const Options& options, const Plan& plan) {
    verify::Probe probe(plan.subject, plan.patience, plan.tls, plan.counter.get());
    // A way to count that does not work is said before anything is sent.
    if (const auto counted = probe.count(verify::make_intent(0, plan.subject.key_format)); !counted)
        return fail(counted.failure());
    if (plan.every) stop_between_rounds();
    VerifyMetrics metrics;
    bool found = false;
    bool verified = false;
    for (std::uint64_t round = 0; round < plan.rounds_max && !asked_to_stop; ++round) {
        const auto began = std::chrono::steady_clock::now();
        const VerifyReport report = run_round(plan, probe, progress_of(plan));
        found = found || report.failed() > 0;
        verified = verified || report.passed() > 0;
        if (auto published = publish(options, plan, report, metrics); !published) return fail(published.failure());
        if (plan.every && round + 1 < plan.rounds_max) wait_until(began + *plan.every);
    }
    if (!found && !verified) complain("nothing was verified: no scenario was applicable");
    return found || !verified ? exit_failure : exit_ok;
}

int list_scenarios() {
    Table table({{"scenario"}, {"rule"}});
    for (const verify::Scenario& each : verify::scenarios())
        table.add({std::string(each.name), std::string(each.rule)});
    fmt::print("{}", table.text());
    return exit_ok;
}

int run(const Options& options) {
    if (options.list) return list_scenarios();
    const auto plan = read_plan(options);
    if (!plan) return fail(plan.failure());
    std::signal(SIGPIPE, SIG_IGN);  // of TLS connections that the peer closed
    return run_rounds(options, **plan);
}

// ---- the command -----------------------------------------------------------------------------------------------------

void add_request_options(CLI::App& command, Options& options) {
    const auto headers = [&](const char* name, std::vector<std::string>& into, const char* what) {
        command.add_option(name, into, what)->type_name("HEADER")->allow_extra_args(false);
    };
    command.add_option("URL", options.url, "the API: http:// or https://")->type_name("");
    command.add_option("-X,--method", options.method, "the request's method")
        ->type_name("METHOD")
        ->capture_default_str();
    command.add_option("-d,--data", options.data, "its body, or @FILE; {{uuid}}, {{key}} and {{n}} differ per intent")
        ->type_name("BODY");
    headers("-H,--header", options.headers, "a header, as in 'Authorization: Bearer a'; may be given again");
    command.add_option("--key-header", options.key_header, "the header that has the key")
        ->type_name("NAME")
        ->capture_default_str();
    command.add_option("--key-format", options.key_format, "what the keys look like")
        ->type_name(std::string(format_choices))
        ->capture_default_str();
    command.add_flag("--quoted-key", options.quoted_key, "write keys in quotes, as the draft does");
    command.add_flag("--key-optional", options.key_optional, "a request without a key is right to be carried out");
    command
        .add_option("--other-data", options.other_data,
                    "another body for the same key; without it a number in the body is changed")
        ->type_name("BODY");
    headers("--other-tenant", options.other_tenant,
            "a header that makes the request another tenant's; may be given again");
    headers("--error-header", options.error_headers,
            "a header that makes a request fail with a 5xx; may be given again");
    command.add_option("--error-data", options.error_data, "a body that makes a request fail with a 5xx")
        ->type_name("BODY");
    command.add_option("--secret-header", options.secret_headers, "a further header whose value is never shown")
        ->type_name("NAME")
        ->allow_extra_args(false);
    command.add_flag("--literal", options.literal, "other words in double braces are meant as they are");
    command.add_option("--cacert", options.cacert, "the authorities of https:// in PEM form; without it, the system's")
        ->type_name("FILE");
}

void add_count_options(CLI::App& command, Options& options) {
    command
        .add_option("--count-command", options.count_command, "a shell command that prints how many effects there are")
        ->type_name("COMMAND");
    command
        .add_option("--count-sql", options.count_sql,
                    "a database, sqlite:PATH or postgres://…, and a query for how many effects there are")
        ->type_name("URL QUERY")
        ->type_size(2)
        ->expected(1);
    command.add_option("--count-url", options.count_url, "a URL whose JSON says how many effects there are")
        ->type_name("URL");
    command.add_option("--count-pointer", options.count_pointer, "where in that JSON, as in /charges")
        ->type_name("POINTER");
    command.add_option("--count-header", options.count_headers, "a header for --count-url; may be given again")
        ->type_name("HEADER")
        ->allow_extra_args(false);
    command.add_option("--count-within", options.count_within, "how long effects may take to appear")
        ->type_name("DURATION")
        ->capture_default_str();
    command.add_option("--count-settle", options.count_settle, "how long a count stands still before it is believed")
        ->type_name("DURATION")
        ->capture_default_str();
}

void add_run_options(CLI::App& command, Options& options) {
    command.add_option("--scenario", options.only, "run only this one; may be given again")
        ->type_name("NAME")
        ->allow_extra_args(false);
    command.add_option("--skip", options.skip, "leave this one out; may be given again")
        ->type_name("NAME")
        ->allow_extra_args(false);
    command.add_flag("--list", options.list, "show the scenarios and their rules");
    command.add_option("--parallel", options.parallel, "how many twins are sent at once")
        ->type_name("N")
        ->capture_default_str();
    command.add_option("--timeout", options.timeout, "how long one answer may take")
        ->type_name("DURATION")
        ->capture_default_str();
    command.add_option("--retry-within", options.retry_within, "how long 409, 425 and 429 are retried")
        ->type_name("DURATION")
        ->capture_default_str();
    add_json_option(command, options.json);
    command.add_option("--junit", options.junit, "write the results for CI")->type_name("FILE");
    command.add_flag("--all-exchanges", options.all_exchanges, "show the exchanges of what passed, too");
    command.add_option("--every", options.every, "as a canary: again and again, this often")->type_name("DURATION");
    command.add_option("--rounds", options.rounds, "with --every: stop after so many")->type_name("N");
    command.add_option("--metrics-file", options.metrics_file, "write metrics for Prometheus's textfile collector")
        ->type_name("FILE");
}

}  // namespace

void add_verify(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = root.add_subcommand("verify", "test whether any HTTP API makes retries harmless");
    command->footer(
        "Sends requests that have REAL effects: give it a test environment, or a tenant made for it. Effects are "
        "counted where\n"
        "you say (--count-…), since status codes can lie. Exit code 1: a scenario failed, and the exchanges that show "
        "it\n"
        "are printed, without credentials.");
    add_request_options(*command, *options);
    add_count_options(*command, *options);
    add_run_options(*command, *options);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
