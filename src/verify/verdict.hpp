// What a scenario concludes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace semel::verify {

/// What is wrong, in one word that programs can rely on.
enum class Finding : std::uint8_t {
    doubled,       ///< an effect happened more often than it may
    lost,          ///< the answer says it happened, and it did not
    leaked,        ///< something of one caller was shown to another, or kept that must not be
    wrong_answer,  ///< the answer is not one that the rule allows
    unreachable,   ///< no answer at all
    uncounted,     ///< the effects could not be counted
};

/// "doubled", "lost"… as in --json.
std::string_view name(Finding finding);

struct Passed {
    std::string note;  ///< what was seen
};
struct Failed {
    Finding finding;
    std::string reason;    ///< one sentence
    std::string expected;  ///< what the rule asks for
    std::string seen;      ///< what there was instead
};
struct NotApplicable {
    std::string why;  ///< and which option would change that
};
using Verdict = std::variant<Passed, Failed, NotApplicable>;

}  // namespace semel::verify
