// semel key: minting, checking and deriving keys.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/duration.hpp"
#include "base/json.hpp"
#include "base/quote.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "ledger/key_header.hpp"
#include "semel/keys.hpp"

namespace semel::cli {
namespace {

constexpr std::uint64_t keys_max = 1'000'000;
constexpr std::size_t step_bytes_max = 255;

// ---- new -------------------------------------------------------------------------------------------------------

struct NewOptions {
    bool uuid4 = false;
    bool uuid7 = false;
    std::string count = "1";
};

int run_new(const NewOptions& options) {
    if (options.uuid4 && options.uuid7) return fail(refused("--uuid4 and --uuid7: a key is one of the two"));
    const auto count = parse_count("-n", options.count, 1, keys_max);
    if (!count) return fail(count.failure());
    for (std::uint64_t i = 0; i < *count; ++i) fmt::print("{}\n", (options.uuid7 ? mint_uuid7() : mint_uuid4()).text());
    return exit_ok;
}

void add_new(CLI::App& key, Action& chosen) {
    const auto options = std::make_shared<NewOptions>();
    CLI::App* const command = key.add_subcommand("new", "mint keys");
    command->footer("Mint a key once, before the first try, and keep it: every retry carries the same one.");
    command->add_flag("--uuid4", options->uuid4, "random (the default)");
    command->add_flag("--uuid7", options->uuid7, "time-ordered: a finite retention needs these");
    command->add_option("-n", options->count, "how many")->type_name("N")->capture_default_str();
    when_asked(*command, chosen, [options] { return run_new(*options); });
}

// ---- check -----------------------------------------------------------------------------------------------------

struct CheckOptions {
    std::optional<std::string> key;
    std::optional<std::string> header;
    std::string format = "any";
    bool json = false;
};

/// The version of a UUID; nothing for any other key.
std::optional<int> uuid_version(const Key& key) {
    if (!Key::parse(key.text(), KeyFormat::uuid)) return std::nullopt;
    const char digit = key.text()[14];
    return digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10;
}

int run_check(const CheckOptions& options) {
    const auto format = parse_format(options.format);
    if (!format) return fail(format.failure());
    if (options.key.has_value() == options.header.has_value())
        return fail(refused("give a key, or --header and the value of an Idempotency-Key header, and not both"));
    const auto key = options.key ? Key::parse(*options.key, *format) : key_from_header(*options.header, *format);
    if (!key) return fail(key.failure());
    const auto version = uuid_version(*key);
    const auto time = key->time();
    if (options.json) {
        JsonWriter json;
        json.begin_object()
            .member("key", key->text())
            .member("length", key->text().size())
            .member("uuid_version", version);
        json.member("time", time ? std::optional(to_text(*time)) : std::nullopt).end_object();
        fmt::print("{}\n", json.text());
        return exit_ok;
    }
    fmt::print("{}\n", key->text());
    if (version)
        fmt::print("a UUID of version {}{}\n", *version, time ? ", made at " + to_text(*time) : "");
    else
        fmt::print("{} characters, not a UUID\n", key->text().size());
    return exit_ok;
}

void add_check(CLI::App& key, Action& chosen) {
    const auto options = std::make_shared<CheckOptions>();
    CLI::App* const command = key.add_subcommand("check", "check a key, or the value of an Idempotency-Key header");
    command->footer(
        "A header's value is quoted (a Structured Field string) or bare; both name the same operation. A key that is not\n"
        "valid: exit code 2 and why.");
    command->add_option("KEY", options->key, "the key")->type_name("");
    command->add_option("--header", options->header, "the value of the header, as it was sent")->type_name("VALUE");
    command->add_option("--format", options->format, "what keys have to look like")
        ->type_name(std::string(format_choices))
        ->capture_default_str();
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run_check(*options); });
}

// ---- derive ----------------------------------------------------------------------------------------------------

struct DeriveOptions {
    std::string scope;
    std::string key;
    std::string step;
    std::string attempt = "1";
};

int run_derive(const DeriveOptions& options) {
    auto scope = Scope::parse(options.scope);
    if (!scope) return fail(scope.failure());
    auto key = Key::parse(options.key);
    if (!key) return fail(key.failure());
    const auto shown = [](char c) { return c >= 0x20 && c <= 0x7e; };
    if (options.step.empty() || options.step.size() > step_bytes_max || !std::ranges::all_of(options.step, shown))
        return fail(refused(fmt::format("--step {}: must be 1 to 255 printable ASCII characters, as in charge-card",
                                        in_quotes(options.step))));
    const auto attempt = parse_count("--attempt", options.attempt, 1, UINT32_MAX);
    if (!attempt) return fail(attempt.failure());
    const Operation parent{std::move(*scope), std::move(*key)};
    fmt::print("{}\n", derive(parent, options.step, static_cast<std::uint32_t>(*attempt)).text());
    return exit_ok;
}

void add_derive(CLI::App& key, Action& chosen) {
    const auto options = std::make_shared<DeriveOptions>();
    CLI::App* const command = key.add_subcommand("derive", "the key an operation hands to its next hop");
    command->footer(
        "The same input gives the same key, for ever. The attempt grows only by a decision to try again what failed.");
    command->add_option("--scope", options->scope, "the parent's scope")->required()->type_name("SCOPE");
    command->add_option("--key", options->key, "the parent's key")->required()->type_name("KEY");
    command->add_option("--step", options->step, "what the next hop is asked to do")->required()->type_name("NAME");
    command->add_option("--attempt", options->attempt, "the business attempt")->type_name("N")->capture_default_str();
    when_asked(*command, chosen, [options] { return run_derive(*options); });
}

}  // namespace

void add_key(CLI::App& root, Action& chosen) {
    CLI::App* const key = root.add_subcommand("key", "mint, check and derive keys");
    key->require_subcommand(1);
    add_new(*key, chosen);
    add_check(*key, chosen);
    add_derive(*key, chosen);
}

}  // namespace semel::cli
