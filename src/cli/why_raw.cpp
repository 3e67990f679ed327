#include "cli/why_raw.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <optional>
#include <set>

#include "base/quote.hpp"
#include "ledger/json_document.hpp"

namespace semel::cli {
namespace {

/// A name that one object of the document has twice.
std::optional<std::string> doubled_name(simdjson::dom::element element) {
    if (const auto array = element.get_array(); array.error() == simdjson::SUCCESS) {
        for (const simdjson::dom::element each : array.value_unsafe())
            if (auto name = doubled_name(each)) return name;
    }
    if (const auto object = element.get_object(); object.error() == simdjson::SUCCESS) {
        std::set<std::string_view> names;
        for (const auto [name, value] : object.value_unsafe()) {
            if (!names.insert(name).second) return std::string(name);
            if (auto deeper = doubled_name(value)) return deeper;
        }
    }
    return std::nullopt;
}

}  // namespace

std::string why_raw(std::string_view body) {
    simdjson::dom::parser parser;
    simdjson::dom::element document;
    // One level more than is allowed, so that simdjson's limit is the same as ours.
    if (parser.allocate(body.size(), JsonDocument::depth_max + 1) != simdjson::SUCCESS)
        return "it is too large to be read";
    const auto error = parser.parse(body.data(), body.size()).get(document);
    if (error == simdjson::DEPTH_ERROR) return fmt::format("it nests deeper than {}", JsonDocument::depth_max);
    if (error == simdjson::SUCCESS) {
        if (const auto name = doubled_name(document))
            return fmt::format("an object has the name {} twice", in_quotes(*name));
    } else if (error != simdjson::NUMBER_ERROR && error != simdjson::STRING_ERROR) {
        return fmt::format("it is not valid JSON: {}", simdjson::error_message(error));
    }
    return "it is not valid JSON, has a name twice in one object, a lone surrogate, or a number of 10^(10^18) or "
           "beyond";
}

}  // namespace semel::cli
