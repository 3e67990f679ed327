#include "ledger/canonical_json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "ledger/json_document.hpp"

namespace semel {
namespace {

// A value's distance from 1 in powers of ten. An exponent is read up to four times as far, so that digits before or
// after the point can bring it back: every spelling of a number within the limit is understood, and no sum overflows.
constexpr std::int64_t exponent_max = 1'000'000'000'000'000'000;
constexpr std::int64_t exponent_read_max = 4 * exponent_max;

// The digits of an exponent, sign included; empty when it is beyond exponent_read_max.
std::optional<std::int64_t> read_exponent(std::string_view text) {
    if (text.starts_with('+')) text.remove_prefix(1);
    std::int64_t exponent = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (error != std::errc{} || exponent > exponent_read_max || exponent < -exponent_read_max) return std::nullopt;
    return exponent;
}

// A decimal value in its one normal form: 0.digits × 10^point, digits without zeros at either end.
struct Decimal {
    bool negative = false;
    std::string digits;  // empty: zero
    std::int64_t point = 0;
};

std::optional<Decimal> normalised(std::string_view literal) {
    Decimal value;
    value.negative = literal.starts_with('-');
    if (value.negative) literal.remove_prefix(1);
    const std::size_t e = std::min(literal.find_first_of("eE"), literal.size());
    const std::string_view mantissa = literal.substr(0, e);
    const std::size_t dot = std::min(mantissa.find('.'), mantissa.size());
    value.digits = mantissa.substr(0, dot);
    if (dot < mantissa.size()) value.digits += mantissa.substr(dot + 1);
    value.point = static_cast<std::int64_t>(dot);

    const std::size_t zeros = value.digits.find_first_not_of('0');
    if (zeros == std::string::npos) return Decimal{};  // zero, whatever its sign and exponent
    value.digits.erase(0, zeros);
    value.digits.erase(value.digits.find_last_not_of('0') + 1);
    value.point -= static_cast<std::int64_t>(zeros);
    if (e < literal.size()) {
        const auto exponent = read_exponent(literal.substr(e + 1));
        if (!exponent) return std::nullopt;
        value.point += *exponent;
    }
    if (std::abs(value.point) > exponent_max) return std::nullopt;
    return value;
}

// ECMAScript's Number::toString, which RFC 8785 uses, for any number of digits.
void append(std::string& out, const Decimal& value) {
    const std::string& digits = value.digits;
    if (digits.empty()) {
        out += '0';
        return;
    }
    if (value.negative) out += '-';
    const auto count = static_cast<std::int64_t>(digits.size());
    if (value.point > -6 && value.point <= 0) {
        out.append("0.").append(static_cast<std::size_t>(-value.point), '0').append(digits);
    } else if (value.point > 0 && value.point <= 21 && count <= value.point) {
        out.append(digits).append(static_cast<std::size_t>(value.point - count), '0');
    } else if (value.point > 0 && value.point <= 21) {
        const auto whole = static_cast<std::size_t>(value.point);
        out.append(digits, 0, whole).append(".").append(digits, whole);
    } else {
        out += digits[0];
        if (count > 1) out.append(".").append(digits, 1);
        out += fmt::format("e{:+}", value.point - 1);
    }
}

class Writer {
public:
    Writer(const JsonDocument& document, std::vector<JsonDocument::Index> excluded, std::size_t bytes_expected)
        : document_(document), excluded_(std::move(excluded)) {
        out_.reserve(bytes_expected);
    }

    // False: a number has no canonical form.
    bool value(JsonDocument::Index index) {
        const JsonDocument::Node& node = document_.node(index);
        switch (node.kind) {
            case JsonDocument::Kind::literal: out_ += node.text; return true;
            case JsonDocument::Kind::number: return number(node.text);
            case JsonDocument::Kind::string: string(node.text); return true;
            case JsonDocument::Kind::array: return array(index);
            case JsonDocument::Kind::object: return object(node);
        }
        return false;
    }

