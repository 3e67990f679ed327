#include "http/writer.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "http/body.hpp"
#include "http/request.hpp"
#include "http/response.hpp"

namespace semel::http {
namespace {

RequestReader read(std::string_view bytes) {
    RequestReader reader;
    reader.feed(bytes);
    return reader;
}

TEST(HeadWriter, WritesARequestAnewWithOneFraming) {
    const auto in = read(
        "POST http://a/charges?x HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n"
        "Proxy-Authorization: Basic x\r\nProxy: evil\r\nTE: trailers\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n"
        "Upgrade: h2c\r\nHTTP2-Settings: x\r\nExpect: 100-continue\r\nIdempotency-Key: \"k\"\r\nSemel_Token: "
        "9\r\n\r\n");
    ASSERT_EQ(in.progress(), Progress::done);
    std::string out;
    HeadWriter writer(out);
    writer.request_line(in.head().method_text, origin_form(in.head().target))
        .forward(in.head().fields, in.head().connection,
                 [](const Field& field) { return !variable_starts_with(field.name, "semel-"); })
        .field("Semel-Token", 7U);
    ASSERT_EQ(writer.end(Framing::of_length(2)), Fault::none);
    EXPECT_EQ(out,
              "POST /charges?x HTTP/1.1\r\nHost: a\r\nIdempotency-Key: \"k\"\r\nSemel-Token: 7\r\n"
              "Content-Length: 2\r\n\r\n");
}

TEST(HeadWriter, WritesEveryFramingAndPersistence) {
    const struct {
        Framing framing;
        HeadWriter::Persistence persistence;
        std::string_view rest;
    } rows[] = {
        {Framing::none(), HeadWriter::Persistence::unsaid, "\r\n"},
        {Framing::of_length(0), HeadWriter::Persistence::unsaid, "Content-Length: 0\r\n\r\n"},
        {Framing::of_length(INT64_MAX), HeadWriter::Persistence::unsaid, "Content-Length: 9223372036854775807\r\n\r\n"},
        {Framing::chunked(), HeadWriter::Persistence::close, "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"},
        {Framing::of_length(3), HeadWriter::Persistence::keep_alive,
         "Content-Length: 3\r\nConnection: keep-alive\r\n\r\n"},
        {Framing::until_close(), HeadWriter::Persistence::unsaid, "Connection: close\r\n\r\n"},
    };
    for (const auto& row : rows) {
        std::string out;
        HeadWriter writer(out);
        writer.status_line(201);
        ASSERT_EQ(writer.end(row.framing, row.persistence), Fault::none);
        EXPECT_EQ(out, "HTTP/1.1 201 Created\r\n" + std::string(row.rest));
    }
}

TEST(HeadWriter, RefusesWhatWouldSplitAHeadAndLeavesNothingOfIt) {
    const struct {
        std::string_view name, value;
        Fault fault;
    } rows[] = {{"X", "a\r\nSet-Cookie: b", Fault::value_not_writable},
                {"X", "a\nb", Fault::value_not_writable},
                {"X", "a\rb", Fault::value_not_writable},
                {"X", std::string_view("a\0b", 3), Fault::value_not_writable},
                {"X", "a\x7f", Fault::value_not_writable},
                {"", "a", Fault::field_not_writable},
                {"X Y", "a", Fault::field_not_writable},
                {"X:", "a", Fault::field_not_writable},
                {"X\r\nY", "a", Fault::field_not_writable},
                {"Content-Length", "4", Fault::field_not_writable},
                {"content_length", "4", Fault::field_not_writable},
                {"Transfer-Encoding", "chunked", Fault::field_not_writable},
                {"Connection", "close", Fault::field_not_writable},
                {"Keep-Alive", "5", Fault::field_not_writable}};
    for (const auto& row : rows) {
        std::string out = "before";
        HeadWriter writer(out);
        writer.status_line(200).field("A", "b").field(row.name, row.value).field("C", "d");
        EXPECT_EQ(writer.end(Framing::of_length(0)), row.fault) << row.name;
        EXPECT_EQ(out, "before");
    }
}

TEST(HeadWriter, RefusesABadFirstLine) {
    const auto request = [](std::string_view method, std::string_view target, std::string_view host = "a") {
        std::string out;
        HeadWriter writer(out);
        writer.request_line(method, target);
        if (!host.empty()) writer.field("Host", host);
        const Fault fault = writer.end(Framing::none());
        EXPECT_EQ(out.empty(), fault != Fault::none);
        return fault;
    };
    EXPECT_EQ(request("GET", "/"), Fault::none);
    EXPECT_EQ(request("OPTIONS", "*"), Fault::none);
    EXPECT_EQ(request("", "/"), Fault::method_invalid);
    EXPECT_EQ(request("GET /", "/"), Fault::method_invalid);
    EXPECT_EQ(request("GET", "/ HTTP/1.1\r\nX: y"), Fault::bare_cr);
    EXPECT_EQ(request("GET", ""), Fault::target_form);
    EXPECT_EQ(request("GET", "/a b"), Fault::target_invalid);
    EXPECT_EQ(request("GET", "/", ""), Fault::host_missing);
    EXPECT_EQ(request("GET", "/", "a b"), Fault::host_invalid);

    std::string out;
    HeadWriter twice(out);
    twice.request_line("GET", "/").field("Host", "a").field("host", "a");
    EXPECT_EQ(twice.end(Framing::none()), Fault::host_repeated);
    HeadWriter endless(out);
    endless.request_line("GET", "/").field("Host", "a");
    EXPECT_EQ(endless.end(Framing::until_close()), Fault::body_not_allowed);
    HeadWriter low(out);
    EXPECT_EQ(low.status_line(99).end(Framing::none()), Fault::status_line_invalid);
    HeadWriter split(out);
    EXPECT_EQ(split.status_line(200, "OK\r\nX: y").end(Framing::none()), Fault::value_not_writable);
    EXPECT_EQ(out, "");
}

TEST(HeadWriter, AnEmptyChunkWouldEndTheBodyAndIsNotWritten) {
    std::string out;
    write_chunk(out, "");
    EXPECT_EQ(out, "");
    write_chunk(out, std::string(26, 'x'));
    EXPECT_EQ(out, "1a\r\n" + std::string(26, 'x') + "\r\n");
}

// A string of up to `size_max` of the bytes in a class.
rc::Gen<std::string> text_of(CharClass wanted, std::size_t size_min, std::size_t size_max) {
    std::string alphabet;
    for (unsigned c = 0; c < 256; ++c)
        if (is(static_cast<char>(c), wanted)) alphabet.push_back(static_cast<char>(c));
    const auto chars = rc::gen::elementOf(alphabet);
    return rc::gen::mapcat(rc::gen::inRange(size_min, size_max + 1),
                           [chars](std::size_t size) { return rc::gen::container<std::string>(size, chars); });
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

Pairs some_fields() {
    Pairs fields = *rc::gen::container<Pairs>(rc::gen::pair(text_of(token_char, 1, 20), text_of(value_char, 0, 60)));
    std::erase_if(fields, [](const auto& pair) {
        return !goes_on({pair.first, pair.second}, {}) || same_name(pair.first, "host");
    });
    if (fields.size() > 60) fields.resize(60);
    for (auto& pair : fields) pair.second = std::string(trimmed(pair.second));
    return fields;
}

Pairs end_to_end(const Fields& fields) {
    Pairs all;
    for (const Field& field : fields)
        if (goes_on(field, {}) && !same_name(field.name, "host")) all.emplace_back(field.name, field.value);
    return all;
}

// Whatever the writer writes, the reader reads as the same, in pieces of any size.
TEST(HeadWriter, ARequestIsReadAsItWasWritten) {
    EXPECT_TRUE(rc::check([] {
        const std::string method = *rc::gen::element<std::string>("GET", "POST", "PATCH", "DELETE", "purge", "M-X!");
        std::string target = "/" + *text_of(target_char, 0, 60);
        if (Target parts; read_target(target, method_of(method), parts) != Fault::none) target = "/";
        const Pairs fields = some_fields();
        const std::string body = *rc::gen::arbitrary<std::string>();
        const bool chunked = *rc::gen::arbitrary<bool>();

        std::string out;
        HeadWriter writer(out);
        writer.request_line(method, target).field("Host", "a.example:80");
        for (const auto& [name, value] : fields) writer.field(name, value);
        RC_ASSERT(writer.end(chunked ? Framing::chunked() : Framing::of_length(body.size())) == Fault::none);
        const std::size_t half = body.size() / 2;
        if (chunked) {
            write_chunk(out, std::string_view(body).substr(0, half));
            write_chunk(out, std::string_view(body).substr(half));
            out += last_chunk;
        } else {
            out += body;
        }

        const std::size_t piece = *rc::gen::inRange<std::size_t>(1, 40);
        RequestReader reader;
        BodyReader body_reader;
        std::string read_body;
        bool started = false;
        for (std::size_t at = 0; at < out.size(); at += piece) {
            std::string_view bytes = std::string_view(out).substr(at, piece);
            if (!started) {
                const Step step = reader.feed(bytes);
                RC_ASSERT(step.progress != Progress::refused);
                bytes.remove_prefix(step.used);
                started = step.progress == Progress::done;
                if (started) body_reader.start(reader.head().framing);
            }
            while (started && !bytes.empty()) {
                const BodyStep step = body_reader.feed(bytes);
                RC_ASSERT(step.progress != Progress::refused);
                RC_ASSERT(step.used > 0U);
                read_body += step.data;
                bytes.remove_prefix(step.used);
            }
        }
        RC_ASSERT(started);
        RC_ASSERT(body_reader.progress() == Progress::done);
        RC_ASSERT(reader.head().method_text == method);
        RC_ASSERT(reader.head().target_text == target);
        RC_ASSERT(reader.head().host == "a.example:80");
        RC_ASSERT(end_to_end(reader.head().fields) == fields);
        RC_ASSERT(read_body == body);
    }));
}

TEST(HeadWriter, AResponseIsReadAsItWasWritten) {
    EXPECT_TRUE(rc::check([] {
        const int status = *rc::gen::inRange(200, 600);
        const std::string reason(trimmed(*text_of(value_char, 0, 30)));
        const Pairs fields = some_fields();
        const auto length = *rc::gen::inRange<std::uint64_t>(0, INT64_MAX);
        const bool bodiless = status == 204 || status == 304;
        const Framing framing =
            bodiless ? Framing::none()
                     : *rc::gen::element(Framing::chunked(), Framing::until_close(), Framing::of_length(length));
        std::string out;
        HeadWriter writer(out);
        writer.status_line(status, reason);
        for (const auto& [name, value] : fields) writer.field(name, value);
        RC_ASSERT(writer.end(framing) == Fault::none);

        ResponseReader reader(Method::get);
        const Step step = reader.feed(out);
        RC_ASSERT(step.progress == Progress::done);
        RC_ASSERT(step.used == out.size());
        RC_ASSERT(reader.head().status == status);
        RC_ASSERT(reader.head().reason == (reason.empty() ? reason_of(status) : reason));
        RC_ASSERT(reader.head().framing == framing);
        RC_ASSERT(reader.head().keep_alive == (framing.kind != Framing::Kind::until_close));
        Pairs read;
        for (const Field& field : reader.head().fields)
            if (goes_on(field, {})) read.emplace_back(field.name, field.value);
        RC_ASSERT(read == fields);
    }));
}

}  // namespace
}  // namespace semel::http
