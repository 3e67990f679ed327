// While callers are told one after another, what is better done once for all of them waits until the last one was told: to
// wake the thread that many of them wait on.
#pragma once

#include <functional>
#include <vector>

namespace semel {

/// For as long as it lives, on its thread.
class Telling {
public:
    Telling();
    ~Telling();
    Telling(const Telling&) = delete;
    Telling& operator=(const Telling&) = delete;

    /// Calls `last` when the callers of this thread have been told, or at once if none are being told.
    static void when_over(std::move_only_function<void()> last);

private:
    std::vector<std::move_only_function<void()>> last_;
};

}  // namespace semel
