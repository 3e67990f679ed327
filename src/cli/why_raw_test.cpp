#include "cli/why_raw.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace semel::cli {
namespace {

using testing::HasSubstr;

TEST(WhyRaw, NamesWhatIsWrongWithABody) {
    EXPECT_THAT(why_raw(R"({"a":1,"b":{"x":1,"x":2}})"), HasSubstr("the name \"x\" twice"));
    EXPECT_THAT(why_raw(R"([[{"é":1,"é":2}]])"), HasSubstr("twice"));
    EXPECT_THAT(why_raw(R"({"a":)"), HasSubstr("not valid JSON"));
    EXPECT_THAT(why_raw(""), HasSubstr("not valid JSON"));
    EXPECT_THAT(why_raw("{} {}"), HasSubstr("not valid JSON"));
    EXPECT_THAT(why_raw(std::string(200, '[') + std::string(200, ']')), HasSubstr("deeper than 128"));
    EXPECT_THAT(why_raw(R"("\ud800")"), HasSubstr("lone surrogate"));
    EXPECT_THAT(why_raw("\"\xff\""), HasSubstr("not valid JSON"));
}

}  // namespace
}  // namespace semel::cli
