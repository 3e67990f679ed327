// semel call: one HTTP request, done once however often the script that asks for it is run. The rules are in src/client/.
#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stop_token>
#include <thread>

#include "base/quote.hpp"
#include "cli/arguments.hpp"
#include "cli/call_report.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "http/fields.hpp"
#include "semel/client.hpp"
#include "verify/client.hpp"

namespace semel::cli {
namespace {

constexpr std::size_t body_bytes_max = 64U << 20;
constexpr std::uint64_t tries_most = 1'000'000;

struct CallOptions {
    std::string url;
    std::string method = "POST";
    std::optional<std::string> data;
    std::vector<std::string> headers;
    std::optional<std::string> intent;
    std::optional<std::string> key;
    std::optional<std::string> forget;
    std::optional<std::string> state;
    std::string budget = "10m";
    std::string tries = "100";
    std::string timeout = "30s";
    std::string key_header = "Idempotency-Key";
    bool bare_key = false;
    bool no_store_body = false;
    TlsFiles tls;
    bool json = false;
};

// ---- signals -------------------------------------------------------------------------------------------------------

/// While this lives SIGINT and SIGTERM ask to stop; a second one ends the program, which loses nothing either.
class StopOnSignal {
public:
    StopOnSignal() {
        sigemptyset(&signals_);
        for (const int each : {SIGINT, SIGTERM, wake_up}) sigaddset(&signals_, each);
        pthread_sigmask(SIG_BLOCK, &signals_, &before_);
        waiter_ = std::thread([this] { wait(); });
    }
    StopOnSignal(const StopOnSignal&) = delete;
    StopOnSignal& operator=(const StopOnSignal&) = delete;
    ~StopOnSignal() {
        ended_ = true;
        pthread_kill(waiter_.native_handle(), wake_up);
        waiter_.join();
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

private:
    static constexpr int wake_up = SIGUSR1;

    void wait() {
        int came = 0;
        while (sigwait(&signals_, &came) == 0 && !ended_) {
            if (came == wake_up) continue;
            if (stop_.request_stop()) continue;
            std::signal(came, SIG_DFL);
            pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
            std::raise(came);
        }
    }

    sigset_t signals_{};
    sigset_t before_{};
    std::stop_source stop_;
    std::atomic<bool> ended_ = false;
    std::thread waiter_;
};

// ---- reading the options -------------------------------------------------------------------------------------------

Result<std::string> state_folder(const CallOptions& options) {
    if (options.state) return *options.state;
    const auto variable = [](const char* name) {
        const char* const value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    // Relative paths have to be ignored, by the XDG base directory specification.
    if (const std::string state = variable("XDG_STATE_HOME"); state.starts_with('/')) return state + "/semel/calls";
    if (const std::string home = variable("HOME"); home.starts_with('/')) return home + "/.local/state/semel/calls";
    return refused("neither XDG_STATE_HOME nor HOME says where intents are remembered: give --state FOLDER");
}

Result<std::string> body_of(const CallOptions& options) {
    if (!options.data) return std::string();
    if (*options.data == "-") return read_file("-", body_bytes_max);
    if (options.data->starts_with('@')) return read_file(options.data->substr(1), body_bytes_max);
    return *options.data;
}

Result<HttpRequest> request_of(const CallOptions& options) {
    if (options.url.empty()) return refused("call: the URL is missing; `semel call --help` shows how");
    HttpRequest request{.method = options.method, .url = options.url};
    bool typed = false;
    for (const std::string& text : options.headers) {
        auto header = verify::parse_header(text);
        if (!header) return header.failure();
        typed = typed || http::same_name(header->name, "Content-Type");
        request.fields.push_back({std::move(header->name), std::move(header->value)});
    }
    auto body = body_of(options);
    if (!body) return body.failure();
    request.body = std::move(*body);
    if (options.data && !typed) request.fields.push_back({"Content-Type", "application/json"});
    return request;
}

Result<client::Options> client_options(const CallOptions& options) {
    client::Options made;
    made.key_header = options.key_header;
    made.bare_key = options.bare_key;
    made.store_body = !options.no_store_body;
    made.tls = options.tls;
    if (options.tls.certificate.empty() != options.tls.key.empty())
        return refused("--cert and --cert-key belong together; give both");
    const auto budget = parse_duration_of("--budget", options.budget);
    if (!budget) return budget.failure();
    made.retry.budget = *budget;
    const auto tries = parse_count("--tries", options.tries, 1, tries_most);
    if (!tries) return tries.failure();
    made.retry.tries_max = static_cast<std::uint32_t>(*tries);
    const auto timeout = parse_duration_of("--timeout", options.timeout);
    if (!timeout) return timeout.failure();
    made.timeout = *timeout;
    return made;
}

Status check_identity(const CallOptions& options) {
    if (options.intent && options.key)
        return refused("--intent and --key: give one of them; an intent has a key of its own");
    if (options.intent || options.key) return Done{};
    return refused(
        "call: --intent NAME is missing. A script that is run again after a crash has to repeat the same operation, "
        "and "
        "only a name of the work tells that it is the same: --intent invoice-2026-11-17. (Or --key KEY, if you keep "
        "the "
        "key yourself)");
}

// ---- the command ---------------------------------------------------------------------------------------------------

Result<std::unique_ptr<client::Journal>> open_journal(const CallOptions& options) {
    auto folder = state_folder(options);
    if (!folder) return folder.failure();
    return client::file_journal(std::move(*folder));
}

int forget(const CallOptions& options) {
    if (!options.url.empty() || options.intent || options.key)
        return fail(refused("--forget NAME: it is given alone, or with --state; nothing is sent"));
    const auto journal = open_journal(options);
    if (!journal) return fail(journal.failure());
    const auto forgotten = (*journal)->forget(*options.forget);
    if (!forgotten) return fail(forgotten.failure());
    complain(*forgotten ? fmt::format("intent {}: forgotten; the next run of it is a new operation with a new key",
                                      in_quotes(*options.forget))
                        : fmt::format("intent {}: nothing is known of it", in_quotes(*options.forget)));
    return *forgotten ? exit_ok : exit_failure;
}

Result<client::Report> call(client::Client& client, const HttpRequest& request, const CallOptions& options) {
    const StopOnSignal signals;
    if (options.key) {
        const auto key = Key::parse(*options.key);
        if (!key) return key.failure();
        return client.call(request, *key, signals.token());
    }
    const auto journal = open_journal(options);
    if (!journal) return journal.failure();
    return client.call(request, *options.intent, **journal, signals.token());
}

int run(const CallOptions& options) {
    if (options.forget) return forget(options);
    if (const auto fine = check_identity(options); !fine) return fail(fine.failure());
    const auto request = request_of(options);
    if (!request) return fail(request.failure());
    auto made = client_options(options);
    if (!made) return fail(made.failure());
    auto client = client::Client::open(std::move(*made));
    if (!client) return fail(client.failure());
    std::signal(SIGPIPE, SIG_IGN);  // of connections that the peer closed
    const auto report = call(*client, *request, options);
    if (!report) return fail(report.failure());
    const std::string again = options.intent ? fmt::format("--intent {}", in_quotes(*options.intent))
                                             : fmt::format("--key {}", in_quotes(*options.key));
    const std::string intent = options.intent.value_or("");
    // A write that fails is seen by whoever asked for this command, after what is known was said.
    const std::string out = options.json ? call_json(*report, intent, again) + '\n' : std::string(call_body(*report));
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
    if (!report->not_recorded.empty())
        complain(
            fmt::format("{}; the outcome is not remembered, and another run asks the server again, with the same key",
                        report->not_recorded));
    complain(call_text(*report, intent, again));
    return call_exit_code(*report);
}

void add_request_options(CLI::App& command, CallOptions& options) {
    command.add_option("URL", options.url, "what is called: http:// or https://")->type_name("");
    command.add_option("-X,--method", options.method, "the request's method")
        ->type_name("METHOD")
        ->capture_default_str();
    command
        .add_option("-d,--data", options.data,
                    "its body, @FILE, or - for standard input; application/json unless a header says otherwise")
        ->type_name("BODY");
    command.add_option("-H,--header", options.headers, "a header, as in 'Authorization: Bearer a'; may be given again")
        ->type_name("HEADER")
        ->allow_extra_args(false);
    command.add_option("--cacert", options.tls.ca, "the authorities of https:// in PEM form; without it, the system's")
        ->type_name("FILE");
    command.add_option("--cert", options.tls.certificate, "a certificate to show to the server, in PEM form")
        ->type_name("FILE");
    command.add_option("--cert-key", options.tls.key, "its key")->type_name("FILE");
}

void add_identity_options(CLI::App& command, CallOptions& options) {
    command
        .add_option("--intent", options.intent,
                    "the name of the work, as in invoice-2026-11-17: the same name is the same operation")
        ->type_name("NAME");
    command.add_option("--key", options.key, "the key itself, if it is kept elsewhere; nothing is remembered then")
        ->type_name("KEY");
    command
        .add_option(
            "--state", options.state,
            "where intents are remembered; without it $XDG_STATE_HOME/semel/calls or ~/.local/state/semel/calls")
        ->type_name("FOLDER");
    command.add_flag("--no-store-body", options.no_store_body, "remember how it ended without the answer's body");
    command
        .add_option("--forget", options.forget,
                    "forget this intent and do nothing else: the next run of it is a new operation")
        ->type_name("NAME");
    command.add_option("--key-header", options.key_header, "the header that has the key")
        ->type_name("NAME")
        ->capture_default_str();
    command.add_flag("--bare-key", options.bare_key, "write the key without quotes");
}

void add_patience_options(CLI::App& command, CallOptions& options) {
    command.add_option("--budget", options.budget, "how long it is tried, waits included")
        ->type_name("DURATION")
        ->capture_default_str();
    command.add_option("--tries", options.tries, "how often it is tried at most")
        ->type_name("N")
        ->capture_default_str();
    command.add_option("--timeout", options.timeout, "how long one try may take")
        ->type_name("DURATION")
        ->capture_default_str();
}

}  // namespace

void add_call(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<CallOptions>();
    CLI::App* const command =
        root.add_subcommand("call", "an HTTP request that is done once, however often a script is run");
    command->footer(
        "The key is minted once per intent and is on the disk before the first try; a run after a crash repeats the "
        "same "
        "operation.\n"
        "For servers that honour the key: what may have been executed is sent again, with the same key. The body goes "
        "to\n"
        "standard output, what is known to standard error. Exit codes: 0 done (2xx), 1 failed or not known, 2 nothing "
        "was "
        "sent\n"
        "because of what was asked for.");
    add_request_options(*command, *options);
    add_identity_options(*command, *options);
    add_patience_options(*command, *options);
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
