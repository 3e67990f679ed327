// A consumer with steps that dies on command: steps_consumer TOPIC DATABASE [POINT COUNT]
//
// Takes orders from Redis and ships each in four steps. Kills itself with SIGKILL the COUNTth time it gets to POINT.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "broker.hpp"
#include "database.hpp"
#include "semel/committer.hpp"
#include "semel/consumer.hpp"

int main(int argc, char** argv) {
    using namespace semel;
    using namespace semel::test;
    if (argc < 3) return 2;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    const std::string point = argc > 4 ? argv[3] : "";
    std::atomic<int> left = argc > 4 ? std::atoi(argv[4]) : 0;
    ConsumerOptions options;
    options.name = "shipping";
    options.lease = std::chrono::milliseconds{500};
    options.log = [](std::string_view line) {
        std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
    options.at = [&](std::string_view reached) {
        if (reached == point && --left == 0) kill(getpid(), SIGKILL);
    };
    Tuning tuning;
    tuning.redeliver_after = std::chrono::milliseconds{300};
    const auto store = open_store_at(argv[2]);
    auto committer = Committer::start(*store);
    if (!committer) return 1;
    const auto handler = [](Steps& steps) {
        std::string trail;
        for (const char* step : {"reserve", "charge", "pack", "ship"})
            trail += steps.step(step, [&](Transaction transaction) {
                execute(transaction, fmt::format("insert into done (id, step, trail) values ('{}', '{}', '{}')",
                                                 steps.event().id, step, trail));
                return fmt::format("{};", step);
            });
    };
    auto consumer = Consumer::make(options, make_broker("redis")->open(argv[1], "shipping", tuning),
                                   open_inbox_at(argv[2]), StepHandler(handler), **committer);
    if (!consumer) return 1;
    std::jthread thread([&](const std::stop_token& stop) { (void)(*consumer)->run(stop); });
    int received = 0;
    sigwait(&signals, &received);
    return 0;
}
