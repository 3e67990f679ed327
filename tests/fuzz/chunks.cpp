// Any bytes as a chunked body. The verdict and the data must not depend on how they are split, and the data written as
// chunks must be read as the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "http/body.hpp"
#include "http/writer.hpp"

namespace {

using namespace semel::http;  // NOLINT(google-build-using-namespace): one subject, one file

struct Verdict {
    Progress progress;
    Fault fault;
    std::size_t used;
    std::string data;
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

Verdict read(std::string_view bytes, std::size_t piece, const BodyLimits& limits) {
    BodyReader reader(Framing::chunked(), limits);
    Verdict verdict{Progress::more, Fault::none, 0, {}};
    while (reader.progress() == Progress::more && verdict.used < bytes.size()) {
        const std::string own(bytes.substr(verdict.used, piece));
        const BodyStep step = reader.feed(own);
        SEMEL_ASSERT(step.used > 0, "it goes on");
        SEMEL_ASSERT(step.data.empty() || (step.data.data() >= own.data() &&
                                           step.data.data() + step.data.size() <= own.data() + own.size()),
                     "data is a part of what was fed");
        verdict.data += step.data;
        verdict.used += step.used;
    }
    SEMEL_ASSERT(reader.body_bytes() == verdict.data.size() && verdict.data.size() <= limits.body_bytes_max, "counted");
    verdict.progress = reader.progress();
    verdict.fault = reader.fault();
    return verdict;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    if (bytes.empty()) return 0;
    const Trailers trailers = size % 2 == 0 ? Trailers::drop : Trailers::refuse;
    const BodyLimits limits{.body_bytes_max = 300, .trailer_bytes_max = 60, .trailers = trailers};
    const Verdict verdict = read(bytes, size, limits);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{5}, size / 2 + 1})
        SEMEL_ASSERT(read(bytes, piece, limits) == verdict, "the verdict depends on the bytes alone");

    if (verdict.progress != Progress::done) return 0;
    std::string out;
    write_chunk(out, verdict.data);
    out += last_chunk;
    const Verdict again = read(out, out.size(), limits);
    SEMEL_ASSERT(again.progress == Progress::done && again.data == verdict.data, "the same body");
    return 0;
}
