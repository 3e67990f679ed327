// semel ops show: everything known about one operation.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/exit_code.hpp"
#include "cli/show_record.hpp"
#include "cli/show_story.hpp"

namespace semel::cli {
namespace {

struct Options {
    std::string store;
    bool json = false;
    bool body = false;
    OperationWords operation;
};

int print_body(const Record& record, const Named& named) {
    if (record.state != State::settled) {
        complain(fmt::format("{}: {}: there is no answer yet", named.text(), name(record.state)));
        return exit_failure;
    }
    if (!record.outcome.kept) {
        complain(
            fmt::format("{}: settled with status {}, the answer is not kept", named.text(), record.outcome.status));
        return exit_failure;
    }
    std::fwrite(record.outcome.body.data(), 1, record.outcome.body.size(), stdout);
    return exit_ok;
}

int run(const Options& options) {
    const auto named = parse_operation(options.operation);
    if (!named) return fail(named.failure());
    if (options.body && options.json)
        return fail(refused("--body and --json: the body is written as it is; give one of the two"));
    const auto url = parse_store_url(options.store);
    if (!url) return fail(url.failure());
    const auto store = open_store(*url, Purpose::read);
    if (!store) return fail(store.failure());
    const auto record = (*store)->find(named->id);
    if (!record) return fail(record.failure());
    if (!*record) {
        complain(fmt::format("{}: {} knows nothing of it: never claimed, released, or swept after its retention",
                             named->text(), (*store)->text()));
        return exit_failure;
    }
    if (options.body) return print_body(**record, *named);
    const auto now = (*store)->now();
    if (!now) return fail(now.failure());
    const auto story = effects::read_story(**store, **record);
    if (!story) return fail(story.failure());
    if (options.json) {
        JsonWriter json;
        json.begin_object();
        write_record_members(json, **record, *now);
        if (*story) write_story(json.name("workflow"), **story, **record, *now);
        json.end_object();
        fmt::print("{}\n", json.text());
    } else {
        fmt::print("{}", record_detail(**record, *now, (*store)->text()));
        if (*story) fmt::print("{}", story_detail(**story, **record, *now, (*store)->text()));
    }
    return exit_ok;
}

}  // namespace

void add_ops_show(CLI::App& ops, Action& chosen) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = ops.add_subcommand("show", "show everything known about one operation");
    command->footer(
        "An operation is named by its scope and key, or by its id of 32 hex digits. A key that begins with '-' goes "
        "after\n"
        "`--`. Stored answers are written only by --body. A workflow is shown with its steps and what happened to them "
        "in\n"
        "the order of time. An operation that is not there: exit code 1.");
    add_operation(*command, options->operation);
    add_store_option(*command, options->store);
    command->add_flag("--body", options->body,
                      "write the stored answer to standard output, byte for byte, and nothing else");
    add_json_option(*command, options->json);
    when_asked(*command, chosen, [options] { return run(*options); });
}

}  // namespace semel::cli
