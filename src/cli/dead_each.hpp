// Doing the same to each of the dead letters that were chosen.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/dead_choice.hpp"

namespace semel::cli {

struct EachOptions {
    std::string store;
    bool json = false;
    ChoiceWords choice;
};

/// A letter to which it was done.
struct DoneLetter {
    std::int64_t number = 0;
    std::string consumer;
    std::optional<std::uint32_t> generation;  ///< the new one of a retry
};

struct EachLetter {
    std::string_view name;  ///< of those that are done, in JSON: `retried`
    /// In a transaction of its own. Nothing: there is no such letter any more.
    std::function<Result<std::optional<DoneLetter>>(Inbox&, const DeadLetter&)> act;
    std::function<std::string(const DoneLetter&)> line;                    ///< for people, one each
    std::function<std::string(const std::vector<DoneLetter>&)> last_line;  ///< for people, after one or more
};

/// Oldest first, each in a transaction of its own, until one fails. Letters that are not there are named in the end. Returns
/// the exit code.
int for_each_letter(const EachOptions& options, const EachLetter& each);

/// The consumers' names, each once: `orders, payments`.
std::string consumers_of(const std::vector<DoneLetter>& letters);

}  // namespace semel::cli
