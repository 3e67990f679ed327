#include "settings/yaml_tree.hpp"

#include <fmt/format.h>
#include <simdjson.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "base/quote.hpp"

namespace semel::settings {
namespace {

/// Ends the parsing at once: nothing after it can be trusted, or there is too much of it.
struct Stop {
    YamlFault fault;
};

int line_of(const YAML::Mark& mark) { return std::max(mark.line, 0) + 1; }

class Builder : public YAML::EventHandler {
public:
    YamlNode take() { return std::move(root_); }
    [[nodiscard]] bool complete() const { return complete_; }
    [[nodiscard]] const YAML::Mark& last_scalar() const { return last_scalar_; }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (complete_) throw Stop{{line_of(mark), "a second document begins here; a configuration is one document"}};
    }
    void OnDocumentEnd() override { complete_ = true; }

    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        check(mark, "", anchor);
        if (expects_name()) throw Stop{{line_of(mark), "a name is missing before the colon"}};
        place(mark, YamlNode::Kind::null);
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override { refuse_anchor(mark); }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        check(mark, tag, anchor);
        last_scalar_ = mark;
        if (expects_name()) return take_name(mark, value);
        YamlNode& node = place(mark, YamlNode::Kind::scalar);
        node.text = value;
        node.quoted = tag == "!";
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value /*style*/) override {
        open(mark, tag, anchor, YamlNode::Kind::list);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value /*style*/) override {
        open(mark, tag, anchor, YamlNode::Kind::mapping);
    }
    void OnMapEnd() override { close(); }

private:
    // A node that is still open, finished when it is closed: its parent's children may not move before.
    struct Frame {
        YamlNode node;
        bool has_name = false;  ///< of a mapping: the next value's name was read
        std::string name{};
        int name_line = 0;
    };

    [[noreturn]] static void refuse_anchor(const YAML::Mark& mark) {
        throw Stop{{line_of(mark), "anchors (&) and aliases (*) are not read here; write the value where it is used"}};
    }

    void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        if (anchor != YAML::NullAnchor) refuse_anchor(mark);
        if (!tag.empty() && tag != "?" && tag != "!")
            throw Stop{{line_of(mark),
                        fmt::format("tags like {} are not read here; write the value without it", in_quotes(tag))}};
        if (++nodes_ > yaml_nodes_max)
            throw Stop{{line_of(mark), fmt::format("more than {} values in one file", yaml_nodes_max)}};
    }

    [[nodiscard]] bool expects_name() const {
        return !open_.empty() && open_.back().node.kind == YamlNode::Kind::mapping && !open_.back().has_name;
    }

    void take_name(const YAML::Mark& mark, const std::string& value) {
        if (value.size() > yaml_name_bytes_max)
            throw Stop{{line_of(mark), fmt::format("{} is no name of a setting", in_quotes(value))}};
        open_.back().has_name = true;
        open_.back().name = value;
        open_.back().name_line = line_of(mark);
    }

    YamlNode start(const YAML::Mark& mark, YamlNode::Kind kind) {
        YamlNode node;
        node.kind = kind;
        node.line = line_of(mark);
        if (open_.empty() || open_.back().node.kind != YamlNode::Kind::mapping) return node;
        Frame& parent = open_.back();
        node.name = std::move(parent.name);
        node.name_line = parent.name_line;
        if (kind != YamlNode::Kind::scalar) node.line = parent.name_line;
        parent.has_name = false;
        return node;
    }

    YamlNode& place(const YAML::Mark& mark, YamlNode::Kind kind) {
        YamlNode node = start(mark, kind);
        if (open_.empty()) return root_ = std::move(node);
        return open_.back().node.children.emplace_back(std::move(node));
    }

    void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
        check(mark, tag, anchor);
        if (expects_name()) throw Stop{{line_of(mark), "a list or a mapping cannot be a name"}};
        if (open_.size() == yaml_depth_max)
            throw Stop{{line_of(mark), fmt::format("nested more than {} deep", yaml_depth_max)}};
        open_.push_back({.node = start(mark, kind)});
    }

    void close() {
        YamlNode node = std::move(open_.back().node);
        open_.pop_back();
        if (open_.empty())
            root_ = std::move(node);
        else
            open_.back().node.children.push_back(std::move(node));
    }

    YamlNode root_{};
    bool complete_ = false;
    std::size_t nodes_ = 0;
    YAML::Mark last_scalar_{};
    std::vector<Frame> open_{};
};

int line_at(std::string_view text, std::size_t offset) {
    return 1 + static_cast<int>(std::ranges::count(text.substr(0, offset), '\n'));
}

/// What the parser would read in another way than it looks: it takes 0x04 for the end, and other encodings by guessing.
std::optional<YamlFault> check_bytes(std::string_view text) {
    if (text.size() > yaml_bytes_max)
        return YamlFault{0, fmt::format("the file has more than {} bytes", yaml_bytes_max)};
    const auto control = std::ranges::find_if(text, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
    });
    if (control != text.end())
        return YamlFault{line_at(text, static_cast<std::size_t>(control - text.begin())),
                         fmt::format("control character {}; a configuration is plain text",
                                     in_quotes(std::string_view(&*control, 1)))};
    if (!simdjson::validate_utf8(text)) {
        // Lines do not share a character, so the first bad line is the place.
        std::size_t begin = 0;
        while (begin < text.size()) {
            const std::size_t end = std::min(text.find('\n', begin), text.size());
            if (!simdjson::validate_utf8(text.substr(begin, end - begin))) break;
            begin = end + 1;
        }
        return YamlFault{line_at(text, std::min(begin, text.size())), "not UTF-8; a configuration is text in UTF-8"};
    }
    return std::nullopt;
}

/// Whether a quoted scalar that begins there goes on to the end of the text: yaml-cpp takes that for its end if the last
/// line is complete, and so would a file that was cut off be read.
bool is_open_quote(std::string_view text, const YAML::Mark& mark) {
    const auto begin = static_cast<std::size_t>(std::max(mark.pos, 0));
    if (begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) return false;
    const char quote = text[begin];
    for (std::size_t i = begin + 1; i < text.size(); ++i) {
        const bool doubled = quote == '\'' && text.substr(i, 2) == "''";
        const bool escaped = quote == '"' && text[i] == '\\';
        if (doubled || escaped)
            ++i;
        else if (text[i] == quote)
            return false;
    }
    return true;
}

/// yaml-cpp ends some of its messages with the byte it did not expect.
std::string_view without_bytes_of_the_file(std::string_view message) { return message.substr(0, message.rfind(": ")); }

}  // namespace

YamlParsed parse_yaml(std::string_view text) {
    if (auto fault = check_bytes(text)) return {.fault = std::move(*fault)};
    constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    Builder builder;
    try {
        std::istringstream stream{std::string(text)};
        YAML::Parser parser(stream);
        while (parser.HandleNextDocument(builder)) {
        }
    } catch (const Stop& stop) {
        return {.fault = stop.fault};
    } catch (const YAML::Exception& e) {
        return {.fault = {e.mark.is_null() ? 0 : line_of(e.mark),
                          fmt::format("not well-formed YAML: {}", without_bytes_of_the_file(e.msg))}};
    }
    if (is_open_quote(text, builder.last_scalar()))
        return {.fault = {line_of(builder.last_scalar()), "not well-formed YAML: a quote is not closed"}};
    if (!builder.complete()) return {.fault = {0, "the file is empty; see docs/configuration.md for a first one"}};
    return {.root = builder.take()};
}

}  // namespace semel::settings
