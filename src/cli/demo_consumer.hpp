// The demo's consumer: a process of its own, so that it can be killed for real between its effect and its commit.
//
// The broker (the parent) sends one line per delivery over a socket and gets one line back:
//   applied, replay     what the ledger said, committed
//   applied replay      the same where the reply to COMMIT was lost and the transaction ran again
//   before-commit       the effect is written and not committed: the consumer waits to be killed
//   failed: …           anything else
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "cli/demo_plan.hpp"
#include "semel/result.hpp"

namespace semel::cli::demo {

/// Lines over a socket. Owns the descriptor.
class LineChannel {
public:
    explicit LineChannel(int descriptor) : descriptor_(descriptor) {}
    LineChannel(const LineChannel&) = delete;
    LineChannel& operator=(const LineChannel&) = delete;
    ~LineChannel();

    /// False: the other end has gone.
    bool send(std::string line);
    /// The next line; nothing when the other end has gone, or after `timeout_ms` (negative: never).
    std::optional<std::string> receive(int timeout_ms);

private:
    int descriptor_;
    std::string left_;
};

/// What is made to go wrong with a delivery.
enum class Fault { none, crash_before_commit, reply_lost };

/// The consumer as its parent sees it. Ends the process when it is destroyed.
class ConsumerProcess {
public:
    /// Runs this program again, as a consumer on the database `path`.
    static Result<std::unique_ptr<ConsumerProcess>> start(const std::string& path);
    ~ConsumerProcess();
    ConsumerProcess(const ConsumerProcess&) = delete;
    ConsumerProcess& operator=(const ConsumerProcess&) = delete;

    /// The consumer's line about this delivery.
    Result<std::string> deliver(const Payment& payment, Fault fault);
    /// SIGKILL.
    void kill();

private:
    ConsumerProcess(pid_t process, int descriptor) : process_(process), channel_(descriptor) {}
    pid_t process_;
    LineChannel channel_;
};

/// The consumer itself: handles what comes over descriptor 0 until its end. Returns an exit code.
int consume(const std::string& path);

}  // namespace semel::cli::demo
