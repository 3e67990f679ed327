#include "verify/intent.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quote.hpp"
#include "http/fields.hpp"
#include "ledger/json_document.hpp"
#include "semel/keys.hpp"

namespace semel::verify {
namespace {

constexpr std::size_t word_bytes_max = 32;  // of what may be meant as a placeholder

/// Calls `each` with the text of every {{word}} and where it begins.
template <class Each>
void for_each_word(std::string_view text, Each each) {
    for (std::size_t at = text.find("{{"); at != std::string_view::npos; at = text.find("{{", at + 1)) {
        const std::size_t end = text.find("}}", at);
        if (end == std::string_view::npos) return;
        const std::string_view word = text.substr(at + 2, end - at - 2);
        const bool plain = !word.empty() && word.size() <= word_bytes_max && http::all_of(word, http::unreserved_char);
        if (plain) each(word, at);
    }
}

std::optional<std::string> meaning(std::string_view word, const Intent& intent) {
    if (word == "key") return intent.key;
    if (word == "uuid") return intent.uuid;
    if (word == "n") return std::to_string(intent.number);
    return std::nullopt;
}

bool all_digits(std::string_view text) { return !text.empty() && http::all_of(text, http::digit_char); }

/// A whole number in digits, one larger; nothing for what would need another sign or has leading zeros.
std::optional<std::string> one_more(std::string_view digits) {
    if (!all_digits(digits) || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
    std::string sum(digits);
    for (std::size_t i = sum.size(); i-- > 0;) {
        if (sum[i] != '9') {
            ++sum[i];
            return sum;
        }
        sum[i] = '0';
    }
    return "1" + sum;
}

std::string replaced(std::string_view text, std::string_view part, std::string_view by) {
    const auto at = static_cast<std::size_t>(part.data() - text.data());
    return fmt::format("{}{}{}", text.substr(0, at), by, text.substr(at + part.size()));
}

std::optional<std::string> another_json(std::string_view body) {
    const auto document = JsonDocument::parse(body);
    if (!document) return std::nullopt;
    for (JsonDocument::Index i = 0; i < document->node(0).end; ++i) {
        const auto& node = document->node(i);
        if (node.kind != JsonDocument::Kind::number) continue;
        // The whole part is enough: 10.50 becomes 11.50.
        const std::string_view whole = node.text.substr(0, http::run_of(node.text, http::digit_char));
        if (const auto more = one_more(whole)) return replaced(body, whole, *more);
    }
    return std::nullopt;
}

std::optional<std::string> another_form(std::string_view body) {
    for (std::string_view left = body; !left.empty();) {
        const std::string_view pair = left.substr(0, left.find('&'));
        const std::size_t equals = pair.find('=');
        if (equals != std::string_view::npos)
            if (const auto more = one_more(pair.substr(equals + 1)))
                return replaced(body, pair.substr(equals + 1), *more);
        left.remove_prefix(std::min(left.size(), pair.size() + 1));
    }
    return std::nullopt;
}

}  // namespace

Intent make_intent(std::uint64_t number, KeyFormat format) {
    Intent intent;
    intent.number = number;
    intent.uuid = mint_uuid4().text();
    switch (format) {
        case KeyFormat::any: intent.key = "verify-" + mint_uuid4().text(); break;
        case KeyFormat::uuid: intent.key = mint_uuid4().text(); break;
        case KeyFormat::uuidv7: intent.key = mint_uuid7().text(); break;
    }
    return intent;
}

std::string fill_in(std::string_view text, const Intent& intent) {
    std::string filled;
    std::size_t copied = 0;
    for_each_word(text, [&](std::string_view word, std::size_t at) {
        const auto value = meaning(word, intent);
        if (!value) return;
        filled.append(text.substr(copied, at - copied)).append(*value);
        copied = at + word.size() + 4;
    });
    return filled.append(text.substr(copied));
}

bool has_placeholder(std::string_view text) {
    bool found = false;
    for_each_word(text, [&](std::string_view word, std::size_t) { found = found || meaning(word, {}).has_value(); });
    return found;
}

Status check_placeholders(std::string_view name, std::string_view text) {
    std::optional<std::string> unknown;
    for_each_word(text, [&](std::string_view word, std::size_t) {
        if (!unknown && !meaning(word, {})) unknown = word;
    });
    if (!unknown) return Done{};
    return Failure{Code::invalid, fmt::format("{}: {} is no placeholder; there are {{{{key}}}}, {{{{uuid}}}} and "
                                              "{{{{n}}}} (--literal takes braces as they are)",
                                              name, in_quotes("{{" + *unknown + "}}"))};
}

std::optional<std::string> another_body(std::string_view body, std::string_view content_type) {
    const std::string_view type = http::trimmed(content_type.substr(0, content_type.find(';')));
    if (http::same_name(type, "application/x-www-form-urlencoded")) return another_form(body);
    return another_json(body);
}

}  // namespace semel::verify
