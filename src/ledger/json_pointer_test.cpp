#include "ledger/json_pointer.hpp"

#include <gtest/gtest.h>

#include "ledger/json_document.hpp"

namespace semel {
namespace {

TEST(JsonPointer, IsReadIntoItsSteps) {
    const struct {
        std::string_view text;
        std::vector<std::string> steps;
    } rows[] = {{"", {}},           {"/", {""}},
                {"/a", {"a"}},      {"/a/b/0", {"a", "b", "0"}},
                {"//", {"", ""}},   {"/a~1b", {"a/b"}},
                {"/m~0n", {"m~n"}}, {"/~01", {"~1"}},
                {"/c%d", {"c%d"}},  {"/h\xc3\xa9", {"h\xc3\xa9"}}};
    for (const auto& row : rows) {
        const auto pointer = JsonPointer::parse(row.text);
        ASSERT_TRUE(pointer.ok()) << pointer.failure().message;
        EXPECT_EQ(pointer->steps(), row.steps) << row.text;
        EXPECT_EQ(pointer->text(), row.text);
    }
}

TEST(JsonPointer, WhatIsNoneIsRefused) {
    for (const std::string_view text : {"a", "#/a", " /a", "/~", "/~2", "/a~", "/\xff"}) {
        const auto pointer = JsonPointer::parse(text);
        ASSERT_FALSE(pointer.ok()) << text;
        EXPECT_EQ(pointer.failure().code, Code::invalid);
    }
    EXPECT_EQ(JsonPointer::parse("client_time").failure().message,
              "JSON pointer \"client_time\": must begin with '/', as in /client_time");
}

// The example of RFC 6901, section 5, and what it leaves out.
TEST(JsonPointer, FindsItsValue) {
    const auto document = JsonDocument::parse(R"({"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,
                                                  "k\"l":6," ":7,"m~n":8,"deep":[[1,[2]],{"x":{"0":"zero"}}]})");
    ASSERT_TRUE(document.has_value());
    const struct {
        std::string_view pointer;
        std::string_view text;  // empty: not there
    } rows[] = {{"/foo/0", "bar"},
                {"/foo/1", "baz"},
                {"/", "0"},
                {"/a~1b", "1"},
                {"/c%d", "2"},
                {"/e^f", "3"},
                {"/g|h", "4"},
                {"/i\\j", "5"},
                {"/k\"l", "6"},
                {"/ ", "7"},
                {"/m~0n", "8"},
                {"/foo/2", ""},
                {"/foo/-", ""},
                {"/foo/00", ""},
                {"/foo/01", ""},
                {"/foo/+1", ""},
                {"/foo/", ""},
                {"/foo/x", ""},
                {"/foo/0/x", ""},
                {"/nope", ""},
                {"/deep/0/1/0", "2"},
                {"/deep/1/x/0", "zero"},
                {"/foo/99999999999999999999", ""}};
    for (const auto& row : rows) {
        const auto found = document->find(JsonPointer::parse(row.pointer).value());
        EXPECT_EQ(found ? document->node(*found).text : "", row.text) << row.pointer;
    }
    EXPECT_EQ(document->find(JsonPointer::parse("").value()), 0u);
}

}  // namespace
}  // namespace semel
