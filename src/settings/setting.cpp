#include "settings/setting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <numeric>
#include <system_error>
#include <unordered_map>

#include "base/assert.hpp"
#include "base/duration.hpp"
#include "base/quote.hpp"

namespace semel::settings {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// ---- numbers and booleans, as YAML 1.2 tells them from texts -------------------------------------------------------

bool among(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, text) != words.end();
}

bool is_boolean(std::string_view text) { return among(text, {"true", "True", "TRUE", "false", "False", "FALSE"}); }

std::size_t digits_at(std::string_view text, std::size_t from) {
    std::size_t end = from;
    while (end < text.size() && is_digit(text[end])) ++end;
    return end - from;
}

bool is_number(std::string_view text) {
    if (text.starts_with("0x") && text.size() > 2)
        return text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos;
    if (text.starts_with("0o") && text.size() > 2)
        return text.find_first_not_of("01234567", 2) == std::string_view::npos;
    if (among(text, {".nan", ".NaN", ".NAN"})) return true;
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    if (among(text, {".inf", ".Inf", ".INF"})) return true;
    const std::size_t before = digits_at(text, 0);
    text.remove_prefix(before);
    std::size_t after = 0;
    if (text.starts_with('.')) {
        after = digits_at(text, 1);
        text.remove_prefix(1 + after);
    }
    if (before + after == 0) return false;
    if (text.empty()) return true;
    if (text[0] != 'e' && text[0] != 'E') return false;
    text.remove_prefix(1);
    if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
    return !text.empty() && digits_at(text, 0) == text.size();
}

std::optional<std::uint64_t> parse_whole(std::string_view text) {
    std::uint64_t value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc{} || rest != end) return std::nullopt;
    return value;
}

std::string bytes_text(std::size_t bytes) {
    for (const auto& [unit, size] :
         {std::pair{"GiB", std::size_t{1} << 30}, {"MiB", std::size_t{1} << 20}, {"KiB", std::size_t{1} << 10}})
        if (bytes != 0 && bytes % size == 0) return fmt::format("{}{}", bytes / size, unit);
    return std::to_string(bytes);
}

// ---- the nearest name ----------------------------------------------------------------------------------------------

std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row[b.size()];
}

std::string suggestion(std::string_view name, std::span<const std::string_view> known) {
    std::string_view nearest;
    std::size_t least = std::max<std::size_t>(1, (name.size() + 1) / 3);  // further away it is another word
    for (const std::string_view candidate : known) {
        if (const std::size_t d = distance(name, candidate); d <= least && (nearest.empty() || d < least)) {
            nearest = candidate;
            least = d;
        }
    }
    if (!nearest.empty()) return fmt::format("did you mean {}?", nearest);
    return fmt::format("known here: {}", fmt::join(known, ", "));
}

// ---- the environment -----------------------------------------------------------------------------------------------

/// Walks the tree with the path of where it is.
class Preparer {
public:
    Preparer(const Environment& environment, Problems& problems) : environment_(environment), problems_(problems) {}

    void visit(YamlNode& node) {
        switch (node.kind) {
            case YamlNode::Kind::null: return;
            case YamlNode::Kind::scalar: return replace_variables(node);
            case YamlNode::Kind::list: return visit_list(node);
            case YamlNode::Kind::mapping: return visit_mapping(node);
        }
    }

private:
    void visit_list(YamlNode& node) {
        for (std::size_t i = 0; i < node.children.size(); ++i) {
            const std::size_t before = path_.size();
            path_ += fmt::format("[{}]", i);
            visit(node.children[i]);
            path_.resize(before);
        }
    }

    void visit_mapping(YamlNode& node) {
        std::unordered_map<std::string, int> lines;
        std::vector<YamlNode> kept;
        kept.reserve(node.children.size());
        for (YamlNode& child : node.children) {
            const std::size_t before = path_.size();
            if (!path_.empty()) path_ += '.';
            path_ += child.name;
            const auto [first, is_first] = lines.emplace(child.name, child.name_line);
            if (is_first) {
                visit(child);
                kept.push_back(std::move(child));
            } else {
                problems_.add(child.name_line, fmt::format("{}: written twice, first in line {}; keep one of them",
                                                           in_message(path_), first->second));
            }
            path_.resize(before);
        }
        node.children = std::move(kept);
    }

