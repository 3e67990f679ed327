#include "effects/surroundings.hpp"

#include <condition_variable>
#include <mutex>

namespace semel::effects {
namespace {

class SystemPace final : public Pace {
public:
    [[nodiscard]] Steady now() const override { return std::chrono::steady_clock::now(); }
    bool wait(Duration how_long, const std::stop_token& stop) override {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        wake.wait_for(lock, stop, how_long, [] { return false; });
        return stop.stop_requested();
    }
    Random& random() override { return random_; }

private:
    SystemRandom random_;
};

}  // namespace

Pace& system_pace() {
    static SystemPace pace;
    return pace;
}

}  // namespace semel::effects
