#include "ledger/json_document.hpp"

#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <limits>

namespace semel {

namespace {
bool is_digit(char c) { return c >= '0' && c <= '9'; }
}  // namespace

// Every function reads one thing at at_ and says whether it was there.
class JsonReader {
public:
    explicit JsonReader(std::string_view text) : text_(text) {
        document_.nodes_.reserve(text.size() / bytes_per_node + 1);
    }

    bool document() {
        if (!value(0)) return false;
        skip_space();
        return at_ == text_.size();
    }
    JsonDocument take() { return std::move(document_); }

private:
    using Index = JsonDocument::Index;
    using Kind = JsonDocument::Kind;
    static constexpr std::size_t bytes_per_node = 8;  // of ordinary text; more nodes than that are found room for

    bool value(std::size_t depth) {
        skip_space();
        switch (peek()) {
            case '{': return depth < JsonDocument::depth_max && object(depth + 1);
            case '[': return depth < JsonDocument::depth_max && array(depth + 1);
            case '"': return string();
            case 't': return literal("true");
            case 'f': return literal("false");
            case 'n': return literal("null");
            default: return number();
        }
    }

    bool object(std::size_t depth) {
        const Index self = open(Kind::object);
        const std::size_t outer = names_.size();
        if (!eat_after_space('}')) {
            do {
                skip_space();
                names_.push_back(next_index());
                if (peek() != '"' || !string() || !eat_after_space(':') || !value(depth)) return false;
            } while (eat_after_space(','));
            if (!eat_after_space('}')) return false;
        }
        return close_object(self, outer);
    }

    // names_ from `outer` on are this object's; they move, sorted, to the document.
    bool close_object(Index self, std::size_t outer) {
        const auto text_of = [this](Index name) { return document_.nodes_[name].text; };
        const auto first = names_.begin() + static_cast<std::ptrdiff_t>(outer);
        if (!std::ranges::is_sorted(first, names_.end(), utf16_less, text_of))
            std::ranges::sort(first, names_.end(), utf16_less, text_of);
        if (std::ranges::adjacent_find(first, names_.end(), {}, text_of) != names_.end()) return false;
        auto& members = document_.members_;
        auto& node = document_.nodes_[self];
        node.members = static_cast<Index>(members.size());
        node.count = static_cast<Index>(names_.end() - first);
        node.end = next_index();
        members.insert(members.end(), first, names_.end());
        names_.erase(first, names_.end());
        return true;
    }

    bool array(std::size_t depth) {
        const Index self = open(Kind::array);
        Index count = 0;
        if (!eat_after_space(']')) {
            do {
                if (!value(depth)) return false;
                ++count;
            } while (eat_after_space(','));
            if (!eat_after_space(']')) return false;
        }
        document_.nodes_[self].count = count;
        document_.nodes_[self].end = next_index();
        return true;
    }

    bool literal(std::string_view word) {
        if (!text_.substr(at_).starts_with(word)) return false;
        at_ += word.size();
        add(Kind::literal, word);
        return true;
    }

    bool number() {
        const std::size_t begin = at_;
        eat('-');
        if (!eat('0') && !digits()) return false;
        if (eat('.') && !digits()) return false;
        if (eat('e') || eat('E')) {
            if (!eat('+')) eat('-');
            if (!digits()) return false;
        }
        add(Kind::number, text_.substr(begin, at_ - begin));
        return true;
    }

    bool digits() {
        const std::size_t begin = at_;
        while (is_digit(peek())) ++at_;
        return at_ > begin;
    }

    bool string() {
        const std::size_t begin = ++at_;
        skip_plain();
        if (eat('"')) {
            add(Kind::string, text_.substr(begin, at_ - 1 - begin));
            return true;
        }
        auto& out = document_.unescaped_;
        out.reserve(text_.size());  // no escape is shorter than what it stands for
        const std::size_t begin_out = out.size();
        for (std::size_t plain = begin;; plain = at_) {
            skip_plain();
            out.insert(out.end(), text_.begin() + static_cast<std::ptrdiff_t>(plain),
                       text_.begin() + static_cast<std::ptrdiff_t>(at_));
            if (eat('"')) break;
            if (!eat('\\') || !escape(out)) return false;
        }
        add(Kind::string, {out.data() + begin_out, out.size() - begin_out});
        return true;
    }

    // Stops at a quote, a backslash, a control character or the end.
    void skip_plain() {
        while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
               static_cast<unsigned char>(text_[at_]) >= 0x20)
            ++at_;
    }

    bool escape(std::vector<char>& out) {
        const char c = peek();
        ++at_;
        switch (c) {
            case '"':
            case '\\':
            case '/': out.push_back(c); return true;
            case 'b': out.push_back('\b'); return true;
            case 'f': out.push_back('\f'); return true;
            case 'n': out.push_back('\n'); return true;
            case 'r': out.push_back('\r'); return true;
            case 't': out.push_back('\t'); return true;
            case 'u': return unicode_escape(out);
            default: return false;
        }
    }

