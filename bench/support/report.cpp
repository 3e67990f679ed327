#include "support/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

namespace semel::bench {
namespace {

// Counted in characters: the texts hold signs such as × and µ.
std::size_t width_of(std::string_view text) {
    return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

}  // namespace

std::string Table::text() const {
    std::vector<std::size_t> widths;
    for (const auto& row : rows_) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string text;
    for (const auto& row : rows_) {
        std::string line = "  ";
        for (std::size_t i = 0; i < row.size(); ++i) {
            const std::string pad(widths[i] - width_of(row[i]), ' ');
            line += i == 0 ? row[i] + pad : "  " + pad + row[i];
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
    }
    return text;
}

void Report::figure(std::string name, double value) { figures_.push_back({std::move(name), value}); }

void Report::at_least(std::string name, double value, double wanted) {
    targets_.push_back({std::move(name), value, wanted, true});
}

void Report::at_most(std::string name, double value, double wanted) {
    targets_.push_back({std::move(name), value, wanted, false});
}

void Report::show(std::string_view title, const Table& table) {
    fmt::print("\n{}\n{}", title, table.text());
    std::fflush(stdout);
}

void Report::show_targets() const {
    if (targets_.empty()) return;
    Table table({"target", "measured", "wanted", ""});
    for (const Target& t : targets_)
        table.add({t.name, fmt::format("{:.2f}", t.value), fmt::format("{} {:g}", t.is_minimum ? "≥" : "≤", t.wanted),
                   t.met() ? "PASS" : "FAIL"});
    show("targets", table);
}

bool Report::all_met() const {
    return std::ranges::all_of(targets_, [](const Target& t) { return t.met(); });
}

bool Report::write_json(const std::string& path) const {
    std::string figures;
    for (const Figure& f : figures_)
        figures += fmt::format("{}    {}: {:.6g}", figures.empty() ? "" : ",\n", quoted(f.name), f.value);
    std::string targets;
    for (const Target& t : targets_)
        targets +=
            fmt::format(R"({}    {{"name": {}, "value": {:.6g}, "{}": {:g}, "met": {}}})", targets.empty() ? "" : ",\n",
                        quoted(t.name), t.value, t.is_minimum ? "at_least" : "at_most", t.wanted, t.met());
    std::ofstream out(path);
    out << "{\n  \"figures\": {\n" << figures << "\n  },\n  \"targets\": [\n" << targets << "\n  ]\n}\n";
    return out.flush().good();
}

}  // namespace semel::bench
