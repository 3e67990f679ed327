#include "http/request.hpp"

#include <gtest/gtest.h>

namespace semel::http {
namespace {

RequestReader read(std::string_view bytes, const HeadLimits& limits = {}) {
    RequestReader reader(limits);
    reader.feed(bytes);
    return reader;
}

std::string with(std::string_view fields, std::string_view first = "POST /a HTTP/1.1") {
    return std::string(first) + "\r\nHost: a\r\n" + std::string(fields) + "\r\n";
}

TEST(RequestReader, TakesTheHeadAndNotAByteMore) {
    RequestReader reader;
    const std::string head = with("Content-Length: 4\r\n");
    const Step step = reader.feed(head + "abcdGET ");
    EXPECT_EQ(step.progress, Progress::done);
    EXPECT_EQ(step.used, head.size());
    EXPECT_EQ(reader.head_bytes(), head.size());
    EXPECT_EQ(reader.feed("more").used, 0U);
    EXPECT_EQ(reader.head().framing, Framing::of_length(4));
}

TEST(RequestReader, IsReusedForTheNextRequestWithoutATraceOfTheLast) {
    RequestReader reader;
    reader.feed(
        "POST /one?x HTTP/1.0\r\nHost: a\r\nConnection: keep-alive, x-hop\r\nContent-Length: 7\r\nUpgrade: "
        "h2c\r\n\r\n");
    ASSERT_EQ(reader.progress(), Progress::done);
    reader.reset();
    EXPECT_EQ(reader.head_bytes(), 0U);
    reader.feed("GET /two HTTP/1.1\r\nHost: b\r\n\r\n");
    ASSERT_EQ(reader.progress(), Progress::done);
    const RequestHead& head = reader.head();
    EXPECT_EQ(head.method, Method::get);
    EXPECT_EQ(head.target.path, "/two");
    EXPECT_FALSE(head.target.has_query);
    EXPECT_EQ(head.version, Version::http_1_1);
    EXPECT_EQ(head.host, "b");
    EXPECT_EQ(head.fields.size(), 1U);
    EXPECT_EQ(head.framing, Framing::none());
    EXPECT_TRUE(head.keep_alive);
    EXPECT_FALSE(head.upgrade);
    EXPECT_FALSE(head.connection.names("x-hop"));
    reader.reset();
    EXPECT_EQ(reader.feed("GET /\n").progress, Progress::refused);
    reader.reset();
    EXPECT_EQ(reader.feed(with("")).progress, Progress::done);
}

TEST(RequestReader, KeepsItsViewsWhenMoved) {
    RequestReader first = read(with("X: y\r\n"));
    const RequestReader second = std::move(first);
    EXPECT_EQ(second.head().fields.value("x"), "y");
    EXPECT_EQ(second.head().target.path, "/a");
}

TEST(RequestReader, KeepsItsViewsWhileTheBufferGrows) {
    RequestReader reader;
    reader.feed("GET /first?q HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 50; ++i) reader.feed("X-" + std::to_string(i) + ": " + std::string(300, 'y') + "\r\n");
    reader.feed("\r\n");
    ASSERT_EQ(reader.progress(), Progress::done);
    EXPECT_EQ(reader.head().method_text, "GET");
    EXPECT_EQ(reader.head().target.path, "/first");
    EXPECT_EQ(reader.head().target.query, "q");
    EXPECT_EQ(reader.head().host, "a");
    EXPECT_EQ(reader.head().fields[50].name, "X-49");
}

TEST(RequestReader, DecidesWhetherTheConnectionGoesOn) {
    const struct {
        std::string_view first, fields;
        bool keep_alive;
    } rows[] = {{"GET / HTTP/1.1", "", true},
                {"GET / HTTP/1.1", "Connection: close\r\n", false},
                {"GET / HTTP/1.1", "Connection: CLOSE\r\n", false},
                {"GET / HTTP/1.1", "Connection: x, close\r\n", false},
                {"GET / HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n", false},
                {"GET / HTTP/1.1", "Connection: closed\r\n", true},
                {"GET / HTTP/1.0", "", false},
                {"GET / HTTP/1.0", "Connection: Keep-Alive\r\n", true},
                {"GET / HTTP/1.0", "Connection: keep-alive, close\r\n", false},
                {"GET / HTTP/1.0", "Keep-Alive: timeout=5\r\n", false}};
    for (const auto& row : rows) {
        const auto reader = read(with(row.fields, row.first));
        ASSERT_EQ(reader.progress(), Progress::done) << row.fields;
        EXPECT_EQ(reader.head().keep_alive, row.keep_alive) << row.first << " " << row.fields;
    }
}

TEST(RequestReader, WaitsForContinueOnlyWhereThereIsABodyToSend) {
    EXPECT_TRUE(read(with("Expect: 100-continue\r\nContent-Length: 1\r\n")).head().expect_continue);
    EXPECT_TRUE(read(with("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n")).head().expect_continue);
    EXPECT_FALSE(read(with("Expect: 100-continue\r\nContent-Length: 0\r\n")).head().expect_continue);
    EXPECT_FALSE(read(with("Expect: 100-continue\r\n")).head().expect_continue);
    const auto old = read(with("Expect: 100-continue\r\nContent-Length: 1\r\n", "POST / HTTP/1.0"));
    ASSERT_EQ(old.progress(), Progress::done);
    EXPECT_FALSE(old.head().expect_continue);
}

TEST(RequestReader, ReportsUpgradeAndConnect) {
    EXPECT_TRUE(read(with("Upgrade: h2c\r\n")).head().upgrade);
    EXPECT_TRUE(read(with("Connection: Upgrade\r\n")).head().upgrade);
    EXPECT_FALSE(read(with("Connection: close\r\n")).head().upgrade);
    const auto tunnel = read("CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n");
    EXPECT_EQ(tunnel.head().method, Method::connect);
    EXPECT_EQ(tunnel.head().target.form, TargetForm::authority);
    EXPECT_EQ(tunnel.head().target.authority, "b:443");
}

TEST(RequestReader, TakesTheHostFromAnAbsoluteTarget) {
    const auto old = read("GET http://b:80/x?y HTTP/1.0\r\n\r\n");
    ASSERT_EQ(old.progress(), Progress::done);
    EXPECT_EQ(old.head().host, "b:80");
    EXPECT_EQ(origin_form(old.head().target), "/x?y");
    EXPECT_EQ(read("GET / HTTP/1.0\r\n\r\n").head().host, "");
}

TEST(RequestReader, RefusesTheFirstByteThatNoMethodBeginsWith) {
    RequestReader reader;
    EXPECT_EQ(reader.feed("\x16").progress, Progress::refused);
    EXPECT_EQ(reader.fault(), Fault::method_invalid);
    EXPECT_EQ(reader.feed("GET").used, 0U);
}

TEST(RequestReader, EveryLimitHoldsToTheByte) {
    const HeadLimits limits{.head_bytes_max = 200, .target_bytes_max = 20, .field_bytes_max = 40, .fields_max = 4};
    const auto fault = [&](std::string_view bytes) { return read(bytes, limits).fault(); };
    const auto target = [](std::size_t size) { return "GET /" + std::string(size - 1, 'a') + " HTTP/1.1"; };
    EXPECT_EQ(read(with("", target(20)), limits).progress(), Progress::done);
    EXPECT_EQ(fault(with("", target(21))), Fault::target_too_long);

    const auto field = [](std::size_t size) { return "X: " + std::string(size - 3, 'y') + "\r\n"; };
    EXPECT_EQ(read(with(field(40)), limits).progress(), Progress::done);
    EXPECT_EQ(fault(with(field(41))), Fault::field_too_long);

    EXPECT_EQ(read(with("A: 1\r\nB: 2\r\nC: 3\r\n"), limits).progress(), Progress::done);
    EXPECT_EQ(fault(with("A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n")), Fault::fields_too_many);

    std::string head = with(field(40) + field(40) + field(40), target(20));
    const std::size_t size = head.size();
    for (const std::size_t room : {size, size + 1, size - 1, size - 2, size - 3, size / 2}) {
        const HeadLimits tight{.head_bytes_max = room};
        const auto reader = read(head, tight);
        EXPECT_EQ(reader.fault(), room >= size ? Fault::none : Fault::head_too_large) << room;
    }

    EXPECT_EQ(read(std::string(32, 'M') + " / HTTP/1.1\r\nHost: a\r\n\r\n").progress(), Progress::done);
    EXPECT_EQ(read(std::string(33, 'M') + " / HTTP/1.1\r\nHost: a\r\n\r\n").fault(), Fault::method_too_long);
}

TEST(RequestReader, TheLargestLengthIsReadAndTheNextRefused) {
    EXPECT_EQ(read(with("Content-Length: 9223372036854775807\r\n")).head().framing.length, 9223372036854775807U);
    EXPECT_EQ(read(with("Content-Length: 9223372036854775808\r\n")).fault(), Fault::length_invalid);
}

TEST(Fault, HasANameAMessageAndAStatus) {
    for (int i = 1; i < faults; ++i) {
        const auto fault = static_cast<Fault>(i);
        EXPECT_FALSE(name(fault).empty());
        EXPECT_FALSE(message(fault).empty());
        EXPECT_GE(status(fault), 400);
        EXPECT_LE(status(fault), 505);
    }
}

}  // namespace
}  // namespace semel::http
