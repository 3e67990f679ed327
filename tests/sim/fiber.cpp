#include "fiber.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace semel::sim {
namespace {

constexpr std::size_t stack_bytes = 256U << 10;

Fiber* running = nullptr;
std::vector<std::unique_ptr<std::byte[]>> idle_stacks;
#ifdef __SANITIZE_THREAD__
void* outside_of_all = nullptr;
#endif

std::unique_ptr<std::byte[]> take_stack() {
    if (idle_stacks.empty()) return std::make_unique_for_overwrite<std::byte[]>(stack_bytes);
    auto stack = std::move(idle_stacks.back());
    idle_stacks.pop_back();
    return stack;
}

}  // namespace

Fiber::Fiber(What body) : body_(std::move(body)), stack_(take_stack()) {
    SEMEL_ASSERT(getcontext(&inside_) == 0, "a context can be taken");
    inside_.uc_stack.ss_sp = stack_.get();
    inside_.uc_stack.ss_size = stack_bytes;
    inside_.uc_link = nullptr;
    makecontext(&inside_, &Fiber::enter, 0);
#ifdef __SANITIZE_THREAD__
    sanitizer_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef __SANITIZE_THREAD__
    __tsan_destroy_fiber(sanitizer_);
#endif
    idle_stacks.push_back(std::move(stack_));
}

Fiber* Fiber::current() { return running; }

void Fiber::check() {
    if (running != nullptr && running->killed_) throw Killed{};
}

// ---- switching -------------------------------------------------------------------------------------------------

void Fiber::resume() {
    SEMEL_ASSERT(running == nullptr, "fibers are resumed by events");
    if (over_) return;
    running = this;
    switch_in();
    running = nullptr;
    if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Fiber::kill() {
    if (over_ || killed_) return;
    killed_ = true;
    resume();
    SEMEL_ASSERT(over_, "a killed fiber ends");
}

void Fiber::suspend() {
    SEMEL_ASSERT(running == this, "only the running fiber waits");
    check();
    switch_out(false);
    check();
}

void Fiber::switch_in() {
    // Exceptions that are being handled are counted by thread.
    auto* globals = reinterpret_cast<Exceptions*>(abi::__cxa_get_globals());
    std::swap(exceptions_, *globals);
#ifdef __SANITIZE_ADDRESS__
    void* fake = nullptr;
    __sanitizer_start_switch_fiber(&fake, stack_.get(), stack_bytes);
#endif
#ifdef __SANITIZE_THREAD__
    outside_of_all = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(sanitizer_, 0);
#endif
    swapcontext(&outside_, &inside_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
    std::swap(exceptions_, *globals);
}

void Fiber::switch_out([[maybe_unused]] bool for_good) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(for_good ? nullptr : &sanitizer_, outside_stack_, outside_size_);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(outside_of_all, 0);
#endif
    swapcontext(&inside_, &outside_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(sanitizer_, &outside_stack_, &outside_size_);
#endif
}

void Fiber::enter() {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &running->outside_stack_, &running->outside_size_);
#endif
    running->run();
    running->switch_out(true);
}

void Fiber::run() noexcept {
    try {
        if (!killed_) body_();
    } catch (const Killed&) {  // as it should
    } catch (...) {
        thrown_ = std::current_exception();
    }
    body_ = nullptr;
    over_ = true;
}

// ---- the fibers of a process -----------------------------------------------------------------------------------

void Fibers::start(What body) {
    auto fiber = std::make_shared<Fiber>(std::move(body));
    std::erase_if(fibers_, [](const auto& each) { return each->over(); });
    fibers_.push_back(fiber);
    post_(Duration{0}, [fiber] { fiber->resume(); });
}

void Fibers::kill() {
    for (const auto& fiber : std::exchange(fibers_, {})) fiber->kill();
}

bool Fibers::all_over() const {
    return std::ranges::all_of(fibers_, [](const auto& each) { return each->over(); });
}

void Fibers::sleep(Duration how_long) {
    const Awaited<bool> never;
    never.wait(*this, how_long);
}

}  // namespace semel::sim
