#include "semel/operation.hpp"

#include <gtest/gtest.h>

#include <unordered_set>

#include "base/bytes.hpp"

namespace semel {
namespace {

Operation operation(std::string tenant, std::string name, std::uint32_t generation, std::string key) {
    return {Scope::make(std::move(tenant), std::move(name), generation).value(), Key::parse(std::move(key)).value()};
}

TEST(Scope, IsWrittenAndReadBack) {
    const struct {
        std::string tenant, name;
        std::uint32_t generation;
        std::string text;
    } rows[] = {{"", "orders", 0, "orders"},
                {"acme", "orders", 0, "acme/orders"},
                {"acme", "orders", 2, "acme/orders#2"},
                {"", "orders", 4294967295, "orders#4294967295"},
                {"acme", "v1/orders", 0, "acme/v1/orders"},
                {"", "v1/orders", 0, "/v1/orders"},
                {"", "/orders", 0, "//orders"},
                {"acme", "/", 1, "acme//#1"},
                {"a:b@c", "POST /v1 {id}", 0, "a:b@c/POST /v1 {id}"}};
    for (const auto& row : rows) {
        const Scope scope = Scope::make(row.tenant, row.name, row.generation).value();
        EXPECT_EQ(scope.text(), row.text);
        const auto read = Scope::parse(row.text);
        ASSERT_TRUE(read.ok()) << read.failure().message;
        EXPECT_EQ(*read, scope) << row.text;
    }
}

TEST(Scope, ReadsSpellingsItDoesNotWrite) {
    EXPECT_EQ(Scope::parse("/orders").value(), Scope::make("", "orders").value());
    EXPECT_EQ(Scope::parse("acme/orders#0").value(), Scope::make("acme", "orders").value());
}

TEST(Scope, WhatCannotBeReadIsRefused) {
    for (const std::string_view text :
         {"", "/", "acme/", "#1", "orders#", "orders#x", "orders#-1", "orders#+1", "orders#01", "orders#4294967296",
          "orders#1#2", "orders# 1", "ac me/orders", "orders\n"}) {
        const auto read = Scope::parse(text);
        ASSERT_FALSE(read.ok()) << text;
        EXPECT_EQ(read.failure().code, Code::invalid);
    }
}

TEST(Scope, HasLimitsOnLengthAndCharacters) {
    const std::string longest(255, 'x');
    EXPECT_TRUE(Scope::make(longest, longest).ok());
    EXPECT_FALSE(Scope::make(longest + "x", "orders").ok());
    EXPECT_FALSE(Scope::make("acme", longest + "x").ok());
    EXPECT_FALSE(Scope::make("acme", "").ok());
    for (const std::string_view bad : {"a/b", "a#b", "a b", "a\x7f", "\xc3\xa9", "a\tb"})
        EXPECT_FALSE(Scope::make(std::string(bad), "orders").ok()) << bad;
    for (const std::string_view bad : {"a#b", "a\x7f", "\xc3\xa9", "a\tb"})
        EXPECT_FALSE(Scope::make("acme", std::string(bad)).ok()) << bad;
    EXPECT_EQ(Scope::make("a/b", "orders").failure().message,
              R"(tenant "a/b": must be at most 255 printable ASCII characters without space, '/' and '#')");
}

TEST(Scope, AnotherGenerationIsAnotherScope) {
    const Scope scope = Scope::make("acme", "orders", 1).value();
    EXPECT_EQ(scope.with_generation(2).text(), "acme/orders#2");
    EXPECT_NE(scope.with_generation(2), scope);
    EXPECT_EQ(scope.with_generation(1), scope);
}

TEST(Key, KeepsTheTextAsGiven) {
    for (const std::string_view text : {"x", " ", "a \"b\" \\", "8E03978E-40d5-43e8-bc93-6894a57f9324"})
        EXPECT_EQ(Key::parse(std::string(text)).value().text(), text);
    EXPECT_TRUE(Key::parse(std::string(255, 'k')).ok());
}

TEST(Key, WhatIsNoKeyIsRefused) {
    for (const std::string& text : {std::string(), std::string(256, 'k'), std::string("a\nb"), std::string("a\0b", 3),
                                    std::string("a\x7f"), std::string("\xc3\xa9")}) {
        const auto read = Key::parse(text);
        ASSERT_FALSE(read.ok());
        EXPECT_EQ(read.failure().code, Code::invalid);
    }
    EXPECT_EQ(Key::parse("a\nb").failure().message,
              R"(key "a\x0ab": must be 1 to 255 printable ASCII characters (0x20 to 0x7E))");
}

TEST(Key, IsCheckedAgainstItsFormat) {
    const struct {
        std::string_view text;
        bool uuid, uuidv7;
    } rows[] = {{"018bcfe5-687b-7000-8000-000000000000", true, true},
                {"018BCFE5-687B-7FFF-BFFF-FFFFFFFFFFFF", true, true},
                {"018bcfe5-687b-7000-A000-000000000000", true, true},
                {"018bcfe5-687b-4000-8000-000000000000", true, false},
                {"018bcfe5-687b-7000-7000-000000000000", true, false},
                {"018bcfe5-687b-7000-c000-000000000000", true, false},
                {"00000000-0000-0000-0000-000000000000", true, false},
                {"018bcfe5687b70008000000000000000", false, false},
                {"{018bcfe5-687b-7000-8000-00000000000}", false, false},
                {"018bcfe5-687b-7000-8000-00000000000", false, false},
                {"018bcfe5-687b-7000-8000-0000000000000", false, false},
                {"018bcfe5-687b-7000-8000-00000000000g", false, false},
                {"018bcfe5+687b-7000-8000-000000000000", false, false},
                {"0-8bcfe5-687b-7000-8000-000000000000", false, false},
                {"order-7", false, false}};
    for (const auto& row : rows) {
        EXPECT_TRUE(Key::parse(std::string(row.text), KeyFormat::any).ok()) << row.text;
        EXPECT_EQ(Key::parse(std::string(row.text), KeyFormat::uuid).ok(), row.uuid) << row.text;
        EXPECT_EQ(Key::parse(std::string(row.text), KeyFormat::uuidv7).ok(), row.uuidv7) << row.text;
    }
}

TEST(Key, TellsTheTimeInsideAVersion7Uuid) {
    const auto time_of = [](std::string text) { return Key::parse(std::move(text)).value().time(); };
    EXPECT_EQ(time_of("018bcfe5-687b-7000-8000-000000000000"), time_from_micros(1'700'000'000'123'000));
    EXPECT_EQ(time_of("018BCFE5-687B-7FFF-BFFF-FFFFFFFFFFFF"), time_from_micros(1'700'000'000'123'000));
    EXPECT_EQ(time_of("00000000-0000-7000-8000-000000000000"), time_from_micros(0));
    EXPECT_EQ(time_of("ffffffff-ffff-7000-8000-000000000000"), time_from_micros(281'474'976'710'655'000));
    EXPECT_EQ(time_of("018bcfe5-687b-4000-8000-000000000000"), std::nullopt);
    EXPECT_EQ(time_of("order-7"), std::nullopt);
}

// docs/formats/keys.md holds the same vectors.
TEST(Operation, HasTheSameIdForEver) {
    const struct {
        Operation operation;
        std::string_view id;
    } rows[] = {
        {operation("", "orders", 0, "k1"), "df11488ede9722d6db449b774a8f88ab"},
        {operation("acme", "orders", 0, "8e03978e-40d5-43e8-bc93-6894a57f9324"), "bf2acf145ce9d160a3ecb62ab474c567"},
        {operation("acme", "orders", 2, "8e03978e-40d5-43e8-bc93-6894a57f9324"), "042e1e6e003f952c6e4e7e064e92bedf"},
        {operation("acme", "POST /v1/charges", 4294967295, "a \"b\" \\"), "cf7921ad4232588ca305b76ff6e2f721"}};
    for (const auto& row : rows) EXPECT_EQ(to_hex(row.operation.id().bytes), row.id) << row.operation.text();
}

TEST(Operation, PartsThatMoveAcrossABorderAreAnotherOperation) {
    std::unordered_set<OperationId> ids;
    const Operation operations[] = {operation("a", "bc", 0, "d"), operation("ab", "c", 0, "d"),
                                    operation("", "abc", 0, "d"), operation("", "a/bc", 0, "d"),
                                    operation("a", "b", 0, "cd"), operation("a", "bc", 1, "d"),
                                    operation("a", "bc", 0, "D")};
    for (const Operation& each : operations) ids.insert(each.id());
    EXPECT_EQ(ids.size(), std::size(operations));
}

TEST(Operation, IsWrittenForPeople) { EXPECT_EQ(operation("acme", "orders", 2, "k1").text(), "acme/orders#2 k1"); }

}  // namespace
}  // namespace semel
