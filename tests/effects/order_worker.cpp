// A process that runs orders and dies on command:
//
//   order_worker DATABASE FOLDER keys|nothing LEASE_MS run KEY INPUT [POINT COUNT]   runs one order; its answer is the exit code
//   order_worker DATABASE FOLDER keys|nothing LEASE_MS complete                      carries on what others left, until SIGTERM
//
// Kills itself with SIGKILL the COUNTth time it gets to POINT; with POINT `stop:inside` it stops itself (SIGSTOP) inside of the
// call that charges.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "order.hpp"
#include "semel/committer.hpp"

int main(int argc, char** argv) {
    using namespace semel;
    using namespace semel::test;
    if (argc < 6) return 2;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    const std::string url = argv[1];
    const std::filesystem::path folder = argv[2];
    const Honours honours = std::string_view(argv[3]) == "keys" ? Honours::keys : Honours::nothing;
    const Duration lease = std::chrono::milliseconds{std::atoi(argv[4])};
    const std::string task = argv[5];
    const std::string point = argc > 9 ? argv[8] : "";
    std::atomic<int> left = argc > 9 ? std::atoi(argv[9]) : 0;
    const auto at = [&](std::string_view reached) {
        if (reached == point && --left == 0) kill(getpid(), SIGKILL);
    };

    const auto store = open_store_at(url);
    auto committer = Committer::start(*store);
    if (!committer) return 1;
    OrderParts parts{{folder / "charges", honours}, {folder / "refunds", honours}, honours, lease};
    parts.inside = [&] {
        at("charge:inside");
        if (point == "stop:inside" && left.exchange(0) > 0) kill(getpid(), SIGSTOP);
    };
    effects::WorkflowOptions options;
    options.lease = lease;
    options.inbox = [&] { return Result<std::unique_ptr<Inbox>>(open_inbox_at(url)); };
    options.at = at;
    auto workflow = effects::Workflow::make(order_definition(parts), options, **committer);
    if (!workflow) return std::fprintf(stderr, "%s\n", workflow.failure().message.c_str()), 1;

    if (task == "run") {
        if (argc < 8) return 2;
        const auto answer = (*workflow)->run({.key = *Key::parse(argv[6]), .input = argv[7]});
        if (!answer) return std::fprintf(stderr, "%s\n", answer.failure().message.c_str()), 1;
        return 10 + static_cast<int>(answer->index());
    }
    effects::CompleterOptions completing;
    completing.backoff_first = std::chrono::milliseconds{100};
    completing.backoff_max = std::chrono::milliseconds{500};
    completing.log = [](std::string_view line) {
        std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
    effects::Completer completer(**committer, {workflow->get()}, completing);
    std::jthread thread([&](const std::stop_token& stop) { completer.run(stop); });
    int received = 0;
    sigwait(&signals, &received);
    return 0;
}