    bool unicode_escape(std::vector<char>& out) {
        auto code = hex4();
        if (!code) return false;
        if (*code >= 0xdc00 && *code <= 0xdfff) return false;
        if (*code >= 0xd800 && *code <= 0xdbff) {
            if (!eat('\\') || !eat('u')) return false;
            const auto low = hex4();
            if (!low || *low < 0xdc00 || *low > 0xdfff) return false;
            code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
        }
        append_utf8(out, *code);
        return true;
    }

    std::optional<std::uint32_t> hex4() {
        if (text_.size() - at_ < 4) return std::nullopt;
        std::uint32_t code = 0;
        const char* const first = text_.data() + at_;
        const auto [rest, error] = std::from_chars(first, first + 4, code, 16);
        if (error != std::errc{} || rest != first + 4) return std::nullopt;
        at_ += 4;
        return code;
    }

    static void append_utf8(std::vector<char>& out, std::uint32_t code) {
        const auto push = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
        const auto push_tail = [&](int shift) { push(0x80 | (code >> shift & 0x3f)); };
        if (code < 0x80) {
            push(code);
        } else if (code < 0x800) {
            push(0xc0 | code >> 6);
            push_tail(0);
        } else if (code < 0x10000) {
            push(0xe0 | code >> 12);
            push_tail(6);
            push_tail(0);
        } else {
            push(0xf0 | code >> 18);
            push_tail(12);
            push_tail(6);
            push_tail(0);
        }
    }

    // The end reads as a NUL, which no rule of the grammar accepts.
    [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool eat(char c) {
        if (peek() != c) return false;
        ++at_;
        return true;
    }
    bool eat_after_space(char c) {
        skip_space();
        return eat(c);
    }
    void skip_space() {
        while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
    }

    [[nodiscard]] Index next_index() const { return static_cast<Index>(document_.nodes_.size()); }
    Index open(Kind kind) {
        ++at_;
        document_.nodes_.push_back({.text = {}, .kind = kind});
        return next_index() - 1;
    }
    void add(Kind kind, std::string_view text) {
        document_.nodes_.push_back({.text = text, .end = next_index() + 1, .kind = kind});
    }

    std::string_view text_;
    std::size_t at_ = 0;
    JsonDocument document_;
    std::vector<Index> names_;  // of the objects that are open
};

std::optional<JsonDocument> JsonDocument::parse(std::string_view text) {
    // Every node takes at least one byte of text, so that an Index can count them.
    if (text.size() > std::numeric_limits<Index>::max()) return std::nullopt;
    if (!simdjson::validate_utf8(text)) return std::nullopt;
    JsonReader reader(text);
    if (!reader.document()) return std::nullopt;
    return reader.take();
}

namespace {

// RFC 6901: decimal, no leading zeros; "-" and everything else name no element.
std::optional<std::uint64_t> array_index(std::string_view step) {
    if (step.empty() || !std::ranges::all_of(step, is_digit) || (step.size() > 1 && step[0] == '0'))
        return std::nullopt;
    std::uint64_t index = 0;
    if (std::from_chars(step.data(), step.data() + step.size(), index).ec != std::errc{}) return std::nullopt;
    return index;
}

}  // namespace

std::optional<JsonDocument::Index> JsonDocument::find(const JsonPointer& pointer) const {
    Index here = 0;
    for (const std::string& step : pointer.steps()) {
        const Node& parent = nodes_[here];
        if (parent.kind == Kind::object) {
            const auto names = members(parent);
            const auto text_of = [this](Index name) { return nodes_[name].text; };
            const auto found = std::ranges::lower_bound(names, std::string_view(step), utf16_less, text_of);
            if (found == names.end() || text_of(*found) != step) return std::nullopt;
            here = *found + 1;
        } else if (parent.kind == Kind::array) {
            const auto index = array_index(step);
            if (!index || *index >= parent.count) return std::nullopt;
            ++here;
            for (std::uint64_t i = 0; i < *index; ++i) here = nodes_[here].end;
        } else {
            return std::nullopt;
        }
    }
    return here;
}

bool utf16_less(std::string_view left, std::string_view right) {
    // UTF-8 sorts by code point. UTF-16 differs in one place: what needs a surrogate pair (lead bytes F0–F4) comes
    // before U+E000–U+FFFF (lead bytes EE and EF).
    const auto rank = [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte == 0xee || byte == 0xef ? byte + 0x10 : byte + 0;
    };
    return std::ranges::lexicographical_compare(left, right, {}, rank, rank);
}

}  // namespace semel
