// The lines of a head, gathered in one buffer however they arrive, and their fields: what the request reader and the
// response reader share. A verdict depends on the bytes alone, never on how they were split.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "http/fields.hpp"
#include "http/message.hpp"

namespace semel::http {

/// A part of the buffer: it may move while it grows, so nothing points into it before the head is complete.
struct Part {
    std::uint32_t at = 0;
    std::uint32_t size = 0;
};

/// Checks one header line without its CRLF. On Fault::none `name` and `value` are parts of the line.
Fault read_field_line(std::string_view line, std::string_view& name, std::string_view& value);

/// Which fault a byte that may not stand in a line amounts to.
Fault fault_of_bytes(std::string_view text, Fault otherwise);

/// 1 to 19 decimal digits that fit into 63 bits.
bool read_length(std::string_view text, std::uint64_t& length);

/// Fields that say how the message is framed and how the connection goes on.
struct Control {
    bool has_length = false;
    bool has_encoding = false;
    std::uint64_t length = 0;
    bool upgrade = false;
    unsigned hosts = 0;  // this and what follows: of requests only
    Part host;
    unsigned expectations = 0;
};

class HeadLines {
public:
    HeadLines(Side side, const HeadLimits& limits) : side_(side), limits_(limits) {}

    enum class Taken : std::uint8_t { line, more, refused };

    /// Moves bytes from the front of `left` into the buffer, up to the end of a line. With Taken::line, line() is that
    /// line. A line of more than `line_bytes_max` is refused as `too_long`.
    Taken take(std::string_view& left, std::size_t line_bytes_max, Fault too_long);

    /// Reads line() as a header field. encoding_in_http_1_0 and everything else that needs the whole head is up to the
    /// caller.
    Fault take_field();

    [[nodiscard]] std::string_view line() const { return text(line_); }
    [[nodiscard]] std::string_view text(Part part) const {
        return std::string_view(buffer_).substr(part.at, part.size);
    }
    [[nodiscard]] Part part(std::string_view text) const {
        return {static_cast<std::uint32_t>(text.data() - buffer_.data()), static_cast<std::uint32_t>(text.size())};
    }
    [[nodiscard]] bool empty() const { return buffer_.empty(); }
    [[nodiscard]] std::size_t size() const { return buffer_.size(); }
    [[nodiscard]] const Control& control() const { return control_; }
    [[nodiscard]] const HeadLimits& limits() const { return limits_; }
    [[nodiscard]] Fault fault() const { return fault_; }

    /// Fills `fields` and `options` with views into the buffer, which from now on stays where it is.
    Fault finish(Fields& fields, ConnectionOptions& options) const;

    /// Ready for the next head; keeps a buffer of ordinary size.
    void reset();

private:
    struct FieldParts {
        Part name, value;
    };

    Side side_;
    HeadLimits limits_;
    std::string buffer_;
    std::size_t line_at_ = 0;  // where the line being gathered begins
    Part line_;
    std::vector<FieldParts> fields_;
    Control control_;
    Fault fault_ = Fault::none;
};

}  // namespace semel::http