    void replace_variables(YamlNode& node) {
        if (node.text.find('$') == std::string::npos) return;
        std::string text;
        std::string_view left = node.text;
        for (auto at = left.find('$'); at != std::string_view::npos; at = left.find('$')) {
            text += left.substr(0, at);
            left.remove_prefix(at + 1);
            if (left.starts_with('$')) {
                text += '$';
                left.remove_prefix(1);
            } else if (const auto name = take_name(left)) {
                if (node.variable.empty()) node.variable = *name;
                const char* const value = environment_(*name);
                if (value == nullptr) refuse(node, fmt::format("the environment has no variable {}", *name));
                if (value != nullptr) text += value;
            } else {
                refuse(node, "a $ stands alone; write ${NAME} for an environment variable, or $$ for a dollar");
            }
        }
        text += left;
        node.text = std::move(text);
    }

    /// The name in `{NAME}` at the front, which is taken away.
    static std::optional<std::string> take_name(std::string_view& left) {
        const std::size_t end = left.find('}');
        if (!left.starts_with('{') || end == std::string_view::npos) return std::nullopt;
        const std::string_view name = left.substr(1, end - 1);
        if (name.empty() || name.size() > yaml_name_bytes_max || !is_name_start(name[0])) return std::nullopt;
        if (!std::ranges::all_of(name, [](char c) { return is_name_start(c) || is_digit(c); })) return std::nullopt;
        left.remove_prefix(end + 1);
        return std::string(name);
    }

    void refuse(YamlNode& node, std::string_view why) {
        node.broken = true;
        problems_.add(node.line, fmt::format("{}: {}", in_message(path_), why));
    }

    static std::string in_message(std::string_view path) {
        const bool plain = std::ranges::all_of(path, [](unsigned char c) { return c >= 0x20 && c < 0x7f; });
        return plain ? std::string(path) : in_quotes(path);
    }

    const Environment& environment_;
    Problems& problems_;
    std::string path_{};
};

}  // namespace

// ---- problems ------------------------------------------------------------------------------------------------------

std::string ConfigProblem::text() const {
    return fmt::format("{}: {}", mark.line == 0 ? mark.file : mark.text(), message);
}

void Problems::add(int line, std::string message) {
    if (found_.size() < count_max)
        found_.push_back({{file_, line}, std::move(message)});
    else
        ++more_;
}

std::vector<ConfigProblem> Problems::take() {
    std::ranges::stable_sort(found_, {}, [](const ConfigProblem& problem) { return problem.mark.line; });
    if (more_ > 0) found_.push_back({{file_, 0}, fmt::format("and {} problems more", more_)});
    return std::move(found_);
}

void prepare(YamlNode& root, const Environment& environment, Problems& problems) {
    Preparer(environment, problems).visit(root);
}

// ---- one setting ---------------------------------------------------------------------------------------------------

Setting Setting::hidden() const {
    Setting copy = *this;
    copy.hidden_ = true;
    return copy;
}

std::string Setting::shown() const {
    switch (node_->kind) {
        case YamlNode::Kind::null: return "nothing";
        case YamlNode::Kind::list: return node_->children.empty() ? "an empty list" : "a list";
        case YamlNode::Kind::mapping: return "a mapping";
        case YamlNode::Kind::scalar: break;
    }
    if (!node_->variable.empty()) return fmt::format("what ${{{}}} holds", node_->variable);
    if (hidden_) return "a value that is not shown";
    const bool bare = type() != Type::text && node_->text.size() <= quoted_bytes_max;
    return bare ? node_->text : in_quotes(node_->text);
}