    bool selected(std::vector<const JsonPointer*> include) {
        const auto text_of = [](const JsonPointer* pointer) -> std::string_view { return pointer->text(); };
        std::ranges::sort(include, utf16_less, text_of);
        const auto alike = [](const JsonPointer* one, const JsonPointer* other) { return *one == *other; };
        include.erase(std::unique(include.begin(), include.end(), alike), include.end());
        out_ += '{';
        for (const JsonPointer* pointer : include) {
            const auto found = document_.find(*pointer);
            if (!found || is_inside_excluded(*found)) continue;
            if (!member(pointer->text(), *found)) return false;
        }
        out_ += '}';
        return true;
    }

    std::string take() { return std::move(out_); }

private:
    bool object(const JsonDocument::Node& node) {
        out_ += '{';
        for (const JsonDocument::Index name : document_.members(node)) {
            if (is_excluded(name + 1)) continue;
            if (!member(document_.node(name).text, name + 1)) return false;
        }
        out_ += '}';
        return true;
    }

    bool member(std::string_view name, JsonDocument::Index at) {
        separate('{');
        string(name);
        out_ += ':';
        return value(at);
    }

    bool array(JsonDocument::Index self) {
        out_ += '[';
        for (auto each = self + 1; each < document_.node(self).end; each = document_.node(each).end) {
            if (is_excluded(each)) continue;
            separate('[');
            if (!value(each)) return false;
        }
        out_ += ']';
        return true;
    }

    // A comma, unless nothing has come since the opening bracket: no value ends in one.
    void separate(char opening) {
        if (out_.back() != opening) out_ += ',';
    }

    bool number(std::string_view literal) {
        // Most numbers are short integers, which are spelled canonically already.
        constexpr std::size_t bytes_max = 20;
        if (literal.size() <= bytes_max && literal != "-0" && literal.find_first_of(".eE") == std::string_view::npos) {
            out_ += literal;
            return true;
        }
        const auto value = normalised(literal);
        if (!value) return false;
        append(out_, *value);
        return true;
    }

    void string(std::string_view text) {
        out_ += '"';
        std::size_t plain = 0;  // where what is copied as it is begins
        for (std::size_t i = 0; i < text.size(); ++i) {
            const auto c = static_cast<unsigned char>(text[i]);
            if (c >= 0x20 && c != '"' && c != '\\') continue;
            out_.append(text, plain, i - plain);
            escape(text[i]);
            plain = i + 1;
        }
        out_.append(text, plain);
        out_ += '"';
    }

    void escape(char c) {
        switch (c) {
            case '"': out_ += "\\\""; break;
            case '\\': out_ += "\\\\"; break;
            case '\b': out_ += "\\b"; break;
            case '\t': out_ += "\\t"; break;
            case '\n': out_ += "\\n"; break;
            case '\f': out_ += "\\f"; break;
            case '\r': out_ += "\\r"; break;
            default: out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        }
    }

    [[nodiscard]] bool is_excluded(JsonDocument::Index index) const {
        return std::ranges::find(excluded_, index) != excluded_.end();
    }
    [[nodiscard]] bool is_inside_excluded(JsonDocument::Index index) const {
        return std::ranges::any_of(excluded_,
                                   [&](auto each) { return each <= index && index < document_.node(each).end; });
    }

    const JsonDocument& document_;
    std::vector<JsonDocument::Index> excluded_;
    std::string out_;
};

}  // namespace

std::optional<std::string> canonical_json(std::string_view text, const JsonSelection& selection) {
    const auto document = JsonDocument::parse(text);
    if (!document) return std::nullopt;
    std::vector<JsonDocument::Index> excluded;
    for (const JsonPointer& pointer : selection.exclude)
        if (const auto found = document->find(pointer)) excluded.push_back(*found);
    const bool nothing_left = std::ranges::find(excluded, JsonDocument::Index{0}) != excluded.end();
    if (nothing_left) return std::string();

    Writer writer(*document, std::move(excluded), text.size());
    std::vector<const JsonPointer*> include;
    for (const JsonPointer& pointer : selection.include) include.push_back(&pointer);
    const bool written = include.empty() ? writer.value(0) : writer.selected(std::move(include));
    if (!written) return std::nullopt;
    return writer.take();
}

std::optional<std::string> canonical_json(const JsonDocument& document, JsonDocument::Index value) {
    Writer writer(document, {}, 0);
    if (!writer.value(value)) return std::nullopt;
    return writer.take();
}

}  // namespace semel
