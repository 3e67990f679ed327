// What is known about an operation, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "ledger/record_json.hpp"
#include "semel/store.hpp"

namespace semel::cli {

/// How long ago, in at most two units: `0s`, `42s`, `3m05s`, `2h10m`, `9d04h`. A time ahead is `in 5s`.
std::string age_text(Duration since);

/// One line each.
std::string record_table(const std::vector<Record>& records, TimePoint now);

/// Everything, with what can be done about it; `store` is named in commands to copy.
std::string record_detail(const Record& record, TimePoint now, const std::string& store);

/// A word as a POSIX shell reads it back.
std::string shell_word(const std::string& text);

}  // namespace semel::cli
