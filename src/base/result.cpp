#include "semel/result.hpp"

namespace semel {

std::string_view name(Code code) {
    switch (code) {
        case Code::unavailable: return "unavailable";
        case Code::indeterminate: return "indeterminate";
        case Code::corrupt: return "corrupt";
        case Code::invalid: return "invalid";
        case Code::contended: return "contended";
        case Code::exhausted: return "exhausted";
    }
    return "?";
}

}  // namespace semel
