// Writing JSON for programs: always valid, whatever bytes the values hold.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semel {

/// Appends text in double quotes; bytes that are no UTF-8 become U+FFFD.
void append_json_string(std::string& out, std::string_view text);
std::string json_text(std::string_view text);

/// Builds one value from the outside in. Members are a name followed by a value.
class JsonWriter {
public:
    JsonWriter& begin_object() { return open('{'); }
    JsonWriter& end_object() { return close('}'); }
    JsonWriter& begin_array() { return open('['); }
    JsonWriter& end_array() { return close(']'); }
    JsonWriter& name(std::string_view text);

    JsonWriter& value(std::string_view text) { return raw(json_text(text)); }
    JsonWriter& value(const char* text) { return value(std::string_view(text)); }
    JsonWriter& value(bool truth) { return raw(truth ? "true" : "false"); }
    template <std::integral Number>
    requires(!std::same_as<Number, bool>) JsonWriter& value(Number number) { return raw(std::to_string(number)); }
    JsonWriter& null() { return raw("null"); }

    template <class Value>
    JsonWriter& member(std::string_view text, const Value& held) {
        return name(text).value(held);
    }
    template <class Value>
    JsonWriter& member(std::string_view text, const std::optional<Value>& held) {
        return held ? name(text).value(*held) : name(text).null();
    }

    [[nodiscard]] const std::string& text() const { return text_; }

private:
    JsonWriter& open(char bracket);
    JsonWriter& close(char bracket);
    JsonWriter& raw(std::string_view text);
    void separate();

    std::string text_;
    bool first_ = true;  // of the innermost object or array
};

}  // namespace semel
