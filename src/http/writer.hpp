// Writes heads and chunks. A message is never forwarded as it came: it is written anew from what was read, with one
// framing, which only end() writes. Nothing that could split a head gets through, and a head that failed leaves nothing.
#pragma once

#include <string>
#include <string_view>

#include "http/fields.hpp"
#include "http/message.hpp"

namespace semel::http {

/// The standard phrase of a status; empty for one without.
std::string_view reason_of(int status);

/// Whether a field goes on to the next hop: it is not hop-by-hop, not named by Connection, not about framing, and neither
/// Expect (answered here) nor Proxy (which CGI takes for the setting HTTP_PROXY).
bool goes_on(const Field& field, const ConnectionOptions& connection);

/// Appends one head to a string.
///     HeadWriter head(out);
///     head.request_line("POST", "/charges").forward(from.fields, from.connection).field("Semel-Token", "7");
///     if (const Fault fault = head.end(Framing::of_length(body.size())); fault != Fault::none) …
class HeadWriter {
public:
    enum class Persistence : std::uint8_t {
        unsaid,      ///< no Connection field: HTTP/1.1 goes on
        close,       ///< Connection: close
        keep_alive,  ///< Connection: keep-alive, for a client of HTTP/1.0
    };

    /// What is already in `out` stays; it must outlive the writer.
    explicit HeadWriter(std::string& out) : out_(out), began_(out.size()) {}

    /// Always HTTP/1.1. A method or target that the reader would refuse fails. Exactly one Host has to be written after.
    HeadWriter& request_line(std::string_view method, std::string_view target);
    /// `reason` empty: the standard one.
    HeadWriter& status_line(int status, std::string_view reason = {});

    /// Fails: a name that is no token or is the writer's own (Connection, Content-Length, Transfer-Encoding, Keep-Alive,
    /// Trailer, Upgrade…), a value with CR, LF, NUL or another control.
    HeadWriter& field(std::string_view name, std::string_view value);
    HeadWriter& field(std::string_view name, std::uint64_t value);

    /// All fields that go on to the next hop, in their order and spelling. `keep(field)` false: left out as well.
    HeadWriter& forward(const Fields& fields, const ConnectionOptions& connection) {
        return forward(fields, connection, [](const Field&) { return true; });
    }
    template <class Keep>
    HeadWriter& forward(const Fields& fields, const ConnectionOptions& connection, Keep keep) {
        for (const Field& each : fields)
            if (goes_on(each, connection) && keep(each)) field(each.name, each.value);
        return *this;
    }

    /// Writes framing, persistence and the empty line. Framing::until_close says Connection: close. On any fault `out` is
    /// as it was when the writer began.
    [[nodiscard]] Fault end(Framing framing, Persistence persistence = Persistence::unsaid);

private:
    void fail(Fault fault) {
        if (fault_ == Fault::none) fault_ = fault;
    }
    void line(std::string_view name, std::string_view value);

    std::string& out_;
    std::size_t began_;
    bool request_ = false;
    unsigned hosts_ = 0;
    Fault fault_ = Fault::none;
};

/// Appends a chunk; nothing for empty data, which would end the body.
void write_chunk(std::string& out, std::string_view data);
/// The line before a chunk's data, and what follows the data, for whoever writes data from another buffer.
void write_chunk_begin(std::string& out, std::uint64_t size);
inline constexpr std::string_view chunk_end = "\r\n";
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

}  // namespace semel::http
