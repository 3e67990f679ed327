// The one reading of a request's head. Whatever could be read in two ways is refused: what the gateway decides by and what
// the upstream acts on must be the same request.
//
// No input or output and no clock: feed bytes as they come. One reader per connection, used by one thread at a time.
#pragma once

#include <string_view>

#include "http/fields.hpp"
#include "http/head_lines.hpp"
#include "http/message.hpp"
#include "http/target.hpp"

namespace semel::http {

/// A request's head. All views are of the reader it came from and end with its next reset().
struct RequestHead {
    std::string_view method_text;
    Method method = Method::other;
    std::string_view target_text;
    Target target;
    Version version = Version::http_1_1;
    Fields fields;
    ConnectionOptions connection;
    std::string_view host;         ///< Host, or of an absolute target its authority; empty: HTTP/1.0 without either
    Framing framing;               ///< none, length or chunked; a Content-Length of 0 is a length
    bool keep_alive = true;        ///< whether the client lets the connection go on after the answer
    bool expect_continue = false;  ///< HTTP/1.1, a body follows, and the client waits for 100 Continue
    bool upgrade = false;          ///< Upgrade is there, or named by Connection: refuse on keyed routes, as CONNECT
};

class RequestReader {
public:
    explicit RequestReader(const HeadLimits& limits = {}) : lines_(Side::request, limits) {}
    // The head's views follow the buffer when it moves; a copy's would not.
    RequestReader(RequestReader&&) = default;
    RequestReader& operator=(RequestReader&&) = default;

    /// Takes bytes up to the end of the head and none after it. After `done` or `refused` nothing more is taken. Every
    /// line is judged as soon as it is complete.
    Step feed(std::string_view bytes);

    [[nodiscard]] Progress progress() const { return progress_; }
    [[nodiscard]] Fault fault() const { return fault_; }
    /// With Progress::done.
    [[nodiscard]] const RequestHead& head() const { return head_; }
    /// How many bytes of this head there are so far. 0: the connection is between two requests.
    [[nodiscard]] std::size_t head_bytes() const { return lines_.size(); }

    /// Ready for the next request of the connection.
    void reset();

private:
    Fault take_line();
    Fault take_request_line(std::string_view line);
    Fault finish();
    void refuse(Fault fault);

    HeadLines lines_;
    RequestHead head_;
    Part method_, target_;
    Progress progress_ = Progress::more;
    Fault fault_ = Fault::none;
};

}  // namespace semel::http
