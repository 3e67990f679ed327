// The reading of a body of any framing. Data is handed out as views of what was fed; nothing is copied.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "http/message.hpp"

namespace semel::http {

enum class Trailers : std::uint8_t {
    drop,    ///< Well-formed trailers are read and forgotten.
    refuse,  ///< Any trailer is refused.
};

struct BodyLimits {
    std::uint64_t body_bytes_max = std::numeric_limits<std::int64_t>::max();
    std::size_t trailer_bytes_max = 8 * 1024;  ///< all trailer lines together, without the empty line at the end
    Trailers trailers = Trailers::drop;
};

struct BodyStep {
    Progress progress;
    std::size_t used;       ///< how many of the bytes fed were consumed
    std::string_view data;  ///< the body bytes among those: a view of what was fed
};

/// Chunked bodies are read exactly as RFC 9112 7.1 writes them and no other way: sizes of 1 to 16 hex digits, CRLF after
/// size and data, no extensions. A trailer whose name may only stand in a head is refused in any case.
class BodyReader {
public:
    /// Nothing to read: done.
    BodyReader() = default;
    explicit BodyReader(Framing framing, const BodyLimits& limits = {}) { start(framing, limits); }

    /// Begins a body. It is done at once if there is none, and refused at once if its length is over the limit.
    void start(Framing framing, const BodyLimits& limits = {});

    /// Takes bytes up to the end of the body, or of a piece of data: call it with the rest until that is empty or the
    /// progress is not `more`. After `done` or `refused` nothing more is taken.
    BodyStep feed(std::string_view bytes);

    /// The peer closed its side. A body until close is done by this; any other that is not yet done is refused.
    Progress close();

    [[nodiscard]] Progress progress() const { return progress_; }
    [[nodiscard]] Fault fault() const { return fault_; }
    /// How many bytes of data were handed out.
    [[nodiscard]] std::uint64_t body_bytes() const { return body_bytes_; }

private:
    enum class At : std::uint8_t { size_first, size, size_lf, data, data_cr, data_lf, trailer };

    BodyStep feed_plain(std::string_view bytes);
    BodyStep feed_chunked(std::string_view bytes);
    void take_size(char c);
    void end_size();
    void take_trailer(std::string_view& left);
    Fault check_trailer(std::string_view line) const;
    void refuse(Fault fault);

    Framing framing_;
    BodyLimits limits_;
    std::uint64_t left_ = 0;  // of the body with a length, or of the chunk
    std::uint64_t body_bytes_ = 0;
    int size_digits_ = 0;
    std::size_t trailer_bytes_ = 0;
    std::string line_;  // the trailer line being gathered
    At at_ = At::size_first;
    Progress progress_ = Progress::done;
    Fault fault_ = Fault::none;
};

}  // namespace semel::http
