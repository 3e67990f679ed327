#include "base/base64.hpp"

#include <gtest/gtest.h>

namespace semel {
namespace {

TEST(Base64, ReadsWhatItsRfcSays) {
    EXPECT_EQ(from_base64(""), "");
    EXPECT_EQ(from_base64("Zg=="), "f");
    EXPECT_EQ(from_base64("Zm8="), "fo");
    EXPECT_EQ(from_base64("Zm9v"), "foo");
    EXPECT_EQ(from_base64("Zm9vYmFy"), "foobar");
    EXPECT_EQ(from_base64("+/+/"), "\xfb\xff\xbf");
    EXPECT_EQ(from_base64url(""), "");
    EXPECT_EQ(from_base64url("Zg"), "f");
    EXPECT_EQ(from_base64url("Zm8"), "fo");
    EXPECT_EQ(from_base64url("-_-_"), "\xfb\xff\xbf");
}

TEST(Base64, IsReadAsItWasWritten) {
    EXPECT_EQ(to_base64(""), "");
    EXPECT_EQ(to_base64("f"), "Zg==");
    EXPECT_EQ(to_base64("fo"), "Zm8=");
    EXPECT_EQ(to_base64("foobar"), "Zm9vYmFy");
    EXPECT_EQ(to_base64("\xfb\xff\xbf"), "+/+/");
    std::string all;
    for (int i = 0; i < 256; ++i) {
        all.push_back(static_cast<char>(i));
        EXPECT_EQ(from_base64(to_base64(all)), all);
    }
}

TEST(Base64, HasOneSpelling) {
    for (const std::string_view text : {"Zg", "Zg=", "Zg===", "=", "====", "Z===", "Zh==", "Zm9=", "Zm9v\n",
                                        " Zg==", "Zg=a", "Zm-_", "Zm9vZg", "Zm9v====", "Z\xe9=="})
        EXPECT_EQ(from_base64(text), std::nullopt) << text;
    for (const std::string_view text : {"Z", "Zg==", "Zh", "Zm9", "Zm+/", "Zm9v Zg", "Zm9vZ"})
        EXPECT_EQ(from_base64url(text), std::nullopt) << text;
}

}  // namespace
}  // namespace semel
