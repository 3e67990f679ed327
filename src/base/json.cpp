#include "base/json.hpp"

#include <fmt/format.h>

namespace semel {
namespace {

// How many bytes of well-formed UTF-8 beyond ASCII `text` begins with: 2 to 4, or 0 if it is not well-formed.
std::size_t utf8_sequence(std::string_view text) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const unsigned lead = byte(0);
    const std::size_t size = lead >= 0xc2 && lead <= 0xdf   ? 2
                             : (lead & 0xf0U) == 0xe0       ? 3
                             : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                            : 0;
    for (std::size_t i = 1; i < size; ++i)
        if ((byte(i) & 0xc0U) != 0x80) return 0;
    const unsigned second = byte(1);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f)) return 0;  // overlong, surrogates
    if ((lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) return 0;  // overlong, beyond U+10FFFF
    return size;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    out.push_back('"');
    while (!text.empty()) {
        const char c = text.front();
        const auto byte = static_cast<unsigned char>(c);
        std::size_t taken = 1;
        if (c == '"' || c == '\\') {
            out.push_back('\\');
            out.push_back(c);
        } else if (byte < 0x20 || byte == 0x7f) {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", byte);
        } else if (byte < 0x80) {
            out.push_back(c);
        } else if (const std::size_t size = utf8_sequence(text); size > 0) {
            out.append(text.substr(0, size));
            taken = size;
        } else {
            out.append("\\ufffd");
        }
        text.remove_prefix(taken);
    }
    out.push_back('"');
}

std::string json_text(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

void JsonWriter::separate() {
    if (!first_) text_ += ',';
    first_ = false;
}

JsonWriter& JsonWriter::open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
}

JsonWriter& JsonWriter::name(std::string_view text) {
    separate();
    text_ += json_text(text);
    text_ += ':';
    first_ = true;  // the value follows without a comma
    return *this;
}

JsonWriter& JsonWriter::raw(std::string_view text) {
    separate();
    text_ += text;
    return *this;
}

}  // namespace semel
