// Code that blocks, inside of the simulation: the product's own, on a stack of its own, which is left whenever it would wait and
// entered again when the event comes that it waits for. One runs at a time, so that the same seed gives the same run.
#pragma once

#include <ucontext.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "stage.hpp"

namespace semel::sim {

/// The process is dead: thrown by everything that a fiber of it waits for or does, so that it lets go of what it holds. What it
/// catches on the way changes nothing outside.
struct Killed {};

class Fiber {
public:
    explicit Fiber(What body);
    /// Of one that is over or was never resumed.
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    /// Until it waits or is over. From outside of any fiber; throws what the body threw.
    void resume();
    /// From outside; the body ends by Killed.
    void kill();
    [[nodiscard]] bool over() const { return over_; }

    /// The one that runs; null outside.
    static Fiber* current();
    /// From inside: until it is resumed. Throws Killed.
    void suspend();
    /// Throws Killed if it was.
    static void check();

private:
    static void enter();
    void run() noexcept;
    void switch_in();
    void switch_out(bool for_good);

    What body_;
    std::unique_ptr<std::byte[]> stack_;
    ucontext_t inside_{};
    ucontext_t outside_{};
    std::exception_ptr thrown_;
    bool over_ = false;
    bool killed_ = false;
    // What the runtime keeps for each thread is kept for each fiber.
    struct Exceptions {
        void* caught = nullptr;
        unsigned int uncaught = 0;
    };
    Exceptions exceptions_;
    void* sanitizer_ = nullptr;  // its fiber (thread) or its fake stack (address)
    const void* outside_stack_ = nullptr;
    std::size_t outside_size_ = 0;
};

/// The threads of one process that block.
class Fibers {
public:
    /// Runs it later, if the process is alive and awake then.
    using Post = std::move_only_function<void(Duration, What)>;
    explicit Fibers(Post post) : post_(std::move(post)) {}
    ~Fibers() { kill(); }

    void start(What body);
    void kill();
    [[nodiscard]] bool all_over() const;

    /// From inside.
    void sleep(Duration how_long);
    void post(Duration delay, What what) { post_(delay, std::move(what)); }

private:
    Post post_;
    std::vector<std::shared_ptr<Fiber>> fibers_;
};

/// What a fiber waits for; given once, by an event.
template <class T>
class Awaited {
public:
    void give(T value) const {
        if (state_->value) return;
        state_->value.emplace(std::move(value));
        if (Fiber* fiber = std::exchange(state_->fiber, nullptr)) fiber->resume();
    }
    [[nodiscard]] bool given() const { return state_->value.has_value(); }

    /// Empty: it was not given in time.
    std::optional<T> wait(Fibers& fibers, Duration how_long) const {
        Fiber::check();
        if (!state_->value) {
            fibers.post(how_long, [state = state_] {
                if (Fiber* fiber = std::exchange(state->fiber, nullptr)) fiber->resume();
            });
            suspend();
        }
        return std::exchange(state_->value, std::nullopt);
    }
    T wait() const {
        Fiber::check();
        if (!state_->value) suspend();
        return std::move(*state_->value);
    }

private:
    struct State {
        std::optional<T> value;
        Fiber* fiber = nullptr;
    };
    void suspend() const {
        // It may be gone before this is given.
        struct Left {
            State& state;
            ~Left() { state.fiber = nullptr; }
        } left{*state_};
        state_->fiber = Fiber::current();
        state_->fiber->suspend();
    }
    std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace semel::sim
