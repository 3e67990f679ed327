// semel verify: tests whether any HTTP API makes retries harmless. This file runs the rounds; the rules are in src/verify/.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>

#include "base/clock.hpp"
#include "base/quote.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/table.hpp"
#include "cli/verify_plan.hpp"
#include "cli/verify_report.hpp"

namespace semel::cli {
namespace {

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

VerifyReport run_round(const VerifyPlan& plan, verify::Probe& probe, const verify::Progress& progress) {
    VerifyReport report;
    report.target = target_text(plan.subject);
    report.counted = probe.counts();
    report.began = SystemClock().wall();
    report.outcomes = verify::run(probe, plan.chosen, progress);
    return report;
}

verify::Progress progress_of(const VerifyPlan& plan) {
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

Status publish(const VerifyOptions& options, const VerifyPlan& plan, const VerifyReport& report,
               VerifyMetrics& metrics) {
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

int run_rounds(const VerifyOptions& options, const VerifyPlan& plan) {
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

int run(const VerifyOptions& options) {
    if (options.list) return list_scenarios();
    const auto plan = read_plan(options);
    if (!plan) return fail(plan.failure());
    std::signal(SIGPIPE, SIG_IGN);  // of TLS connections that the peer closed
    return run_rounds(options, **plan);
}

// ---- the command -----------------------------------------------------------------------------------------------------

void add_request_options(CLI::App& command, VerifyOptions& options) {
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

void add_count_options(CLI::App& command, VerifyOptions& options) {
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

void add_run_options(CLI::App& command, VerifyOptions& options) {
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
    const auto options = std::make_shared<VerifyOptions>();
    CLI::App* const command = root.add_subcommand("verify", "test whether any HTTP API makes retries harmless");
    command->footer(
        "Sends requests that have REAL effects: give it a test environment, or a tenant made for it. Effects are "
        "counted where\n"
        "you say (--count-…), since status codes can lie. Exit code 1: a scenario failed, and the exchanges that show it\n"
        "are printed, without credentials.");
    add_request_options(*command, *options);
    add_count_options(*command, *options);
    add_run_options(*command, *options);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
