// JSON pointers (RFC 6901): the place of a value inside a document.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "semel/result.hpp"

namespace semel {

class JsonPointer {
public:
    /// Reads `/a/b~1c/0`; the empty text is the whole document. Text that does not begin with '/', a '~' that is not
    /// followed by 0 or 1, and invalid UTF-8 are `invalid`.
    static Result<JsonPointer> parse(std::string_view text);

    /// As it was given.
    [[nodiscard]] const std::string& text() const { return text_; }
    /// The member names or array indices on the way, unescaped.
    [[nodiscard]] const std::vector<std::string>& steps() const { return steps_; }

    bool operator==(const JsonPointer&) const = default;

private:
    JsonPointer(std::string text, std::vector<std::string> steps) : text_(std::move(text)), steps_(std::move(steps)) {}
    std::string text_;
    std::vector<std::string> steps_;
};

}  // namespace semel
