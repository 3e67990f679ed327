// One JSON object that is read name by name. Everything that is wrong is collected, with its place, and reading goes on.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/json_document.hpp"
#include "semel/time.hpp"

namespace semel::api {

/// What was found wrong. Refers to nothing.
class Findings {
public:
    void add(std::string_view place, std::string_view what);
    [[nodiscard]] bool empty() const { return found_.empty(); }
    [[nodiscard]] std::vector<std::string> take() { return std::move(found_); }

private:
    std::vector<std::string> found_;
};

/// Refers to the document and the findings, which outlive it. Every name that may be there has to be asked for; end() then
/// refuses the others.
class JsonFields {
public:
    using Index = JsonDocument::Index;

    /// `place` is the object's own, as in `groups[0][1]`; empty: the whole.
    JsonFields(const JsonDocument& document, Index object, std::string place, Findings& findings);

    /// Whether it is an object at all; if not, that was told.
    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] bool has(std::string_view name) const;
    /// The value's index, of any kind.
    std::optional<Index> any(std::string_view name);

    /// Nothing: it is not there, or it is not that, which was told. `right` says what would be right.
    std::optional<std::string> text(std::string_view name, std::string_view right);
    std::optional<std::int64_t> whole(std::string_view name, std::int64_t least, std::int64_t most);
    std::optional<bool> truth(std::string_view name);
    std::optional<Duration> duration(std::string_view name);
    /// A member that is an object.
    std::optional<JsonFields> object(std::string_view name);

    /// Tells that it is missing unless it is there.
    void require(std::string_view name, std::string_view right);
    void refuse(std::string_view name, std::string_view why);
    [[nodiscard]] std::string place(std::string_view name) const;

    /// Refuses the names that nobody asked for.
    void end();

private:
    const JsonDocument* document_;
    Index object_;
    std::string place_;
    Findings* findings_;
    std::set<std::string, std::less<>> asked_;
    bool good_ = false;
};

}  // namespace semel::api
