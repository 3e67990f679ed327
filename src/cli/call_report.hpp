// How `semel call` says what is known at the end: a line for people, a document for programs, a code for scripts.
#pragma once

#include <string>
#include <string_view>

#include "semel/client.hpp"

namespace semel::cli {

/// One word: `done` (2xx), `refused` (final, and no 2xx), `executed` (the server no longer has the answer nor its status),
/// `outcome-unknown` (the server itself does not know), `may-have-executed`, `not-executed`, or `not-executed-now` (by this
/// run; of earlier ones with a key of the caller's nothing is known).
std::string_view call_known(const client::Report& report, std::string_view intent);

/// One line. `intent` empty: the caller gave a key. `again`: how the same operation is repeated, as in `--intent a`.
std::string call_text(const client::Report& report, std::string_view intent, std::string_view again);
std::string call_json(const client::Report& report, std::string_view intent, std::string_view again);

/// The answer's body, as far as there is one.
std::string_view call_body(const client::Report& report);

/// 0 if it was done, else 1.
int call_exit_code(const client::Report& report);

}  // namespace semel::cli
