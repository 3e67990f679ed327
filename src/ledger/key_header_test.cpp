#include "ledger/key_header.hpp"

#include <gtest/gtest.h>

namespace semel {
namespace {

TEST(KeyHeader, QuotedAndBareNameTheSameKey) {
    const struct {
        std::string_view value, key;
    } rows[] = {{R"("8e03")", "8e03"},        {"8e03", "8e03"},          {"  8e03\t", "8e03"},
                {"\t \"8e03\" ", "8e03"},     {R"(" 8e03 ")", " 8e03 "}, {R"("a,b;c")", "a,b;c"},
                {R"("a\"b\\c")", R"(a"b\c)"}, {R"("\\")", R"(\)"},       {"?1", "?1"},
                {":YWJj:", ":YWJj:"},         {"a=b'c(d)", "a=b'c(d)"},  {"!~", "!~"}};
    for (const auto& row : rows) {
        const auto key = key_from_header(row.value);
        ASSERT_TRUE(key.ok()) << key.failure().message;
        EXPECT_EQ(key->text(), row.key);
    }
}

TEST(KeyHeader, AnythingElseIsRefusedWithTheReason) {
    const struct {
        std::string_view value, why;
    } rows[] = {{"", "empty"},
                {"  \t", "empty"},
                {R"("")", "1 to 255"},
                {R"(")", "closing quote is missing"},
                {R"("abc)", "closing quote is missing"},
                {R"("abc\")", "closing quote is missing"},
                {R"("abc\)", "backslash stands only before"},
                {R"("a\bc")", "backslash stands only before"},
                {R"("abc"x)", "after the closing quote"},
                {R"("abc" x)", "after the closing quote"},
                {R"("abc""def")", "after the closing quote"},
                {R"("abc";v=1)", "parameters"},
                {R"("abc" ;v=1)", "parameters"},
                {R"("abc", "def")", "more than one"},
                {"abc, def", "more than one"},
                {"abc,", "more than one"},
                {"abc;v=1", "parameters"},
                {"abc def", "without quotes"},
                {"ab\"c", "without quotes"},
                {"ab\\c", "without quotes"},
                {"ab\x7f", "without quotes"},
                {"\xc3\xa9", "without quotes"},
                {"a\rb", "without quotes"},
                {"\"\xc3\xa9\"", "printable ASCII"},
                {"\"a\tb\"", "printable ASCII"},
                {std::string_view("a\0b", 3), "without quotes"},
                {std::string_view("\"a\0b\"", 5), "printable ASCII"}};
    for (const auto& row : rows) {
        const auto key = key_from_header(row.value);
        ASSERT_FALSE(key.ok()) << row.value;
        EXPECT_EQ(key.failure().code, Code::invalid);
        EXPECT_NE(key.failure().message.find(row.why), std::string::npos) << key.failure().message;
    }
}

TEST(KeyHeader, TheLimitCountsTheKeyNotItsSpelling) {
    const std::string longest(255, 'k');
    EXPECT_TRUE(key_from_header(longest).ok());
    EXPECT_TRUE(key_from_header('"' + longest + '"').ok());
    EXPECT_FALSE(key_from_header(longest + 'k').ok());
    std::string escaped;
    for (int i = 0; i < 255; ++i) escaped += "\\\"";
    EXPECT_EQ(key_from_header('"' + escaped + '"').value().text(), std::string(255, '"'));
}

TEST(KeyHeader, TheFormatHoldsForBothSpellings) {
    EXPECT_TRUE(key_from_header("018bcfe5-687b-7000-8000-000000000000", KeyFormat::uuidv7).ok());
    EXPECT_TRUE(key_from_header("\"018bcfe5-687b-7000-8000-000000000000\"", KeyFormat::uuidv7).ok());
    EXPECT_FALSE(key_from_header("order-7", KeyFormat::uuid).ok());
    EXPECT_FALSE(key_from_header("\"order-7\"", KeyFormat::uuid).ok());
}

TEST(KeyHeader, IsReadBackAsItWasWritten) {
    for (const char* text : {"k1", "with space", R"(a "quoted" \ one)", "a,b;c"}) {
        const auto key = Key::parse(text);
        ASSERT_TRUE(key);
        const auto again = key_from_header(key_to_header(*key));
        ASSERT_TRUE(again) << text;
        EXPECT_EQ(again->text(), text);
    }
}

}  // namespace
}  // namespace semel
