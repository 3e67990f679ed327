// A relay of the outbox as a process that dies where it is told to: relay_process DATABASE BROKER RELAY [POINT NTH]
//
// POINT is read, publish, confirm, ask or remove: killed (SIGKILL) when it is reached for the NTH time; `pause` instead of a point
// stops it (SIGSTOP) at its NTH confirmation, with events on their way.
#include <signal.h>

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <thread>

#include "outbox/points.hpp"
#include "outbox/publishers.hpp"
#include "outbox/pump.hpp"
#include "relay_to.hpp"
#include "staging.hpp"

namespace semel::outbox {

namespace {
Point die_at = Point::after_read;
int left = -1;
int signal_at_point = SIGKILL;
}  // namespace

void reach(Point point) {
    if (point != die_at || left < 0 || left-- > 0) return;
    raise(signal_at_point);
}

}  // namespace semel::outbox

int main(int argc, char** argv) {
    using namespace semel;
    if (argc < 4) return 2;
    if (argc > 5) {
        const std::string_view point = argv[4];
        outbox::die_at = point == "read"      ? outbox::Point::after_read
                         : point == "publish" ? outbox::Point::after_publish
                         : point == "ask"     ? outbox::Point::after_ask
                         : point == "remove"  ? outbox::Point::after_remove
                                              : outbox::Point::after_confirm;
        if (point == "pause") outbox::signal_at_point = SIGSTOP;
        outbox::left = std::atoi(argv[5]);
    }
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    const auto table = test::open_outbox_at(argv[1], argv[3]);
    auto publisher = outbox::open_publisher(test::relay_to(argv[2]));
    if (!publisher) return 2;
    // Small batches: more moments to die at.
    outbox::Pump pump(*table, **publisher,
                      {.lease = std::chrono::seconds{1}, .batch = 200, .poll = std::chrono::milliseconds{200}},
                      [](auto, auto) {});
    std::jthread thread([&](const std::stop_token& stop) { pump.run(stop); });
    int signal = 0;
    sigwait(&signals, &signal);
    return 0;
}
