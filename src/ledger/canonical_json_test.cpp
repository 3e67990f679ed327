#include "ledger/canonical_json.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <ostream>

#include "base/random.hpp"
#include "ledger/json_document.hpp"

namespace semel {
namespace {

std::vector<JsonPointer> pointers(const std::vector<std::string_view>& texts) {
    std::vector<JsonPointer> all;
    for (const std::string_view text : texts) all.push_back(JsonPointer::parse(text).value());
    return all;
}

std::string repeated(std::string_view text, std::size_t times) {
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += text;
    return all;
}

// ---- tables ----------------------------------------------------------------------------------------------------

TEST(CanonicalJson, HasOneSpelling) {
    const struct {
        std::string_view text, canonical;
    } rows[] = {{"null", "null"},
                {" true\n", "true"},
                {"\t\r\n false", "false"},
                {"{}", "{}"},
                {" [ ] ", "[]"},
                {R"({"b":1,"a":2})", R"({"a":2,"b":1})"},
                {R"([3,1,2])", "[3,1,2]"},
                {R"({"a":{"d":[{}, [] ],"c":""}})", R"({"a":{"c":"","d":[{},[]]}})"},
                {R"({"":1,"\u0000":2})", R"({"":1,"\u0000":2})"},
                {R"("\u0041\/\"\\\b\f\n\r\t")", R"("A/\"\\\b\f\n\r\t")"},
                {R"("\u001F\u007f\u0080")", "\"\\u001f\x7f\xc2\x80\""},
                {R"("\u00e9\u20AC\uD83D\uDE02")", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x82\""},
                {R"("\uFFFF\u2028")", "\"\xef\xbf\xbf\xe2\x80\xa8\""},
                // RFC 8785, section 3.2.2; its last digit of 333333333.33333329 is kept here.
                {R"({"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
                     "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]})",
                 "{\"literals\":[null,true,false],\"numbers\":[333333333.33333329,1e+30,4.5,0.002,1e-27],"
                 "\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"},
                // RFC 8785, section 3.2.3: UTF-16 order puts the emoji before U+FB33.
                {R"({"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7})",
                 "{\"\\r\":2,\"1\":4,\"\xc2\x80\":6,\"\xc3\xb6\":7,\"\xe2\x82\xac\":1,\"\xf0\x9f\x98\x80\":5,"
                 "\"\xef\xac\xb3\":3}"}};
    for (const auto& row : rows) EXPECT_EQ(canonical_json(row.text), row.canonical) << row.text;
}

TEST(CanonicalJson, EqualNumbersAreSpelledAlike) {
    const struct {
        std::string canonical;
        std::vector<std::string> spellings;
    } rows[] = {
        {"0", {"0", "-0", "0.0", "-0.000", "0e5", "0E-99999999999999999999999", "-0.0e+99999999999999999999999"}},
        {"1",
         {"1", "1.0", "1e0", "10e-1", "1E+0", "0.1e1", "0.001e3", "1000e-3", "1.000e-0", "1e000000000000000000000"}},
        {"-1.5", {"-1.5", "-15e-1", "-1.50", "-0.15e1", "-150E-2"}},
        {"100", {"100", "1e2", "100.00", "1.0E+2", "0.1e3"}},
        {"100000000000000000000", {"100000000000000000000", "1e20"}},
        {"1e+21", {"1000000000000000000000", "1e21", "1E+21", "0.1e22"}},
        {"123456789012345678901", {"123456789012345678901", "1.23456789012345678901e20"}},
        {"1.234567890123456789012e+21", {"1234567890123456789012", "1234567890123456789012.0"}},
        {"12345678901234567890.12345", {"12345678901234567890.12345", "1234567890123456789012345e-5"}},
        {"0.000001", {"0.000001", "1e-6", "0.1e-5"}},
        {"1e-7", {"0.0000001", "1e-7", "10e-8"}},
        {"1.5e-7", {"0.00000015", "15e-8"}},
        {"9007199254740993", {"9007199254740993", "9007199254740993.0", "9.007199254740993e15"}},
        {"1e+999999999999", {"1e999999999999", "10e999999999998", "0.1e1000000000000"}},
        {"1e-999999999999", {"1e-999999999999", "0.1e-999999999998"}},
        {"1e+999999999999999999", {"1e999999999999999999", "0.0001e1000000000000000003", "1000e999999999999999996"}},
        {"1e-1000000000000000001", {"1e-1000000000000000001", "10000e-1000000000000000005"}},
        {"1e+400", {"1e400", "1" + repeated("0", 400), "0.01e402"}},
        {"1e-400", {"1e-400", "0." + repeated("0", 399) + "1"}}};
    for (const auto& row : rows)
        for (const std::string& spelling : row.spellings)
            EXPECT_EQ(canonical_json(spelling), row.canonical) << spelling;
}

