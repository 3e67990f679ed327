#include "base/quote.hpp"

#include <gtest/gtest.h>

namespace semel {
namespace {

TEST(InQuotes, ShowsAnyInputAsOneLineOfPrintableAscii) {
    EXPECT_EQ(in_quotes("abc d"), R"("abc d")");
    EXPECT_EQ(in_quotes(""), R"("")");
    EXPECT_EQ(in_quotes("a\"b\\"), R"("a\"b\\")");
    EXPECT_EQ(in_quotes(std::string_view("\n\0\x7f\xff", 4)), R"("\x0a\x00\x7f\xff")");
}

TEST(InQuotes, CutsLongInputAndSaysHowLongItWas) {
    EXPECT_EQ(in_quotes(std::string(64, 'x')), '"' + std::string(64, 'x') + '"');
    EXPECT_EQ(in_quotes(std::string(1000, 'x')), '"' + std::string(64, 'x') + "\"... (1000 bytes)");
}

}  // namespace
}  // namespace semel
