#include "base/quote.hpp"

#include <fmt/format.h>

namespace semel {

std::string in_quotes(std::string_view input) {
    std::string text = "\"";
    for (const char c : input.substr(0, quoted_bytes_max)) {
        if (c == '"' || c == '\\') {
            text.push_back('\\');
            text.push_back(c);
        } else if (c >= 0x20 && c <= 0x7e) {
            text.push_back(c);
        } else {
            text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        }
    }
    if (input.size() > quoted_bytes_max) return text + fmt::format("\"... ({} bytes)", input.size());
    return text + '"';
}

}  // namespace semel
