// Result<T>: a value, or a Failure of the world with a code that says what the caller may conclude.
//
// Answers of the ledger (Busy, Mismatch, Fenced…) are values, never failures. A Failure is what happened
// instead of an answer.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace semel {

/// What a caller may conclude from a failure.
enum class Code {
    unavailable,    ///< It did not happen. The same call may be made again.
    indeterminate,  ///< It may have happened. Look it up or repeat the same command; never redo the effect blindly.
    corrupt,        ///< What is stored cannot be trusted. Nothing was replayed and nothing may be run again.
    invalid,        ///< The input was refused. Nothing happened; repeating it as it is will fail again.
    contended,      ///< Rolled back because of somebody else's lock. It did not happen; repeating it is safe.
    exhausted,      ///< Refused for want of room or over a limit. It did not happen.
};

/// The name of a code as it is written in messages: "unavailable", "indeterminate"…
std::string_view name(Code code);

struct Failure {
    Code code;
    std::string message;  ///< What was tried, on what, and which setting matters.
};

template <class T>
class [[nodiscard]] Result {
public:
    Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
    Result(Failure failure) : held_(std::in_place_index<1>, std::move(failure)) {}

    [[nodiscard]] bool ok() const { return held_.index() == 0; }
    explicit operator bool() const { return ok(); }

    /// The value. Asking a failed Result for its value is a mistake and throws std::bad_variant_access.
    T& value() & { return std::get<0>(held_); }
    const T& value() const& { return std::get<0>(held_); }
    T&& value() && { return std::get<0>(std::move(held_)); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }

    [[nodiscard]] const Failure& failure() const& { return std::get<1>(held_); }
    Failure&& failure() && { return std::get<1>(std::move(held_)); }

private:
    std::variant<T, Failure> held_;
};

/// Nothing to return but success.
struct Done {};
using Status = Result<Done>;

}  // namespace semel
