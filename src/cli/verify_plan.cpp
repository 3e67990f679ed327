#include "cli/verify_plan.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/quote.hpp"
#include "cli/arguments.hpp"
#include "cli/exit_code.hpp"
#include "http/fields.hpp"

namespace semel::cli {
namespace {

constexpr std::size_t body_bytes_max = 64U << 20;
constexpr std::uint64_t parallel_max = 500;
constexpr Duration wait_max = std::chrono::hours(1);
constexpr Duration every_max = std::chrono::hours(24 * 30);

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

Status read_bodies(const VerifyOptions& options, verify::Subject& subject) {
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

Status read_headers(const VerifyOptions& options, verify::Subject& subject) {
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

Status check_templates(const VerifyOptions& options, const verify::Subject& subject) {
    std::vector<std::pair<std::string_view, std::string_view>> texts{{"URL", subject.url}};
    const auto add_body = [&](std::string_view name, const std::optional<std::string>& body) {
        if (body) texts.emplace_back(name, *body);
    };
    add_body("--data", subject.body);
    add_body("--other-data", subject.other_body);
    add_body("--error-data", subject.error_body);
    const auto add_headers = [&](std::string_view name, const std::vector<verify::Header>& headers) {
        for (const verify::Header& header : headers) texts.emplace_back(name, header.value);
    };
    add_headers("--header", subject.headers);
    add_headers("--other-tenant", subject.other_tenant);
    add_headers("--error-header", subject.error_headers);
    if (options.count_command) texts.emplace_back("--count-command", *options.count_command);
    if (options.count_url) texts.emplace_back("--count-url", *options.count_url);
    for (const std::string& word : options.count_sql) texts.emplace_back("--count-sql", word);
    for (const auto& [name, text] : texts)
        if (auto fits = verify::check_placeholders(name, text); !fits) return fits;
    return Done{};
}

Result<verify::Subject> read_subject(const VerifyOptions& options) {
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
    const auto url = http::Url::parse(verify::fill_in(subject.url, verify::make_intent(1, subject.key_format)));
    if (!url) return url.failure();
    const verify::Request sample{.method = subject.method, .url = *url, .headers = {}, .body = ""};
    if (auto bytes = verify::to_bytes(sample); !bytes) return of_option("--method", bytes.failure());
    return subject;
}

Result<verify::Patience> read_patience(const VerifyOptions& options) {
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
Result<std::unique_ptr<verify::Counter>> read_counter(const VerifyOptions& options, Duration timeout,
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
    const auto url = http::Url::parse(verify::fill_in(*options.count_url, verify::make_intent(1, KeyFormat::uuid)));
    if (!url) return of_option("--count-url", url.failure());
    std::vector<verify::Header> headers;
    if (auto read = read_header_list("--count-header", options.count_headers, headers); !read) return read.failure();
    return verify::count_by_url(*options.count_url, std::move(headers), std::move(*pointer), timeout, tls);
}

Result<std::vector<const verify::Scenario*>> choose(const VerifyOptions& options, const verify::Subject& subject) {
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

Status read_rounds(const VerifyOptions& options, VerifyPlan& plan) {
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

}  // namespace

Result<std::unique_ptr<VerifyPlan>> read_plan(const VerifyOptions& options) {
    auto subject = read_subject(options);
    if (!subject) return subject.failure();
    const auto patience = read_patience(options);
    if (!patience) return patience.failure();
    auto tls = verify::Tls::make(options.cacert);
    if (!tls) return tls.failure();
    auto chosen = choose(options, *subject);
    if (!chosen) return chosen.failure();
    auto plan = std::make_unique<VerifyPlan>(VerifyPlan{.subject = std::move(*subject),
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

}  // namespace semel::cli
