// semel ops resolve: a person's decision on an unknown outcome, recorded with who and why.
#include <fmt/format.h>

#include <memory>

#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_record.hpp"
#include "semel/committer.hpp"

namespace semel::cli {
namespace {

constexpr std::size_t body_bytes_max = 64U << 20;

struct Options {
    std::string store;
    bool json = false;
    OperationWords operation;
    std::optional<std::string> happened;
    std::optional<std::string> body;
    bool did_not_happen = false;
    std::string who;
    std::string why;
    std::optional<std::string> token;
};

/// The decision as far as the command line says it; the token seen may still be missing.
Result<Resolve> read_decision(const Options& options, const Named& named) {
    Resolve decision{.id = named.id, .token_seen = {}, .outcome = {}, .who = options.who, .why = options.why};
    if (options.happened.has_value() == options.did_not_happen)
        return refused("say what is known to be true: --happened STATUS or --did-not-happen, and not both");
    if (options.body && !options.happened)
        return refused("--body: only what happened has an answer; give --happened STATUS");
    if (options.happened) {
        const auto status = parse_status("--happened", *options.happened);
        if (!status) return status.failure();
        // Without its answer it is a tombstone: an empty body that was never sent must not be replayed.
        decision.outcome = Outcome::tombstone(*status);
    }
    if (options.body) {
        auto body = read_file(*options.body, body_bytes_max);
        if (!body) return refused(fmt::format("--body: {}", body.failure().message));
        decision.outcome->body = std::move(*body);
        decision.outcome->kept = true;
    }
    if (options.token) {
        const auto token = parse_count("--token", *options.token, 1, INT64_MAX);
        if (!token) return token.failure();
        decision.token_seen.value = *token;
    }
    if (auto valid = validate(Command{decision}); !valid) return valid.failure();
    return decision;
}

void print_done(const Options& options, const Named& named, const Resolve& decision) {
    if (options.json) {
        JsonWriter json;
        json.begin_object().member("id", to_hex(named.id.bytes)).member("token", decision.token_seen.value);
        json.member("verdict", decision.outcome ? "happened" : "did_not_happen");
        json.member("status", decision.outcome ? std::optional(decision.outcome->status) : std::nullopt).end_object();
        fmt::print("{}\n", json.text());
        return;
    }
    if (decision.outcome)
        fmt::print("resolved: {} happened with status {}; every retry is told so from now on\n", named.text(),
                   decision.outcome->status);
    else
        fmt::print("resolved: {} did not happen; the next claim runs it\n", named.text());
}

int explain(const HolderAnswer& answer, const Options& options, const Named& named, const Resolve& decision) {
    return std::visit(
        match{[&](const Ok&) {
                  print_done(options, named, decision);
                  return int{exit_ok};
              },
              [&](const Settled& settled) {
                  complain(fmt::format("{}: settled already, with status {}; an outcome never changes", named.text(),
                                       settled.outcome.status));
                  return int{exit_failure};
              },
              [&](const Fenced&) {
                  complain(fmt::format(
                      "{}: its token is not {} any more: somebody took it over since you looked; look again "
                      "with `semel ops show`",
                      named.text(), decision.token_seen.value));
                  return int{exit_failure};
              },
              [&](const TooEarly& early) {
                  complain(fmt::format(
                      "{}: too early: the last holder's effect may still be under way until {} (lease + effect "
                      "deadline); decide after that",
                      named.text(), to_text(early.not_before)));
                  return int{exit_failure};
              }},
        answer);
}

int decide(Store& store, const Options& options, const Named& named, Resolve decision) {
    const auto record = store.find(named.id);
    if (!record) return fail(record.failure());
    if (!*record) {
        complain(
            fmt::format("{}: {} knows nothing of it, so there is nothing to decide; it may have been resolved as not "
                        "happened before",
                        named.text(), store.text()));
        return exit_failure;
    }
    if (!options.token) decision.token_seen = (*record)->token;
    const auto now = store.now();
    if (!now) return fail(now.failure());
    if (!options.json) fmt::print("{}\n", record_detail(**record, *now, store.text()));
    const auto committer = Committer::start(store);
    if (!committer) return fail(committer.failure());
    const auto answer = (*committer)->resolve(decision);
    if (!answer) return fail(answer.failure());
    return explain(*answer, options, named, decision);
}

int run(const Options& options) {
    const auto named = parse_operation(options.operation);
    if (!named) return fail(named.failure());
    auto decision = read_decision(options, *named);
    if (!decision) return fail(decision.failure());
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto store = open_store(*url, Purpose::change);
    if (!store) return fail(store.failure());
    return decide(**store, options, *named, std::move(*decision));
}

}  // namespace

void add_ops_resolve(CLI::App& ops, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = ops.add_subcommand("resolve", "decide on an unknown outcome");
    command->footer(
        "Shows the operation, then decides on what was shown: if somebody takes it over in between, nothing changes.\n"
        "--token makes it two steps: the token `ops show` gave you is the one you decide on. Without --body retries are\n"
        "told that it is done, with its status, and that the answer is not kept.");
    add_operation(*command, options->operation);
    add_store_option(*command, options->store);
    command->add_option("--happened", options->happened, "it happened, and came to this status")->type_name("STATUS");
    command->add_option("--body", options->body, "its answer, for retries; - is standard input")->type_name("FILE");
    command->add_flag("--did-not-happen", options->did_not_happen, "it surely did not happen: the next claim runs it");
    command->add_option("--who", options->who, "who decides")->required()->type_name("NAME");
    command->add_option("--why", options->why, "on what grounds")->required()->type_name("REASON");
    command->add_option("--token", options->token, "the token seen; the default is that of the operation as shown")
        ->type_name("N");
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
