#include "http/fields.hpp"

#include <gtest/gtest.h>

#include "http/target.hpp"

namespace semel::http {
namespace {

std::vector<std::string> elements(std::string_view value) {
    std::vector<std::string> all;
    for (CommaList list(value); const auto element = list.next();) all.emplace_back(*element);
    return all;
}

TEST(Fields, AreFoundWhateverTheirCase) {
    Fields fields;
    fields.add({"Host", "a"});
    fields.add({"X-One", "1"});
    fields.add({"x-one", "2"});
    fields.add({"Empty", ""});
    EXPECT_EQ(fields.value("HOST"), "a");
    EXPECT_EQ(fields.value("x-ONE"), "1");
    EXPECT_EQ(fields.count("X-ONE"), 2U);
    EXPECT_EQ(fields.value("empty"), "");
    EXPECT_EQ(fields.value("x-on"), std::nullopt);
    EXPECT_EQ(fields.find("x-onee"), nullptr);
}

TEST(Fields, NamesDifferInMoreThanTheBitOfCase) {
    EXPECT_TRUE(same_name("Content-Length", "cONTENT-lENGTH"));
    EXPECT_FALSE(same_name("a^", "a~"));
    EXPECT_FALSE(same_name("x_y", "x-y"));
    EXPECT_TRUE(same_variable("Semel_Token", "semel-token"));
    EXPECT_TRUE(variable_starts_with("SEMEL_Token", "semel-"));
    EXPECT_FALSE(variable_starts_with("semel", "semel-"));
    EXPECT_TRUE(name_starts_with("Proxy-Connection", "proxy-"));
}

TEST(CommaList, SkipsEmptyElementsAndReadsQuotes) {
    using List = std::vector<std::string>;
    EXPECT_EQ(elements(""), List());
    EXPECT_EQ(elements(" , ,\t,"), List());
    EXPECT_EQ(elements("a"), List({"a"}));
    EXPECT_EQ(elements(" a ,b\t,, c d ,"), List({"a", "b", "c d"}));
    EXPECT_EQ(elements(R"("a,b", c;x="d,\",e", f)"), List({R"("a,b")", R"(c;x="d,\",e")", "f"}));
    EXPECT_EQ(elements(R"(a, "open, b)"), List({"a", R"("open, b)"}));
    EXPECT_EQ(elements("\"a\\"), List({"\"a\\"}));
}

TEST(ConnectionOptions, TellFlagsFromNames) {
    ConnectionOptions options;
    EXPECT_EQ(options.add("Keep-Alive, X-Hop", Side::request), Fault::none);
    EXPECT_EQ(options.add("close", Side::request), Fault::none);
    EXPECT_TRUE(options.close());
    EXPECT_TRUE(options.keep_alive());
    EXPECT_TRUE(options.names("x-hop"));
    EXPECT_FALSE(options.names("close"));
    EXPECT_EQ(options.add("a b", Side::request), Fault::connection_invalid);
    EXPECT_EQ(options.add("Cookie", Side::request), Fault::connection_invalid);
    EXPECT_EQ(options.add("content_length", Side::request), Fault::connection_invalid);
    EXPECT_EQ(options.add("Cookie", Side::response), Fault::none);
}

TEST(ConnectionOptions, TakeSixteenNames) {
    ConnectionOptions options;
    for (std::size_t i = 0; i < connection_options_max; ++i)
        EXPECT_EQ(options.add("x" + std::to_string(i), Side::request), Fault::none);
    EXPECT_EQ(options.add("x", Side::request), Fault::connection_invalid);
    EXPECT_EQ(options.add("close", Side::request), Fault::none);
}

TEST(Fields, HopByHopNamesEndHere) {
    for (const auto* name : {"Connection", "keep-alive", "Proxy-Authenticate", "proxy-authorization",
                             "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding", "UPGRADE", "HTTP2-Settings"})
        EXPECT_TRUE(is_hop_by_hop(name)) << name;
    for (const auto* name : {"", "Content-Length", "Proxy", "Test", "Cookie", "Host", "User-Agent", "Keep"})
        EXPECT_FALSE(is_hop_by_hop(name)) << name;
}

TEST(Fields, ValuesAreCheckedAtEveryPlaceOfAWord) {
    for (const char bad : {'\0', '\r', '\n', '\x01', '\x1f', '\x7f'}) {
        for (std::size_t at = 0; at < 20; ++at) {
            std::string value(20, 'a');
            EXPECT_TRUE(is_field_value(value));
            value[at] = bad;
            EXPECT_FALSE(is_field_value(value)) << at;
        }
    }
    for (unsigned c = 0; c < 256; ++c) {
        const bool good = c == '\t' || (c >= 0x20 && c != 0x7f);
        for (const std::size_t size : {1U, 8U, 11U})
            EXPECT_EQ(is_field_value(std::string(size, static_cast<char>(c))), good) << c;
    }
}

TEST(Target, IsSplitAndNotDecoded) {
    const struct {
        std::string_view text;
        TargetForm form;
        std::string_view path, query;
        bool has_query;
    } rows[] = {{"/", TargetForm::origin, "/", "", false},
                {"/a/b", TargetForm::origin, "/a/b", "", false},
                {"/a?", TargetForm::origin, "/a", "", true},
                {"/a%20b?c=%3F?d", TargetForm::origin, "/a%20b", "c=%3F?d", true},
                {"http://h/a?b", TargetForm::absolute, "/a", "b", true},
                {"http://h", TargetForm::absolute, "/", "", false},
                {"http://h?b", TargetForm::absolute, "/", "b", true}};
    for (const auto& row : rows) {
        Target target;
        ASSERT_EQ(read_target(row.text, Method::get, target), Fault::none) << row.text;
        EXPECT_EQ(target.form, row.form);
        EXPECT_EQ(target.path, row.path);
        EXPECT_EQ(target.query, row.query);
        EXPECT_EQ(target.has_query, row.has_query);
    }
    Target target;
    ASSERT_EQ(read_target("http://h", Method::options, target), Fault::none);
    EXPECT_EQ(origin_form(target), "*");
    ASSERT_EQ(read_target("*", Method::options, target), Fault::none);
    EXPECT_EQ(target.form, TargetForm::asterisk);
    ASSERT_EQ(read_target("http://h?x", Method::get, target), Fault::none);
    EXPECT_EQ(origin_form(target), "/?x");
}

TEST(Target, APlainPathHasOneReading) {
    for (const auto* path : {"/", "/a", "/a/", "/a/b.c/..d", "/a%20b", "/%C3%A9", "/...", "*", "/a;v=1", "/a:b@c"})
        EXPECT_TRUE(is_plain_path(path)) << path;
    for (const auto* path : {"", "a", "//", "//a", "/a//b", "/a//", "/.", "/..", "/a/./b", "/a/../b", "/a/..", "/%2e",
                             "/%2E%2e/a", "/.%2e", "/a%2Fb", "/a%5cb", "/%61", "/%", "/a\\b"})
        EXPECT_FALSE(is_plain_path(path)) << path;
}

TEST(Method, IsKnownByItsExactName) {
    EXPECT_EQ(method_of("GET"), Method::get);
    EXPECT_EQ(method_of("PATCH"), Method::patch);
    EXPECT_EQ(method_of("DELETE"), Method::remove);
    EXPECT_EQ(method_of("get"), Method::other);
    EXPECT_EQ(method_of("QUERY"), Method::other);
}

}  // namespace
}  // namespace semel::http
