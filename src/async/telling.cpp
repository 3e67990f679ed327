#include "async/telling.hpp"

#include "base/assert.hpp"

namespace semel {
namespace {

thread_local Telling* telling = nullptr;

}  // namespace

Telling::Telling() {
    SEMEL_ASSERT(telling == nullptr, "callers are not told by who is told");
    telling = this;
}

Telling::~Telling() {
    telling = nullptr;
    for (auto& last : last_) last();
}

void Telling::when_over(std::move_only_function<void()> last) {
    if (telling == nullptr) return last();
    telling->last_.push_back(std::move(last));
}

}  // namespace semel
