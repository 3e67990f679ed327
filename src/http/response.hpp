// The reading of an upstream's response head, as strict as that of requests. Two liberties are taken because nothing can be
// read in two ways and refusing them would lose the answer of an effect that has happened: the space before an empty
// reason may be missing, and a 204 may say `Content-Length: 0`.
#pragma once

#include <optional>
#include <string_view>

#include "http/fields.hpp"
#include "http/head_lines.hpp"
#include "http/message.hpp"

namespace semel::http {

/// A response's head. All views are of the reader it came from and end with its next reset().
struct ResponseHead {
    int status = 0;  ///< 100 to 599
    std::string_view reason;
    Version version = Version::http_1_1;
    Fields fields;
    ConnectionOptions connection;
    Framing framing;                              ///< of the body that follows; none after HEAD, with 1xx, 204 and 304
    std::optional<std::uint64_t> content_length;  ///< as announced, also where no body follows (HEAD, 304)
    bool keep_alive = true;                       ///< whether the connection can be used again after the body

    /// 1xx but 101: not the answer yet. reset() and read on.
    [[nodiscard]] bool interim() const { return status < 200 && status != 101; }
};

class ResponseReader {
public:
    /// `method` is that of the request: a HEAD has no body in its answer.
    explicit ResponseReader(Method method, const HeadLimits& limits = response_limits)
        : lines_(Side::response, limits), method_(method) {}
    // The head's views follow the buffer when it moves; a copy's would not.
    ResponseReader(ResponseReader&&) = default;
    ResponseReader& operator=(ResponseReader&&) = default;

    /// As RequestReader::feed.
    Step feed(std::string_view bytes);

    [[nodiscard]] Progress progress() const { return progress_; }
    [[nodiscard]] Fault fault() const { return fault_; }
    /// With Progress::done.
    [[nodiscard]] const ResponseHead& head() const { return head_; }
    /// 0: the upstream has not begun to answer.
    [[nodiscard]] std::size_t head_bytes() const { return lines_.size(); }

    /// Ready for the next head: after an interim one, of the same request; else of the next one.
    void reset() { reset(method_); }
    void reset(Method method);

private:
    Fault take_line();
    Fault take_status_line(std::string_view line);
    Fault finish();
    Fault set_framing();
    void refuse(Fault fault);

    HeadLines lines_;
    ResponseHead head_;
    Method method_;
    Part reason_;
    bool has_status_ = false;
    Progress progress_ = Progress::more;
    Fault fault_ = Fault::none;
};

}  // namespace semel::http
