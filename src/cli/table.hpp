// Aligned columns for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace semel::cli {

/// Text that a terminal may be given: control characters are written \xNN.
std::string printable(std::string_view text);

/// Rows of cells; a column is as wide as its widest cell, two blanks apart, and the last is never padded.
class Table {
public:
    enum class Align { left, right };
    struct Column {
        std::string title;
        Align align = Align::left;
    };
    explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

    /// One cell per column.
    void add(std::vector<std::string> cells);
    [[nodiscard]] std::string text() const;

private:
    std::vector<Column> columns_;
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace semel::cli
