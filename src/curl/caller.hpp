// Calls HTTP servers by libcurl: one request at a time, over a connection that is kept open.
//
// A request is written to a socket at most once: libcurl's own second try on a kept connection that turned out to be dead is
// stopped, since nobody knows whether the first was executed. Redirects are not followed, proxies of the environment not used,
// certificates always checked. What surely was not sent is told apart from what may have been executed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <variant>

#include "semel/http.hpp"
#include "semel/result.hpp"
#include "semel/time.hpp"

namespace semel {

struct HttpCallOptions {
    TlsFiles tls{};
    Duration timeout = std::chrono::seconds{30};  ///< for the whole call, connecting included
    Duration connect_timeout = std::chrono::seconds{5};
    /// How long a kept connection may have been idle to be used again. Below that of the server, which otherwise may close
    /// it while a request is on its way.
    Duration idle_max = std::chrono::seconds{2};
    std::size_t answer_bytes_max = 64 * 1024;  ///< of the answer's body; the rest is read and dropped
    bool operator==(const HttpCallOptions&) const = default;
};

/// Of the answer's head; a longer one is no answer.
inline constexpr std::size_t answer_head_bytes_max = 256 * 1024;

/// Not one byte of the request was written: no connection, no TLS. `reason` is for people, without credentials and path.
struct HttpNotSent {
    std::string reason{};
    bool operator==(const HttpNotSent&) const = default;
};

/// Sent, perhaps in part, and no whole answer came: it may have been executed.
struct HttpNoAnswer {
    enum class Why : std::uint8_t {
        timeout,
        broken,  ///< reset, closed, half an answer, or one that is no HTTP
        stopped,
    };
    Why why = Why::broken;
    std::string reason{};
    bool operator==(const HttpNoAnswer&) const = default;
};

using HttpEnd = std::variant<HttpNotSent, HttpNoAnswer, HttpAnswer>;

/// Used by one thread; have one per worker.
class HttpCaller {
public:
    /// `invalid`: a file of `tls` cannot be read ("tls.ca: FILE cannot be read").
    static Result<HttpCaller> open(const TlsFiles& tls = {});
    HttpCaller(HttpCaller&&) noexcept;
    HttpCaller& operator=(HttpCaller&&) noexcept;
    ~HttpCaller();

    /// Sends the request and waits for the answer, at most `options.timeout`, or until `stop` is asked for (seen within a
    /// second). The method is any that is answered with a body, so not HEAD or CONNECT. Names of fields are tokens, values
    /// hold no control characters, and none of them frames the message (Content-Length, Transfer-Encoding).
    HttpEnd call(const HttpRequest& request, const HttpCallOptions& options, const std::stop_token& stop = {});

private:
    class Connection;
    explicit HttpCaller(std::unique_ptr<Connection> connection);
    std::unique_ptr<Connection> connection_;
};

}  // namespace semel
