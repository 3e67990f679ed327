// Typed access to the settings of a file. Everything that is wrong is collected, with its line and the name of the
// setting; reading goes on, so that a user sees every problem at once.
//
// A message says what was found and what would be right. Values that came from the environment, and secrets, are never
// shown.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "semel/result.hpp"
#include "semel/time.hpp"
#include "settings/mark.hpp"
#include "settings/yaml_tree.hpp"

namespace semel::settings {

struct ConfigProblem {
    Mark mark{};  ///< line 0: the file as a whole
    std::string message{};
    [[nodiscard]] std::string text() const;  ///< `semel.yaml:12: routes[1].lease: found "5 s"; write a duration…`
    bool operator==(const ConfigProblem&) const = default;
};

/// What was found wrong, in the order of finding.
class Problems {
public:
    static constexpr std::size_t count_max = 100;

    explicit Problems(std::string file) : file_(std::move(file)) {}
    void add(int line, std::string message);
    [[nodiscard]] bool empty() const { return found_.empty(); }
    [[nodiscard]] const std::string& file() const { return file_; }
    /// In the order of lines; the last one says if there were more.
    std::vector<ConfigProblem> take();

private:
    std::string file_;
    std::vector<ConfigProblem> found_{};
    std::size_t more_ = 0;
};

/// The text of a configuration file; more than yaml_bytes_max is cut one byte behind that, for parse_yaml to refuse. A
/// failure's message is that of a problem with the file as a whole.
Result<std::string> read_settings_file(const std::string& path);

using Environment = std::function<const char*(const std::string&)>;

/// Replaces `${NAME}` and `$$` in every value, and refuses the same name twice in one mapping; the second one is dropped.
void prepare(YamlNode& root, const Environment& environment, Problems& problems);

/// The names that a mapping may hold. `kind` is the mapping's own, as in packaging/semel.schema.json.
struct Shape {
    std::string_view kind;
    std::span<const std::string_view> names;
};

class Mapping;

/// One value of the file with its path: `routes[1].lease`. Refers to the tree and the problems: both outlive it.
/// A reading function gives nothing if the value is not what was asked for; then the problem was added.
class Setting {
public:
    Setting(const YamlNode& node, std::string path, Problems& problems)
        : node_(&node), path_(std::move(path)), problems_(&problems) {}

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] Mark mark() const { return {problems_->file(), node_->line}; }
    [[nodiscard]] bool is_scalar() const { return node_->kind == YamlNode::Kind::scalar; }
    [[nodiscard]] bool is_list() const { return node_->kind == YamlNode::Kind::list; }
    [[nodiscard]] bool is_mapping() const { return node_->kind == YamlNode::Kind::mapping; }

    /// From here on the value is never shown.
    [[nodiscard]] Setting hidden() const;

    /// Adds `path: found …; write RIGHT`, unless a problem with this value was told before.
    void expected(std::string_view right) const;
    /// Adds `path: WHY`.
    void refuse(std::string_view why) const;
    /// The value as it may be told: in quotes, or "what ${NAME} holds", or its kind.
    [[nodiscard]] std::string shown() const;

