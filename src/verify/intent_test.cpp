#include "verify/intent.hpp"

#include <gtest/gtest.h>

namespace semel::verify {
namespace {

TEST(VerifyIntent, HasAKeyOfItsFormat) {
    EXPECT_TRUE(Key::parse(make_intent(1, KeyFormat::uuid).key, KeyFormat::uuid));
    EXPECT_TRUE(Key::parse(make_intent(1, KeyFormat::uuidv7).key, KeyFormat::uuidv7));
    EXPECT_TRUE(make_intent(1, KeyFormat::any).key.starts_with("verify-"));
    EXPECT_NE(make_intent(1, KeyFormat::uuid).key, make_intent(1, KeyFormat::uuid).key);
}

TEST(VerifyIntent, FillsInTheSameTextEachTime) {
    const Intent intent{.key = "K", .uuid = "U", .number = 7};
    EXPECT_EQ(fill_in(R"({"id":"{{uuid}}","n":{{n}},"k":"{{key}}","again":"{{uuid}}"})", intent),
              R"({"id":"U","n":7,"k":"K","again":"U"})");
    EXPECT_EQ(fill_in("{{{{n}}}}", intent), "{{7}}");
    EXPECT_EQ(fill_in("{{other}} {{ {{n", intent), "{{other}} {{ {{n");
    EXPECT_EQ(fill_in("", intent), "");
    EXPECT_TRUE(has_placeholder("a{{n}}"));
    EXPECT_FALSE(has_placeholder("a{{m}} {n}"));
}

TEST(VerifyIntent, RefusesWordsThatAreNoPlaceholders) {
    EXPECT_TRUE(check_placeholders("--data", R"({"a":{"b":{"c":1}},"d":"{{uuid}}"})"));
    const auto refused = check_placeholders("--data", R"({"a":"{{uid}}"})");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.failure().message.find("--data"), std::string::npos);
    EXPECT_NE(refused.failure().message.find("{{uid}}"), std::string::npos);
}

TEST(VerifyIntent, MakesAnotherBodyByOneNumber) {
    struct Row {
        std::string_view type, body;
        std::optional<std::string> other;
    };
    const std::string_view json = "application/json; charset=utf-8";
    const std::string_view form = "application/x-www-form-urlencoded";
    for (const Row& row : {
             Row{json, R"({"a":"x","amount": 1000})", R"({"a":"x","amount": 1001})"},
             Row{json, R"({"amount":99})", R"({"amount":100})"},
             Row{json, R"({"a":[true,{"b":10.50}]})", R"({"a":[true,{"b":11.50}]})"},
             Row{json, R"({"a":-5,"b":2})", R"({"a":-5,"b":3})"},
             Row{json, R"({"a":"9"})", std::nullopt},
             Row{json, R"(not json 5)", std::nullopt},
             Row{json, "", std::nullopt},
             Row{form, "currency=eur&amount=1999", "currency=eur&amount=2000"},
             Row{form, "zip=01234&n=1", "zip=01234&n=2"},
             Row{form, "currency=eur", std::nullopt},
         })
        EXPECT_EQ(another_body(row.body, row.type), row.other) << row.body;
}

}  // namespace
}  // namespace semel::verify
