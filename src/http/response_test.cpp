#include "http/response.hpp"

#include <gtest/gtest.h>

namespace semel::http {
namespace {

ResponseReader read(std::string_view bytes, Method method = Method::get) {
    ResponseReader reader(method);
    reader.feed(bytes);
    return reader;
}

TEST(ResponseReader, FramesByMethodStatusAndFields) {
    const struct {
        std::string_view bytes;
        Method method;
        Framing framing;
        std::optional<std::uint64_t> length;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", Method::get, Framing::of_length(4), 4},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Method::post, Framing::of_length(0), 0},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Method::get, Framing::chunked(), std::nullopt},
        {"HTTP/1.1 200 OK\r\n\r\n", Method::get, Framing::until_close(), std::nullopt},
        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n", Method::head, Framing::none(), 4},
        {"HTTP/1.1 200 OK\r\n\r\n", Method::head, Framing::none(), std::nullopt},
        {"HTTP/1.1 304 X\r\nContent-Length: 4\r\n\r\n", Method::get, Framing::none(), 4},
        {"HTTP/1.1 304 X\r\nTransfer-Encoding: chunked\r\n\r\n", Method::get, Framing::none(), std::nullopt},
        {"HTTP/1.1 204 X\r\n\r\n", Method::get, Framing::none(), std::nullopt},
        {"HTTP/1.1 103 X\r\n\r\n", Method::get, Framing::none(), std::nullopt},
        {"HTTP/1.1 205 X\r\nContent-Length: 0\r\n\r\n", Method::get, Framing::of_length(0), 0},
    };
    for (const auto& row : rows) {
        const auto reader = read(row.bytes, row.method);
        ASSERT_EQ(reader.progress(), Progress::done) << row.bytes;
        EXPECT_EQ(reader.head().framing, row.framing) << row.bytes;
        EXPECT_EQ(reader.head().content_length, row.length) << row.bytes;
    }
}

TEST(ResponseReader, SaysWhetherTheConnectionCanBeUsedAgain) {
    EXPECT_TRUE(read("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n").head().keep_alive);
    EXPECT_FALSE(read("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\n").head().keep_alive);
    EXPECT_FALSE(read("HTTP/1.1 200 OK\r\n\r\n").head().keep_alive);
    EXPECT_FALSE(read("HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n").head().keep_alive);
    EXPECT_TRUE(read("HTTP/1.0 200 OK\r\nContent-Length: 4\r\nConnection: keep-alive\r\n\r\n").head().keep_alive);
    EXPECT_FALSE(read("HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\n\r\n").head().keep_alive);
}

TEST(ResponseReader, ReadsInterimHeadsOneByOne) {
    ResponseReader reader(Method::post);
    std::string_view bytes = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
    bytes.remove_prefix(reader.feed(bytes).used);
    ASSERT_EQ(reader.progress(), Progress::done);
    EXPECT_TRUE(reader.head().interim());
    reader.reset();
    EXPECT_EQ(reader.head_bytes(), 0U);
    bytes.remove_prefix(reader.feed(bytes).used);
    ASSERT_EQ(reader.progress(), Progress::done);
    EXPECT_EQ(reader.head().status, 201);
    EXPECT_FALSE(reader.head().interim());
    EXPECT_EQ(reader.head().reason, "Created");
    EXPECT_TRUE(bytes.empty());
    EXPECT_FALSE(read("HTTP/1.1 101 Switching\r\n\r\n").head().interim());
}

TEST(ResponseReader, EveryLimitHoldsToTheByte) {
    const HeadLimits limits{.head_bytes_max = 100, .target_bytes_max = 10, .field_bytes_max = 20, .fields_max = 2};
    const auto fault = [&](const std::string& bytes) {
        ResponseReader reader(Method::get, limits);
        const Step step = reader.feed(bytes);
        return step.progress == Progress::done ? Fault::none : reader.fault();
    };
    EXPECT_EQ(fault("HTTP/1.1 200 " + std::string(10, 'r') + "\r\n\r\n"), Fault::none);
    EXPECT_EQ(fault("HTTP/1.1 200 " + std::string(11, 'r') + "\r\n\r\n"), Fault::status_line_invalid);
    EXPECT_EQ(fault("HTTP/1.1 200 OK\r\nX: " + std::string(17, 'y') + "\r\n\r\n"), Fault::none);
    EXPECT_EQ(fault("HTTP/1.1 200 OK\r\nX: " + std::string(18, 'y') + "\r\n\r\n"), Fault::field_too_long);
    EXPECT_EQ(fault("HTTP/1.1 200 OK\r\nX: y\r\nX: y\r\n\r\n"), Fault::none);
    EXPECT_EQ(fault("HTTP/1.1 200 OK\r\nX: y\r\nX: y\r\nX: y\r\n\r\n"), Fault::fields_too_many);
    ResponseReader tight(Method::get, {.head_bytes_max = 24});
    tight.feed("HTTP/1.1 200 OK\r\nX: y\r\n\r\n");
    EXPECT_EQ(tight.fault(), Fault::head_too_large);
    ResponseReader exact(Method::get, {.head_bytes_max = 25});
    EXPECT_EQ(exact.feed("HTTP/1.1 200 OK\r\nX: y\r\n\r\n").progress, Progress::done);
}

}  // namespace
}  // namespace semel::http