    /// Whether it is this text.
    [[nodiscard]] bool is(std::string_view word) const;
    /// A text with at least one character and without control characters. `right` describes it: "a path".
    [[nodiscard]] std::optional<std::string> text(std::string_view right) const;
    [[nodiscard]] std::optional<std::string> text_or_empty(std::string_view right) const;
    /// A text, a number or a boolean, as it is written: for what another program reads.
    [[nodiscard]] std::optional<std::string> as_written(std::string_view right) const;
    [[nodiscard]] std::optional<std::uint64_t> whole(std::uint64_t least, std::uint64_t most) const;
    [[nodiscard]] std::optional<bool> boolean() const;
    /// `or_else` says what else would be right: "permanent, or ".
    [[nodiscard]] std::optional<Duration> duration(Duration least, Duration most, std::string_view or_else = "") const;
    /// Bytes: a whole number, or one with KiB, MiB or GiB.
    [[nodiscard]] std::optional<std::size_t> bytes(std::size_t least, std::size_t most) const;
    /// The place of the text among `words`.
    [[nodiscard]] std::optional<std::size_t> word(std::span<const std::string_view> words) const;
    /// The elements of a list. Nothing, and a problem, if it is no list.
    [[nodiscard]] std::vector<Setting> items(std::string_view right) const;
    /// As items; a list without elements is a problem, too.
    [[nodiscard]] std::vector<Setting> some_items(std::string_view right) const;
    /// Every name and value of a mapping whose names are the user's own. Nothing, and a problem, if it is no mapping.
    [[nodiscard]] std::vector<std::pair<std::string, Setting>> entries(std::string_view right) const;
    /// Names that are not of the shape are refused. Nothing if it is no mapping.
    [[nodiscard]] std::optional<Mapping> mapping(const Shape& shape, std::string_view right) const;

private:
    friend class Mapping;
    enum class Type : std::uint8_t { text, number, boolean, any };  ///< `any`: from the environment, which has no types
    [[nodiscard]] Type type() const;

    const YamlNode* node_;
    std::string path_;
    Problems* problems_;
    bool hidden_ = false;
};

/// A mapping whose names are known.
class Mapping {
public:
    Mapping(Setting setting, const Shape& shape);

    [[nodiscard]] std::optional<Setting> find(std::string_view name) const;
    [[nodiscard]] bool has(std::string_view name) const { return find(name).has_value(); }
    /// As find; it is a problem if it is not there. `right` says what to write: "the store's address, as in …".
    [[nodiscard]] std::optional<Setting> required(std::string_view name, std::string_view right) const;
    /// Adds `path.name: WHY` at that setting, or at the mapping if it is not there.
    void refuse(std::string_view name, std::string_view why) const;
    [[nodiscard]] const Setting& setting() const { return setting_; }

private:
    [[nodiscard]] std::string path_of(std::string_view name) const;
    Setting setting_;
    Shape shape_;
};

/// Sets `value` to what `read` makes of the setting; leaves it as it is if that is absent or wrong.
template <class T, class Read>
void fill(const Mapping& in, std::string_view name, T& value, Read read) {
    const std::optional<Setting> setting = in.find(name);
    if (!setting) return;
    if (auto found = read(*setting)) value = static_cast<T>(std::move(*found));
}

/// Fills what has to be there.
template <class T, class Read>
void fill_required(const Mapping& in, std::string_view name, T& value, std::string_view right, Read read) {
    static_cast<void>(in.required(name, right));
    fill(in, name, value, read);
}

// What to read, for fill().
inline auto text_of(std::string_view right) {
    return [right](const Setting& s) { return s.text(right); };
}
inline auto flag() {
    return [](const Setting& s) { return s.boolean(); };
}
inline auto whole_between(std::uint64_t least, std::uint64_t most) {
    return [least, most](const Setting& s) { return s.whole(least, most); };
}
inline auto duration_between(Duration least, Duration most) {
    return [least, most](const Setting& s) { return s.duration(least, most); };
}
inline auto bytes_between(std::size_t least, std::size_t most) {
    return [least, most](const Setting& s) { return s.bytes(least, most); };
}
/// One of the words, each of which stands for a value.
template <class Value, std::size_t count>
auto word_of(const std::array<std::pair<std::string_view, Value>, count>& meanings) {
    return [meanings](const Setting& s) -> std::optional<Value> {
        std::array<std::string_view, count> words;
        for (std::size_t i = 0; i < count; ++i) words[i] = meanings[i].first;
        const auto found = s.word(words);
        return found ? std::optional(meanings[*found].second) : std::nullopt;
    };
}

}  // namespace semel::settings
