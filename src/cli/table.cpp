#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.hpp"

namespace semel::cli {
namespace {

/// Characters on the screen: UTF-8 continuation bytes take no room.
std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::string printable(std::string_view text) {
    std::string shown;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7f)
            shown += fmt::format("\\x{:02x}", byte);
        else
            shown += c;
    }
    return shown;
}

void Table::add(std::vector<std::string> cells) {
    SEMEL_ASSERT(cells.size() == columns_.size(), "one cell per column");
    for (std::string& cell : cells) cell = printable(cell);
    rows_.push_back(std::move(cells));
}

std::string Table::text() const {
    std::vector<std::size_t> widths;
    for (const Column& column : columns_) widths.push_back(width_of(column.title));
    for (const auto& row : rows_)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    std::string text;
    const auto line = [&](const auto& cell_at) {
        std::string out;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            const std::string& cell = cell_at(i);
            const std::string room(widths[i] - width_of(cell), ' ');
            if (i > 0) out += "  ";
            out += columns_[i].align == Align::right ? room + cell : cell + room;
        }
        out.erase(out.find_last_not_of(' ') + 1);
        text += out + '\n';
    };
    line([&](std::size_t i) -> const std::string& { return columns_[i].title; });
    for (const auto& row : rows_) line([&](std::size_t i) -> const std::string& { return row[i]; });
    return text;
}

}  // namespace semel::cli
