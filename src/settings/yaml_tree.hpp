// A YAML file as a plain tree of values that remember their lines: what settings are read from.
//
// Stricter than YAML, so that a file has one meaning: one document; no anchors, aliases or tags; names are plain words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semel::settings {

inline constexpr std::size_t yaml_bytes_max = 1U << 20;
inline constexpr std::size_t yaml_depth_max = 16;
inline constexpr std::size_t yaml_nodes_max = 100'000;
inline constexpr std::size_t yaml_name_bytes_max = 128;

struct YamlNode {
    enum class Kind : std::uint8_t { null, scalar, list, mapping };
    Kind kind = Kind::null;
    int line = 0;  ///< from 1; of a list or mapping that has a name: the name's
    std::string name{};
    int name_line = 0;
    std::string text{};  ///< of a scalar
    bool quoted = false;
    std::vector<YamlNode> children{};  ///< of a list, or of a mapping with their names
    // Of a scalar, once the environment was looked at.
    std::string variable{};  ///< the first variable that is part of the text; empty: none
    bool broken = false;     ///< a problem was told; nothing can be read from it
};

struct YamlFault {
    int line = 0;  ///< 0: the file as a whole
    std::string message{};
};

struct YamlParsed {
    std::optional<YamlNode> root{};  ///< empty: `fault` says why
    YamlFault fault{};
};

/// Reads one document, which may have the same name twice in a mapping. Never throws for what the text holds.
YamlParsed parse_yaml(std::string_view text);

}  // namespace semel::settings
