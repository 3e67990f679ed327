// A process of the tests that may die, and is known when it has.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace semel::test {

class Child {
public:
    explicit Child(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}
    Child(Child&& other) noexcept;
    Child& operator=(Child&&) = delete;
    /// Ends it for sure.
    ~Child();

    /// Starts it, with more arguments.
    void start(const std::vector<std::string>& more = {});
    /// Whether it has stopped (SIGSTOP) since the last look.
    bool stopped();
    /// Lets it go on after that.
    void go_on();
    /// Its wait status if it has ended since the last look.
    std::optional<int> ended();
    /// Waits until it has stopped. False: it has not, within a minute.
    bool wait_until_stopped();
    /// Asks it to end (SIGTERM) and waits; its wait status, or -1 if there is none.
    int stop();

private:
    std::vector<std::string> arguments_;
    pid_t pid_ = -1;
};

bool was_killed(int status);
bool exited_well(int status);

}  // namespace semel::test
