// What became of a workflow, for people and for programs.
#pragma once

#include <string>

#include "base/json.hpp"
#include "effects/story.hpp"

namespace semel::cli {

/// The steps, what happened in the order of time, and what it waits for; `store` is named in commands to copy.
std::string story_detail(const effects::Story& story, const Record& record, TimePoint now, const std::string& store);

/// One JSON object.
void write_story(JsonWriter& json, const effects::Story& story, const Record& record, TimePoint now);

}  // namespace semel::cli
