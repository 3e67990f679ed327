#include "api/json_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/commands.hpp"
#include "base/duration.hpp"
#include "base/quote.hpp"

namespace semel::api {

using Kind = JsonDocument::Kind;

void Findings::add(std::string_view place, std::string_view what) {
    if (found_.size() > problems_max) return;
    if (found_.size() == problems_max)
        found_.emplace_back("and more");
    else
        found_.push_back(place.empty() ? std::string(what) : fmt::format("{}: {}", place, what));
}

JsonFields::JsonFields(const JsonDocument& document, Index object, std::string place, Findings& findings)
    : document_(&document), object_(object), place_(std::move(place)), findings_(&findings) {
    good_ = document.node(object).kind == Kind::object;
    if (!good_) findings.add(place_, "write an object");
}

std::string JsonFields::place(std::string_view name) const {
    return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
}

bool JsonFields::has(std::string_view name) const {
    if (!good_) return false;
    const auto names = document_->members(document_->node(object_));
    return std::ranges::any_of(names, [&](Index each) { return document_->node(each).text == name; });
}

std::optional<JsonFields::Index> JsonFields::any(std::string_view name) {
    asked_.emplace(name);
    if (!good_) return std::nullopt;
    for (const Index each : document_->members(document_->node(object_)))
        if (document_->node(each).text == name) return each + 1;
    return std::nullopt;
}

std::optional<std::string> JsonFields::text(std::string_view name, std::string_view right) {
    const auto found = any(name);
    if (!found) return std::nullopt;
    const JsonDocument::Node& node = document_->node(*found);
    if (node.kind == Kind::string) return std::string(node.text);
    refuse(name, fmt::format("write {}, as a string", right));
    return std::nullopt;
}

std::optional<std::int64_t> JsonFields::whole(std::string_view name, std::int64_t least, std::int64_t most) {
    const auto found = any(name);
    if (!found) return std::nullopt;
    const JsonDocument::Node& node = document_->node(*found);
    std::int64_t value = 0;
    const char* const end = node.text.data() + node.text.size();
    if (node.kind == Kind::number) {
        const auto [rest, error] = std::from_chars(node.text.data(), end, value);
        if (error == std::errc() && rest == end && value >= least && value <= most) return value;
    }
    refuse(name, fmt::format("write a whole number from {} to {}", least, most));
    return std::nullopt;
}

std::optional<bool> JsonFields::truth(std::string_view name) {
    const auto found = any(name);
    if (!found) return std::nullopt;
    const JsonDocument::Node& node = document_->node(*found);
    if (node.kind == Kind::literal && node.text != "null") return node.text == "true";
    refuse(name, "write true or false");
    return std::nullopt;
}

std::optional<Duration> JsonFields::duration(std::string_view name) {
    const auto written = text(name, "a duration, as in 30s");
    if (!written) return std::nullopt;
    const auto read = parse_duration(*written);
    if (read) return *read;
    refuse(name, read.failure().message);
    return std::nullopt;
}

std::optional<JsonFields> JsonFields::object(std::string_view name) {
    const auto found = any(name);
    if (!found) return std::nullopt;
    JsonFields inner(*document_, *found, place(name), *findings_);
    if (!inner.good()) return std::nullopt;
    return inner;
}

void JsonFields::require(std::string_view name, std::string_view right) {
    if (good_ && !has(name)) refuse(name, fmt::format("missing; write {}", right));
}

void JsonFields::refuse(std::string_view name, std::string_view why) { findings_->add(place(name), why); }

void JsonFields::end() {
    if (!good_) return;
    for (const Index each : document_->members(document_->node(object_)))
        if (const auto name = document_->node(each).text; !asked_.contains(name))
            findings_->add(place_, fmt::format("no such name here: {}", in_quotes(name)));
}

}  // namespace semel::api
