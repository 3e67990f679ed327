// What a benchmark says: tables for people, one JSON file for programs, and whether the targets were met.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace semel::bench {

/// Text in columns; the first is aligned to the left, the others to the right.
class Table {
public:
    explicit Table(std::vector<std::string> head) { rows_.push_back(std::move(head)); }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    [[nodiscard]] std::string text() const;

private:
    std::vector<std::vector<std::string>> rows_;
};

class Report {
public:
    /// A figure for the JSON file, under a path such as "sqlite/pairs/64/per_second".
    void figure(std::string name, double value);
    /// A target, shown as PASS or FAIL and kept as a figure.
    void at_least(std::string name, double value, double wanted);
    void at_most(std::string name, double value, double wanted);

    /// Tables are shown at once.
    static void show(std::string_view title, const Table& table);
    void show_targets() const;
    [[nodiscard]] bool all_met() const;
    /// {"figures": {name: value…}, "targets": [{name, value, wanted, met}…]}. False: the file cannot be written.
    [[nodiscard]] bool write_json(const std::string& path) const;

private:
    struct Figure {
        std::string name;
        double value;
    };
    struct Target {
        std::string name;
        double value;
        double wanted;
        bool is_minimum;
        [[nodiscard]] bool met() const { return is_minimum ? value >= wanted : value <= wanted; }
    };
    std::vector<Figure> figures_;
    std::vector<Target> targets_;
};

}  // namespace semel::bench
