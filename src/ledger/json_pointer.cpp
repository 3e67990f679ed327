#include "ledger/json_pointer.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include "base/quote.hpp"

namespace semel {

Result<JsonPointer> JsonPointer::parse(std::string_view text) {
    const auto refused = [&](std::string_view why) {
        return Failure{Code::invalid, fmt::format("JSON pointer {}: {}", in_quotes(text), why)};
    };
    if (!text.empty() && text[0] != '/') return refused("must begin with '/', as in /client_time");
    if (!simdjson::validate_utf8(text)) return refused("must be UTF-8");
    std::vector<std::string> steps;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '/') {
            steps.emplace_back();
        } else if (text[i] != '~') {
            steps.back().push_back(text[i]);
        } else {
            const char next = ++i < text.size() ? text[i] : '\0';
            if (next != '0' && next != '1') return refused("'~' is written ~0, and '/' inside a name ~1");
            steps.back().push_back(next == '0' ? '~' : '/');
        }
    }
    return JsonPointer(std::string(text), std::move(steps));
}

}  // namespace semel
