// Reads tests/http/vectors/*.txt; README.md there says how they are written.
#pragma once

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace semel::http::test {

struct Vector {
    std::string name;
    std::string request_method;  ///< of a response vector: what it answers
    std::string bytes;
    std::string expected;  ///< one line per expectation, unescaped, each ending in '\n'
    [[nodiscard]] bool refused() const { return expected.starts_with("=> refused "); }
};

/// Reads up to the end, or to the '}' that ends a repetition.
inline std::string unescape(std::string_view& text, bool repeated = false) {
    std::string out;
    while (!text.empty()) {
        const char c = text.front();
        text.remove_prefix(1);
        if (repeated && c == '}') return out;
        if (c != '\\') {
            out.push_back(c);
            continue;
        }
        if (text.empty()) throw std::runtime_error("a backslash at the end of a line");
        const char escape = text.front();
        text.remove_prefix(1);
        switch (escape) {
            case 'r': out.push_back('\r'); break;
            case 'n': out.push_back('\n'); break;
            case 't': out.push_back('\t'); break;
            case '0': out.push_back('\0'); break;
            case '\\': out.push_back('\\'); break;
            case 'x':
                out.push_back(static_cast<char>(std::stoi(std::string(text.substr(0, 2)), nullptr, 16)));
                text.remove_prefix(2);
                break;
            case '{': {
                const auto space = text.find(' ');
                const int count = std::stoi(std::string(text.substr(0, space)));
                text.remove_prefix(space + 1);
                const std::string part = unescape(text, true);
                for (int i = 0; i < count; ++i) out += part;
                break;
            }
            default: throw std::runtime_error(std::string("no such escape: \\") + escape);
        }
    }
    if (repeated) throw std::runtime_error("a repetition without '}'");
    return out;
}

inline std::string unescaped(std::string_view text) { return unescape(text); }

inline void add_expectation(Vector& vector, std::string_view line) {
    int times = 1;
    std::string text(line);
    if (line.starts_with("field*")) {
        const auto space = line.find(' ');
        times = std::stoi(std::string(line.substr(6, space - 6)));
        text = "field" + std::string(line.substr(space));
    }
    for (int i = 0; i < times; ++i) vector.expected += unescaped(text) + '\n';
}

inline std::vector<Vector> read_vectors(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw std::runtime_error("cannot read " + path);
    std::vector<Vector> all;
    bool in_bytes = false;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("== ")) {
            Vector vector;
            vector.name = line.substr(3);
            const auto at = vector.name.find(" @");
            vector.request_method = at == std::string::npos ? "GET" : vector.name.substr(at + 2);
            all.push_back(vector);
            in_bytes = true;
        } else if (line.starts_with("=> ")) {
            in_bytes = false;
            add_expectation(all.back(), line);
        } else if (in_bytes) {
            all.back().bytes += unescaped(line);
        } else if (!line.empty() && !line.starts_with('#')) {
            add_expectation(all.back(), line);
        }
    }
    return all;
}

}  // namespace semel::http::test
