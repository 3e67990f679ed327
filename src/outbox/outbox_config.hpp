// What the configuration of `semel outbox` says, as plain values, and how it is read. Everything that is wrong with a file is
// told at once, with file and line.
//
//   store: postgres://shop@db/shop      # the user's own database, where events are staged
//   admin: 127.0.0.1:8083
//   outboxes:
//     - name: main                      # that events are staged for
//       to: { kafka: { brokers: "kafka:9092" } }
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outbox/publishers.hpp"
#include "outbox/pump.hpp"
#include "settings/listeners.hpp"
#include "settings/mark.hpp"
#include "settings/setting.hpp"

namespace semel::outbox {

struct OutboxPlan {
    std::string name = "main";
    To to{};
    PumpOptions pump{};
};

struct OutboxConfig {
    std::string file{};
    std::string store{};  ///< as written
    std::optional<settings::Admin> admin{};
    std::vector<OutboxPlan> outboxes{};  ///< at least one
};

struct ReadOutboxConfig {
    std::optional<OutboxConfig> config{};             ///< there if and only if there is no problem
    std::vector<settings::ConfigProblem> problems{};  ///< in the order of lines
};

/// Reads the file, with the process's environment. Files that it names (certificates, keys) are not looked at.
ReadOutboxConfig read_outbox_config(const std::string& path);

/// As read_outbox_config, of a text; `file` is its name in messages, `environment` gives a variable's value or nullptr.
ReadOutboxConfig read_outbox_config_text(std::string_view text, const std::string& file,
                                         const settings::Environment& environment);

/// Every kind of mapping with the names it may hold.
std::vector<settings::Shape> outbox_config_shapes();

}  // namespace semel::outbox
