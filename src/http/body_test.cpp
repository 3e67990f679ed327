#include "http/body.hpp"

#include <gtest/gtest.h>

namespace semel::http {
namespace {

struct Read {
    Progress progress;
    Fault fault;
    std::string data;
    std::size_t used = 0;
};

Read read(BodyReader& reader, std::string_view bytes) {
    Read all{reader.progress(), reader.fault(), {}};
    while (reader.progress() == Progress::more && all.used < bytes.size()) {
        const BodyStep step = reader.feed(bytes.substr(all.used));
        all.used += step.used;
        all.data += step.data;
    }
    all.progress = reader.progress();
    all.fault = reader.fault();
    return all;
}

Read read(Framing framing, const BodyLimits& limits, std::string_view bytes) {
    BodyReader reader(framing, limits);
    return read(reader, bytes);
}

TEST(BodyReader, WithoutABodyIsDoneAtOnce) {
    EXPECT_EQ(BodyReader().progress(), Progress::done);
    EXPECT_EQ(BodyReader(Framing::none()).progress(), Progress::done);
    EXPECT_EQ(BodyReader(Framing::of_length(0)).progress(), Progress::done);
    EXPECT_EQ(BodyReader(Framing::none()).feed("x").used, 0U);
}

TEST(BodyReader, LeavesWhatFollowsTheBody) {
    const auto length = read(Framing::of_length(4), {}, "abcdGET /");
    EXPECT_EQ(length.progress, Progress::done);
    EXPECT_EQ(length.data, "abcd");
    EXPECT_EQ(length.used, 4U);
    const auto chunked = read(Framing::chunked(), {}, "4\r\nabcd\r\n0\r\n\r\nGET /");
    EXPECT_EQ(chunked.progress, Progress::done);
    EXPECT_EQ(chunked.data, "abcd");
    EXPECT_EQ(chunked.used, 14U);
}

TEST(BodyReader, HandsOutViewsOfWhatItWasFed) {
    BodyReader reader(Framing::chunked());
    const std::string_view bytes = "5\r\nhello\r\n";
    const BodyStep step = reader.feed(bytes);
    EXPECT_EQ(step.data.data(), bytes.data() + 3);
    EXPECT_EQ(step.data.size(), 5U);
    EXPECT_EQ(step.used, 8U);
}

TEST(BodyReader, UntilCloseIsDoneByTheEndAndNothingElse) {
    BodyReader reader(Framing::until_close());
    EXPECT_EQ(reader.feed("abcd").progress, Progress::more);
    EXPECT_EQ(reader.close(), Progress::done);
    BodyReader cut(Framing::of_length(5));
    EXPECT_EQ(cut.feed("abcd").progress, Progress::more);
    EXPECT_EQ(cut.close(), Progress::refused);
    EXPECT_EQ(cut.fault(), Fault::body_cut_short);
}

TEST(BodyReader, TheLimitOfTheBodyHoldsToTheByteInEveryFraming) {
    const BodyLimits limits{.body_bytes_max = 10};
    EXPECT_EQ(read(Framing::of_length(10), limits, "0123456789").progress, Progress::done);
    EXPECT_EQ(BodyReader(Framing::of_length(11), limits).fault(), Fault::body_too_large);
    EXPECT_EQ(read(Framing::chunked(), limits, "a\r\n0123456789\r\n0\r\n\r\n").progress, Progress::done);
    EXPECT_EQ(read(Framing::chunked(), limits, "b\r\n").fault, Fault::body_too_large);
    EXPECT_EQ(read(Framing::chunked(), limits, "8\r\n01234567\r\n3\r\n").fault, Fault::body_too_large);
    EXPECT_EQ(read(Framing::until_close(), limits, "0123456789").progress, Progress::more);
    const auto over = read(Framing::until_close(), limits, "0123456789a");
    EXPECT_EQ(over.fault, Fault::body_too_large);
    EXPECT_EQ(over.data, "0123456789");
}

TEST(BodyReader, TheLimitOfTrailersHoldsToTheByte) {
    const BodyLimits limits{.trailer_bytes_max = 12};
    EXPECT_EQ(read(Framing::chunked(), limits, "0\r\nA: 1\r\nB: 2\r\n\r\n").progress, Progress::done);
    EXPECT_EQ(read(Framing::chunked(), limits, "0\r\nA: 1\r\nB: 22\r\n\r\n").fault, Fault::trailers_too_large);
    EXPECT_EQ(read(Framing::chunked(), limits, "0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n").fault, Fault::trailers_too_large);
    EXPECT_EQ(read(Framing::chunked(), {.trailer_bytes_max = 0}, "0\r\n\r\n").progress, Progress::done);
}

TEST(BodyReader, TrailersCanBeRefusedAltogether) {
    const BodyLimits limits{.trailers = Trailers::refuse};
    EXPECT_EQ(read(Framing::chunked(), limits, "0\r\n\r\n").progress, Progress::done);
    EXPECT_EQ(read(Framing::chunked(), limits, "0\r\nX: y\r\n\r\n").fault, Fault::trailers_refused);
    EXPECT_EQ(read(Framing::chunked(), limits, "0\r\nHost: y\r\n\r\n").fault, Fault::trailer_forbidden);
}

TEST(BodyReader, IsReusedForTheNextBody) {
    BodyReader reader(Framing::chunked());
    EXPECT_EQ(read(reader, "3\r\nabc\r\nx").progress, Progress::refused);
    reader.start(Framing::chunked());
    const auto again = read(reader, "1\r\nz\r\n0\r\nT: u\r\n\r\n");
    EXPECT_EQ(again.progress, Progress::done);
    EXPECT_EQ(again.data, "z");
    EXPECT_EQ(reader.body_bytes(), 1U);
}

}  // namespace
}  // namespace semel::http