void Setting::expected(std::string_view right) const { refuse(fmt::format("found {}; write {}", shown(), right)); }

void Setting::refuse(std::string_view why) const {
    if (node_->broken) return;
    problems_->add(node_->line, fmt::format("{}: {}", path_.empty() ? "the file" : path_, why));
}

Setting::Type Setting::type() const {
    if (!node_->variable.empty()) return Type::any;
    if (node_->quoted) return Type::text;
    if (is_boolean(node_->text)) return Type::boolean;
    return is_number(node_->text) ? Type::number : Type::text;
}

bool Setting::is(std::string_view word) const {
    return is_scalar() && !node_->broken && (type() == Type::text || type() == Type::any) && node_->text == word;
}

std::optional<std::string> Setting::text(std::string_view right) const {
    std::optional<std::string> found = text_or_empty(right);
    if (!found || !found->empty()) return found;
    expected(right);
    return std::nullopt;
}

std::optional<std::string> Setting::text_or_empty(std::string_view right) const {
    if (!is_scalar() || (type() != Type::text && type() != Type::any)) {
        expected(is_scalar() && !hidden_ ? fmt::format("{}, in quotes", right) : std::string(right));
        return std::nullopt;
    }
    if (node_->broken) return std::nullopt;
    const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
    if (std::ranges::any_of(node_->text, control)) {
        refuse(fmt::format("it has control characters, line ends among them; write {}", right));
        return std::nullopt;
    }
    return node_->text;
}

std::optional<std::string> Setting::as_written(std::string_view right) const {
    if (is_scalar() && (type() == Type::number || type() == Type::boolean)) return node_->text;
    return text_or_empty(right);
}

std::optional<std::uint64_t> Setting::whole(std::uint64_t least, std::uint64_t most) const {
    if (is_scalar() && (type() == Type::number || type() == Type::any))
        if (const auto value = parse_whole(node_->text); value && *value >= least && *value <= most) return value;
    const std::string_view quoted = is_scalar() && node_->quoted ? ", without quotes" : "";
    expected(fmt::format("a whole number from {} to {}{}", least, most, quoted));
    return std::nullopt;
}

std::optional<bool> Setting::boolean() const {
    if (is_scalar() && (type() == Type::boolean || type() == Type::any))
        if (node_->text == "true" || node_->text == "false") return node_->text == "true";
    expected(is_scalar() && node_->quoted ? "true or false, without quotes" : "true or false");
    return std::nullopt;
}

std::optional<Duration> Setting::duration(Duration least, Duration most, std::string_view or_else) const {
    if (is_scalar() && (type() == Type::text || type() == Type::any))
        if (const auto value = parse_duration(node_->text); value && *value >= least && *value <= most) return *value;
    expected(
        fmt::format("{}a duration from {} to {}: a whole number and a unit (us, ms, s, m, h, d), as in 250ms or 24h",
                    or_else, to_text(least), to_text(most)));
    return std::nullopt;
}

std::optional<std::size_t> Setting::bytes(std::size_t least, std::size_t most) const {
    const auto value = [&]() -> std::optional<std::size_t> {
        if (!is_scalar()) return std::nullopt;
        std::string_view digits = node_->text;
        std::size_t unit = 1;
        for (const auto& [name, size] : {std::pair{std::string_view("KiB"), std::size_t{1} << 10},
                                         {"MiB", std::size_t{1} << 20},
                                         {"GiB", std::size_t{1} << 30}}) {
            if (!digits.ends_with(name)) continue;
            digits.remove_suffix(name.size());
            unit = size;
            break;
        }
        if (type() != Type::any && (type() == Type::text) != (unit != 1)) return std::nullopt;
        const auto count = parse_whole(digits);
        std::size_t total = 0;
        if (!count || __builtin_mul_overflow(*count, unit, &total)) return std::nullopt;
        return total;
    }();
    if (value && *value >= least && *value <= most) return value;
    expected(fmt::format("a size from {} to {}: whole bytes, or with KiB, MiB or GiB, as in 64KiB", bytes_text(least),
                         bytes_text(most)));
    return std::nullopt;
}