TEST(CanonicalJson, DifferentNumbersAreSpelledDifferently) {
    const std::pair<std::string_view, std::string_view> rows[] = {{"9007199254740993", "9007199254740992"},
                                                                  {"1", "-1"},
                                                                  {"0.1", "0.1000000000000000055511151231257827"},
                                                                  {"1e400", "1e401"},
                                                                  {"1e-400", "0"},
                                                                  {"1e-400", "1e-401"},
                                                                  {"18446744073709551616", "18446744073709551617"},
                                                                  {"1", "\"1\""},
                                                                  {"0", "null"}};
    for (const auto& [one, other] : rows) {
        ASSERT_TRUE(canonical_json(one) && canonical_json(other));
        EXPECT_NE(canonical_json(one), canonical_json(other)) << one << " and " << other;
    }
}

TEST(CanonicalJson, NumbersOutOfAllProportionHaveNone) {
    for (const std::string& text : {std::string("1e1000000000000000000"), std::string("1e9223372036854775807"),
                                    std::string("1e-9223372036854775808"), std::string("1e99999999999999999999"),
                                    std::string("[1e-99999999999999999999]"), "1e" + repeated("9", 100'000)})
        EXPECT_EQ(canonical_json(text), std::nullopt) << text.substr(0, 40);
}

TEST(CanonicalJson, WhatIsNotStrictlyJsonHasNone) {
    const std::string_view rows[] = {
        "", " ", "nul", "nulll", "True", "TRUE", "'a'", "a", "NaN", "Infinity", "-", "+1", ".5", "1.", "1.e1", "01",
        "-01", "1e", "1e+", "0x1", "1_000", "1 2", "--1", "1e1.5", "1E", "-a", "00", "[", "]", "[1", "[1,", "[1,]",
        "[,1]", "[1 2]", "[1}", "{", "}", "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{,}", "{a:1}",
        "{1:1}", "{\"a\" 1}", "{\"a\"::1}", "{\"a\":1 \"b\":2}", "{'a':1}", "\"", "\"a", "\"\\", "\"\\\"", "\"\\x\"",
        "\"\\u\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\u-123\"", "\"\\u+123\"", "\"\\u 123\"", "\"\\U0041\"", "\"a\nb\"",
        "\"a\tb\"", "\"\x1f\"", "// x\n1", "/**/1", "1 //", "\f1", "\v1", "1;", "[1]x", "{}{}", "\xef\xbb\xbf{}",
        "\xc2\xa0{}",
        // Lone or reversed surrogates.
        "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800x\"", "\"\\ud800\\n\"", "\"\\ud800\\ud800\"", "\"\\ud800\\u0041\"",
        "\"\\ude02\\ud83d\"", "{\"\\ud800\":1}", "\"\\ud800",
        // Invalid UTF-8: stray, cut, overlong, surrogate, beyond U+10FFFF.
        "\"\x80\"", "\"\xc3\"", "\"\xe2\x82\"", "\"\xc0\xaf\"", "\"\xe0\x80\x80\"", "\"\xed\xa0\x80\"",
        "\"\xf4\x90\x80\x80\"", "\"\xff\"", "{\"\xff\":1}",
        // Names that are equal once they are unescaped.
        "{\"a\":1,\"a\":1}", "{\"a\":1,\"\\u0061\":2}", "{\"b\":0,\"a\":1,\"b\":0}", "[{\"x\":{\"\":1,\"\":2}}]"};
    for (const std::string_view text : rows) EXPECT_EQ(canonical_json(text), std::nullopt) << text;
    for (const std::string_view text : {std::string_view("\0", 1), std::string_view("1\0", 2),
                                        std::string_view("\"\0\"", 3), std::string_view("[1\0]", 4)})
        EXPECT_EQ(canonical_json(text), std::nullopt);
}

TEST(CanonicalJson, EveryCutOfADocumentHasNone) {
    const std::string_view text = R"({"a":[1.5e-3,"x\ud83d\ude02\n",true,null],"b":{"c":false}})";
    ASSERT_TRUE(canonical_json(text).has_value());
    for (std::size_t size = 0; size < text.size(); ++size)
        EXPECT_EQ(canonical_json(text.substr(0, size)), std::nullopt) << text.substr(0, size);
}

TEST(CanonicalJson, SameNameInDifferentObjectsIsFine) {
    EXPECT_EQ(canonical_json(R"({"a":{"a":{"a":1}},"b":{"a":2}})"), R"({"a":{"a":{"a":1}},"b":{"a":2}})");
    EXPECT_EQ(canonical_json(R"([{"a":1},{"a":1}])"), R"([{"a":1},{"a":1}])");
}

TEST(CanonicalJson, NestingHasALimit) {
    const auto nested = [](std::size_t depth) { return repeated("[", depth) + repeated("]", depth); };
    EXPECT_EQ(canonical_json(nested(JsonDocument::depth_max)), nested(JsonDocument::depth_max));
    EXPECT_EQ(canonical_json(nested(JsonDocument::depth_max + 1)), std::nullopt);
    const auto objects = [](std::size_t depth) { return repeated("{\"a\":", depth) + "1" + repeated("}", depth); };
    EXPECT_TRUE(canonical_json(objects(JsonDocument::depth_max)).has_value());
    EXPECT_EQ(canonical_json(objects(JsonDocument::depth_max + 1)), std::nullopt);
}

// Each would take minutes, or all memory, if any step were quadratic or a number were written out.
TEST(CanonicalJson, HostileTextsCostLittle) {
    constexpr std::size_t size = 1'000'000;
    std::string same_prefix = "{";
    for (int i = 0; i < 1'000; ++i) same_prefix += '"' + repeated("x", 1'000) + std::to_string(999 - i) + "\":0,";
    same_prefix += "\"\":0}";
    std::string falling = "{";
    for (int i = 100'000; i > 0; --i) falling += '"' + std::to_string(i + 1'000'000) + "\":0,";
    falling += "\"\":0}";
    const struct {
        std::string text;
        bool canonical;
    } rows[] = {{repeated("[", size), false},
                {repeated("{\"a\":", size / 5), false},
                {repeated("[", 128) + "1" + repeated(",1", size / 2) + repeated("]", 128), true},
                {repeated("9", size), true},
                {"0." + repeated("0", size) + "1e" + repeated("0", size), true},
                {"[1e999999999999999999" + repeated(",1e999999999999999999", size / 20) + "]", true},
                {'"' + repeated("\\u0000", size / 6) + '"', true},
                {'"' + repeated("\\ud83d\\ude02", size / 12), false},
                {repeated(" ", size), false},
                {same_prefix, true},
                {falling, true}};
    const auto start = std::chrono::steady_clock::now();
    for (const auto& row : rows)
        EXPECT_EQ(canonical_json(row.text).has_value(), row.canonical) << row.text.substr(0, 20);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds{20});
}

TEST(CanonicalJson, PartsCanBeLeftOutOrPickedOut) {
    const std::string_view text = R"({"id":"e1","at":7,"items":[{"sku":"a","t":1},{"sku":"b","t":2}],"a/b":{"~":1}})";
    const struct {
        std::vector<std::string_view> include, exclude;
        std::optional<std::string> canonical;
    } rows[] = {
        {{}, {"/at", "/items", "/a~1b/~0"}, R"({"a/b":{},"id":"e1"})"},
        {{}, {"/items/0", "/items/1", "/a~1b", "/nope/x", "/items/9"}, R"({"at":7,"id":"e1","items":[]})"},
        {{}, {"/items/0", "/a~1b", "/at"}, R"({"id":"e1","items":[{"sku":"b","t":2}]})"},
        {{}, {"/items/0/t", "/items/1/t", "/a~1b", "/at"}, R"({"id":"e1","items":[{"sku":"a"},{"sku":"b"}]})"},
        {{}, {""}, ""},
        {{"/id"}, {}, R"({"/id":"e1"})"},
        {{"/items/1", "/id", "/nope", "/id"}, {}, R"({"/id":"e1","/items/1":{"sku":"b","t":2}})"},
        {{"/items"}, {"/items/0/t", "/items/1"}, R"({"/items":[{"sku":"a"}]})"},
        {{"/items/0/sku", "/at"}, {"/items"}, R"({"/at":7})"},
        {{"/nope"}, {}, "{}"},
        {{"/a~1b"}, {}, R"({"/a~1b":{"~":1}})"},
        {{""}, {"/at", "/items", "/a~1b"}, R"({"":{"id":"e1"}})"},
    };
    for (const auto& row : rows)
        EXPECT_EQ(canonical_json(text, {.include = pointers(row.include), .exclude = pointers(row.exclude)}),
                  row.canonical);
}

TEST(CanonicalJson, PartsThatAreLeftOutMustStillBeJson) {
    const JsonSelection without_a{.exclude = pointers({"/a"})};
    EXPECT_EQ(canonical_json(R"({"a":{"x":1,"x":2},"b":1})", without_a), std::nullopt);
    EXPECT_EQ(canonical_json(R"({"a":1e99999999999999999999,"b":1})", without_a), R"({"b":1})");
}

TEST(CanonicalJson, NamesAreOrderedByUtf16CodeUnits) {
    const std::string_view ordered[] = {"",
                                        "\x01",
                                        "a",
                                        "aa",
                                        "b",
                                        "\x7f",
                                        "\xc2\x80",
                                        "\xdf\xbf",
                                        "\xe0\xa0\x80",
                                        "\xed\x9f\xbf",
                                        "\xf0\x90\x80\x80",
                                        "\xf0\x90\x80\x81",
                                        "\xf4\x8f\xbf\xbf",
                                        "\xee\x80\x80",
                                        "\xef\xbf\xbf"};
    for (std::size_t i = 0; i < std::size(ordered); ++i)
        for (std::size_t j = 0; j < std::size(ordered); ++j)
            EXPECT_EQ(utf16_less(ordered[i], ordered[j]), i < j) << i << " " << j;
}

// ---- properties ------------------------------------------------------------------------------------------------

// A JSON value without any spelling.
struct Model {
    enum class Kind { null, boolean, number, string, array, object } kind = Kind::null;
    bool truth = false;        // boolean; number: is negative
    std::uint64_t digits = 0;  // number: digits × 10^exponent
    int exponent = 0;
    std::u32string text;                // string
    std::vector<Model> items;           // array; object: the values
    std::vector<std::u32string> names;  // object: different ones
};

char32_t random_char(Random& random) {
    switch (random.below(6)) {
        case 0: return static_cast<char32_t>(random.below(0x20));
        case 1: return U"\"\\/'<"[random.below(5)];
        case 2: return static_cast<char32_t>(0xe000 + random.below(0x2000));
        case 3: return static_cast<char32_t>(0x10000 + random.below(0x100000));
        case 4: return static_cast<char32_t>(0x7f + random.below(0xd800 - 0x7f));
        default: return static_cast<char32_t>('a' + random.below(3));
    }
}

std::u32string random_text(Random& random) {
    std::u32string text;
    for (std::uint64_t left = random.below(5); left > 0; --left) text.push_back(random_char(random));
    return text;
}

Model random_model(Random& random, int depth) {
    Model model;
    model.kind = static_cast<Model::Kind>(random.below(depth > 0 ? 6 : 4));
    model.truth = random.below(2) == 0;
    switch (model.kind) {
        case Model::Kind::null:
        case Model::Kind::boolean: break;
        case Model::Kind::number:
            model.digits = random.bits() >> random.below(64);
            model.exponent = static_cast<int>(random.below(60)) - 30;
            break;
        case Model::Kind::string: model.text = random_text(random); break;
        case Model::Kind::array:
        case Model::Kind::object:
            for (std::uint64_t left = random.below(5); left > 0; --left) {
                const std::u32string name = random_text(random);
                if (std::ranges::find(model.names, name) != model.names.end()) continue;
                model.names.push_back(name);
                model.items.push_back(random_model(random, depth - 1));
            }
            break;
    }
    return model;
}

// Writes a model in one of its many spellings.
class Speller {
public:
    explicit Speller(Random& random) : random_(random) {}

    std::string spell(const Model& model) {
        space();
        switch (model.kind) {
            case Model::Kind::null: out_ += "null"; break;
            case Model::Kind::boolean: out_ += model.truth ? "true" : "false"; break;
            case Model::Kind::number: number(model); break;
            case Model::Kind::string: string(model.text); break;
            case Model::Kind::array: array(model); break;
            case Model::Kind::object: object(model); break;
        }
        space();
        return out_;
    }

private:
    void space() {
        while (random_.below(4) == 0) out_ += " \t\r\n"[random_.below(4)];
    }

    void array(const Model& model) {
        out_ += '[';
        space();
        for (std::size_t i = 0; i < model.items.size(); ++i) {
            if (i > 0) out_ += ',';
            spell(model.items[i]);
        }
        out_ += ']';
    }

    void object(const Model& model) {
        std::vector<std::size_t> order(model.items.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
        out_ += '{';
        space();
        for (std::size_t i = 0; i < order.size(); ++i) {
            if (i > 0) out_ += ',';
            space();
            string(model.names[order[i]]);
            space();
            out_ += ':';
            spell(model.items[order[i]]);
        }
        out_ += '}';
    }

    // digits × 10^exponent with a point anywhere, zeros at both ends, and the exponent that makes up for it.
    void number(const Model& model) {
        if (model.truth) out_ += '-';
        std::string digits = std::to_string(model.digits);
        int exponent = model.exponent;
        for (auto more = static_cast<int>(random_.below(4)); more > 0; --more, --exponent) digits += '0';
        std::string whole = digits;
        std::string fraction;
        if (random_.below(2) == 0) {
            const auto split = static_cast<std::size_t>(random_.below(digits.size() + 1));
            whole = digits.substr(0, split);
            fraction = repeated("0", whole.empty() ? random_.below(3) : 0) + digits.substr(split);
            exponent += static_cast<int>(fraction.size());
        }
        whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
        out_ += whole.empty() ? "0" : whole;
        if (!fraction.empty()) out_ += '.' + fraction;
        if (exponent == 0 && random_.below(2) == 0) return;
        out_ += random_.below(2) == 0 ? 'e' : 'E';
        if (exponent >= 0 && random_.below(2) == 0) out_ += '+';
        if (exponent < 0) out_ += '-';
        out_ += repeated("0", random_.below(3)) + std::to_string(std::abs(exponent));
    }

    void string(const std::u32string& text) {
        out_ += '"';
        for (const char32_t c : text) character(c);
        out_ += '"';
    }

    void character(char32_t c) {
        static constexpr std::string_view named = "\"\\/\b\f\n\r\t";
        const auto name = c < 0x80 ? named.find(static_cast<char>(c)) : std::string_view::npos;
        const bool must_escape = c < 0x20 || c == '"' || c == '\\';
        if (name != std::string_view::npos && random_.below(2) == 0) {
            out_ += '\\';
            out_ += "\"\\/bfnrt"[name];
        } else if (must_escape || random_.below(3) == 0) {
            if (c >= 0x10000) {
                unit(0xd800 + ((c - 0x10000) >> 10));
                unit(0xdc00 + ((c - 0x10000) & 0x3ff));
            } else {
                unit(c);
            }
        } else {
            utf8(c);
        }
    }

    void unit(char32_t code_unit) {
        out_ += "\\u";
        const char* const digits = random_.below(2) == 0 ? "0123456789abcdef" : "0123456789ABCDEF";
        for (int shift = 12; shift >= 0; shift -= 4) out_ += digits[code_unit >> shift & 15];
    }

    void utf8(char32_t c) {
        const auto push = [this](char32_t byte) { out_ += static_cast<char>(byte); };
        if (c < 0x80) return push(c);
        if (c < 0x800) {
            push(0xc0 | c >> 6);
        } else {
            if (c < 0x10000) {
                push(0xe0 | c >> 12);
            } else {
                push(0xf0 | c >> 18);
                push(0x80 | (c >> 12 & 0x3f));
            }
            push(0x80 | (c >> 6 & 0x3f));
        }
        push(0x80 | (c & 0x3f));
    }

    Random& random_;
    std::string out_;
};

std::string spell(const Model& model, std::uint64_t seed) {
    SeededRandom random(seed);
    return Speller(random).spell(model);
}

// Changes one value somewhere in the model to another one.
void change_one(Model& model, Random& random) {
    if (!model.items.empty() && random.below(4) != 0)
        return change_one(model.items[random.below(model.items.size())], random);
    switch (model.kind) {
        case Model::Kind::null: model.kind = Model::Kind::boolean; return;
        case Model::Kind::boolean: model.truth = !model.truth; return;
        case Model::Kind::number:
            if (model.digits != 0 && random.below(2) == 0) {
                model.truth = !model.truth;
            } else {
                model.digits += model.digits == ~0ull ? -1ull : 1ull;
            }
            return;
        case Model::Kind::string: model.text.insert(random.below(model.text.size() + 1), 1, U'z'); return;
        case Model::Kind::array: model.items.push_back({}); return;
        case Model::Kind::object:
            model.items.push_back({});
            model.names.push_back(U"a name that no random text is");
            return;
    }
}

Model model_of(std::uint64_t seed) {
    SeededRandom random(seed);
    return random_model(random, 4);
}

// RapidCheck prints the seeds of a failure; they are not shrunk, since a smaller seed is not a smaller value.
void check(const std::string& what, void (*property)(std::uint64_t model, std::uint64_t spelling)) {
    constexpr std::uint64_t values_per_case = 50;
    const auto seed = rc::gen::noShrink(rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
    EXPECT_TRUE(rc::check(what, [&] {
        const std::uint64_t model = *seed;
        const std::uint64_t spelling = *seed;
        for (std::uint64_t i = 0; i < values_per_case; ++i) property(model + i, spelling + i);
    }));
}

TEST(CanonicalJsonProperty, TheSpellingMakesNoDifference) {
    check("two spellings of one value have one canonical form", [](std::uint64_t model, std::uint64_t spelling) {
        const Model value = model_of(model);
        const std::string one = spell(value, spelling);
        const std::string other = spell(value, spelling + 1);
        RC_LOG() << one << "\n" << other << "\n";
        const auto canonical = canonical_json(one);
        RC_ASSERT(canonical.has_value());
        RC_ASSERT(canonical == canonical_json(other));
    });
}

TEST(CanonicalJsonProperty, AnotherValueMakesADifference) {
    check("a changed value has another canonical form", [](std::uint64_t model, std::uint64_t spelling) {
        const Model value = model_of(model);
        Model changed = value;
        SeededRandom random(spelling);
        change_one(changed, random);
        const std::string one = spell(value, spelling);
        const std::string other = spell(changed, spelling);
        RC_LOG() << one << "\n" << other << "\n";
        RC_ASSERT(canonical_json(other).has_value());
        RC_ASSERT(canonical_json(one) != canonical_json(other));
    });
}

TEST(CanonicalJsonProperty, TheCanonicalFormIsItsOwn) {
    check("the canonical form of a canonical form is itself", [](std::uint64_t model, std::uint64_t spelling) {
        const auto canonical = canonical_json(spell(model_of(model), spelling));
        RC_ASSERT(canonical.has_value());
        RC_ASSERT(canonical_json(*canonical) == canonical);
    });
}

TEST(CanonicalJsonProperty, DamagedTextNeverCrashesAndWhatIsAcceptedIsStable) {
    check("a text with a damaged byte has a stable canonical form or none",
          [](std::uint64_t model, std::uint64_t spelling) {
              std::string text = spell(model_of(model), spelling);
              SeededRandom random(spelling);
              text[random.below(text.size())] = static_cast<char>(random.below(256));
              const auto canonical = canonical_json(text);
              if (canonical) RC_ASSERT(canonical_json(*canonical) == canonical);
          });
}

}  // namespace
}  // namespace semel
