// semel fingerprint: what of a request counts when it is compared with an earlier one, and its hash.
#include "ledger/fingerprint.hpp"

#include <fmt/format.h>

#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_record.hpp"
#include "cli/why_raw.hpp"

namespace semel::cli {
namespace {

constexpr std::size_t body_bytes_max = 256U << 20;

struct Options {
    std::string file;
    std::string content_type = "application/json";
    std::string method = "POST";
    std::string path = "/";
    std::string query;
    std::string if_match;
    bool raw = false;
    std::vector<std::string> include;
    std::vector<std::string> exclude;
    bool json = false;
};

Result<FingerprintOptions> read_options(const Options& options) {
    FingerprintOptions read;
    read.raw = options.raw;
    if (options.raw && !(options.include.empty() && options.exclude.empty()))
        return refused("--raw: raw bytes have no parts to --include or --exclude; give one or the other");
    struct List {
        const char* name;
        const std::vector<std::string>& words;
        std::vector<JsonPointer>& into;
    };
    for (const auto& [name, words, into] : {List{"--include", options.include, read.parts.include},
                                            List{"--exclude", options.exclude, read.parts.exclude}}) {
        for (const std::string& word : words) {
            auto pointer = JsonPointer::parse(word);
            if (!pointer) return refused(fmt::format("{}: {}", name, pointer.failure().message));
            into.push_back(std::move(*pointer));
        }
    }
    return read;
}

/// Why the body counts byte for byte.
std::string raw_reason(const Request& request, const FingerprintOptions& options) {
    if (options.raw) return "--raw was given";
    Request plain = request;
    plain.body = "null";
    if (!canonical_body(plain)) return fmt::format("its content type \"{}\" is not JSON", request.content_type);
    return why_raw(request.body);
}

int run(const Options& options) {
    const auto how = read_options(options);
    if (!how) return fail(how.failure());
    const auto body = read_file(options.file, body_bytes_max);
    if (!body) return fail(body.failure());
    const Request request{.method = options.method,
                          .path = options.path,
                          .query = options.query,
                          .content_type = options.content_type,
                          .if_match = options.if_match,
                          .body = *body};
    const std::string hash = fingerprint_text(fingerprint_of(request, *how));
    const auto canonical = canonical_body(request, *how);
    const std::string reason = canonical ? "" : raw_reason(request, *how);
    if (options.json) {
        JsonWriter json;
        json.begin_object().member("fingerprint", hash).member("body", canonical ? "json" : "raw");
        json.member("canonical", canonical).member("raw_because", canonical ? std::nullopt : std::optional(reason));
        json.member("body_bytes", body->size()).end_object();
        fmt::print("{}\n", json.text());
        return exit_ok;
    }
    if (canonical)
        fmt::print("{}\n", *canonical);
    else
        fmt::print("raw: {} bytes count as they are: {}\n", body->size(), reason);
    fmt::print("{}\n", hash);
    return exit_ok;
}

}  // namespace

void add_fingerprint(CLI::App& root, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = root.add_subcommand("fingerprint", "show what of a request counts, and its hash");
    command->footer(
        "Prints the body's canonical form, or why its bytes count as they are, then the fingerprint. Two requests "
        "under one\n"
        "key are the same if their fingerprints are.");
    command->add_option("FILE", options->file, "the body; - is standard input")->required()->type_name("");
    command->add_option("--content-type", options->content_type, "its content type")
        ->type_name("TYPE")
        ->capture_default_str();
    command->add_option("--method", options->method, "the request's method")
        ->type_name("METHOD")
        ->capture_default_str();
    command->add_option("--path", options->path, "its path, as sent")->type_name("PATH")->capture_default_str();
    command->add_option("--query", options->query, "its query, without the question mark")->type_name("QUERY");
    command->add_option("--if-match", options->if_match, "its If-Match header")->type_name("VALUE");
    command->add_flag("--raw", options->raw, "compare the body byte for byte, JSON or not");
    const auto pointers = [&](const char* name, std::vector<std::string>& into, const char* what) {
        command->add_option(name, into, what)->type_name("POINTER")->allow_extra_args(false);
    };
    pointers("--include", options->include, "only this part of a JSON body counts; may be given again");
    pointers("--exclude", options->exclude, "this part does not count, as in /client_time; may be given again");
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