std::optional<std::size_t> Setting::word(std::span<const std::string_view> words) const {
    if (is_scalar() && (type() == Type::text || type() == Type::any))
        for (std::size_t i = 0; i < words.size(); ++i)
            if (words[i] == node_->text) return i;
    expected(fmt::format("{}", fmt::join(words, " or ")));
    return std::nullopt;
}

std::vector<Setting> Setting::items(std::string_view right) const {
    std::vector<Setting> all;
    if (!is_list()) expected(right);
    if (!is_list()) return all;
    for (std::size_t i = 0; i < node_->children.size(); ++i) {
        all.emplace_back(node_->children[i], fmt::format("{}[{}]", path_, i), *problems_);
        all.back().hidden_ = hidden_;
    }
    return all;
}

std::vector<Setting> Setting::some_items(std::string_view right) const {
    if (is_list() && node_->children.empty()) expected(right);
    return items(right);
}

std::vector<std::pair<std::string, Setting>> Setting::entries(std::string_view right) const {
    std::vector<std::pair<std::string, Setting>> all;
    if (!is_mapping()) expected(right);
    if (!is_mapping()) return all;
    for (const YamlNode& child : node_->children) {
        const bool plain = std::ranges::all_of(child.name, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
        Setting value(child, fmt::format("{}.{}", path_, plain ? child.name : in_quotes(child.name)), *problems_);
        value.hidden_ = hidden_;
        all.emplace_back(child.name, std::move(value));
    }
    return all;
}

std::optional<Mapping> Setting::mapping(const Shape& shape, std::string_view right) const {
    if (is_mapping()) return Mapping(*this, shape);
    expected(right);
    return std::nullopt;
}

// ---- a mapping -----------------------------------------------------------------------------------------------------

Mapping::Mapping(Setting setting, const Shape& shape) : setting_(std::move(setting)), shape_(shape) {
    for (const YamlNode& child : setting_.node_->children) {
        if (std::ranges::find(shape_.names, child.name) != shape_.names.end()) continue;
        const bool plain = std::ranges::all_of(child.name, [](unsigned char c) { return c > 0x20 && c < 0x7f; });
        setting_.problems_->add(child.name_line,
                                fmt::format("{}: unknown name; {}", path_of(plain ? child.name : in_quotes(child.name)),
                                            suggestion(child.name, shape_.names)));
    }
}

std::string Mapping::path_of(std::string_view name) const {
    return setting_.path().empty() ? std::string(name) : fmt::format("{}.{}", setting_.path(), name);
}

std::optional<Setting> Mapping::find(std::string_view name) const {
    SEMEL_ASSERT(std::ranges::find(shape_.names, name) != shape_.names.end(),
                 "every name that is read is in the shape");
    for (const YamlNode& child : setting_.node_->children)
        if (child.name == name) return Setting(child, path_of(name), *setting_.problems_);
    return std::nullopt;
}

std::optional<Setting> Mapping::required(std::string_view name, std::string_view right) const {
    std::optional<Setting> found = find(name);
    if (!found)
        setting_.problems_->add(setting_.node_->line, fmt::format("{}: missing; write {}", path_of(name), right));
    return found;
}

void Mapping::refuse(std::string_view name, std::string_view why) const {
    if (const auto found = find(name)) return found->refuse(why);
    setting_.problems_->add(setting_.node_->line, fmt::format("{}: {}", path_of(name), why));
}

// ---- the file ------------------------------------------------------------------------------------------------------

Result<std::string> read_settings_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file)
        return Failure{Code::invalid, fmt::format("cannot be opened: {}", std::generic_category().message(errno))};
    std::string text(yaml_bytes_max + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad()) return Failure{Code::invalid, "cannot be read; name a file, not a folder"};
    text.resize(static_cast<std::size_t>(file.gcount()));
    return text;
}

}  // namespace semel::settings
