// How far one partition has come during one assignment: what is in work, and where the group may go on.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace semel::kafka {

/// Kafka keeps one position for a group and a partition: everything before it is done. Messages are finished in any order,
/// so the position is that of the lowest unfinished one.
class Progress {
public:
    /// A message was delivered. False, and nothing is noted: offsets went back, so this is another log than before.
    bool begin(std::int64_t offset);
    /// It is done. Of an offset that is not in work: nothing.
    void finish(std::int64_t offset);
    /// Where the group may go on; nothing as long as nothing was delivered.
    [[nodiscard]] std::optional<std::int64_t> position() const;

private:
    struct Message {
        std::int64_t offset;
        bool done;
    };
    std::deque<Message> messages_;  ///< by offset; the first is unfinished
    std::optional<std::int64_t> last_;
};

}  // namespace semel::kafka
