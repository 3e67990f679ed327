// A consumer process that dies on command: wallet_consumer BROKER TOPIC GROUP DATABASE MEMBERS [POINT COUNT]
//
// Runs MEMBERS consumers of one group until SIGTERM, on PostgreSQL with two lanes each. With a POINT it kills itself with SIGKILL the COUNTth time it gets there.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "broker.hpp"
#include "wallet.hpp"

int main(int argc, char** argv) {
    using namespace semel;
    using namespace semel::test;
    if (argc < 6) return 2;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    const std::string point = argc > 7 ? argv[6] : "";
    std::atomic<int> left = argc > 7 ? std::atoi(argv[7]) : 0;
    ConsumerOptions options;
    options.name = argv[3];
    options.batch_max = 25;
    options.progress_every = std::chrono::milliseconds{200};
    options.log = [](std::string_view line) {
        std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
    options.at = [&](std::string_view reached) {
        if (reached == point && --left == 0) kill(getpid(), SIGKILL);
    };
    const auto broker = make_broker(argv[1]);
    Tuning tuning;
    tuning.redeliver_after = std::chrono::seconds{1};
    tuning.unacknowledged_max = 100;
    std::vector<std::unique_ptr<Consumer>> members;
    for (int i = 0; i < std::atoi(argv[5]); ++i) {
        std::vector<std::unique_ptr<Inbox>> inboxes;
        inboxes.push_back(open_inbox_at(argv[4]));
        if (inboxes[0]->transaction().postgres != nullptr) inboxes.push_back(open_inbox_at(argv[4]));
        auto made = Consumer::make(options, broker->open(argv[2], argv[3], tuning), std::move(inboxes), apply_credit);
        if (!made) {
            std::fprintf(stderr, "%s\n", made.failure().message.c_str());
            return 1;
        }
        members.push_back(std::move(*made));
    }
    std::vector<std::jthread> threads;
    for (auto& member : members)
        threads.emplace_back([&](const std::stop_token& stop) {
            if (auto ended = member->run(stop); !ended) std::fprintf(stderr, "%s\n", ended.failure().message.c_str());
        });
    int received = 0;
    sigwait(&signals, &received);
    for (auto& thread : threads) thread.request_stop();
    threads.clear();
    return 0;
}
