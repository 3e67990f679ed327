// Somebody else's API, as far as it counts: a folder in which every charge leaves a line, whoever's process made it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "semel/intent.hpp"

namespace semel::test {

enum class Honours { keys, nothing };

class ChargeBook {
public:
    ChargeBook(std::filesystem::path folder, Honours honours) : folder_(std::move(folder)), honours_(honours) {}

    /// Charges. One that honours keys answers a key that it has seen as it did then. The receipt.
    std::string charge(const std::string& key) const;
    /// Whether a key was charged: what a lookup asks.
    [[nodiscard]] bool charged(const std::string& key) const;
    /// How often each key was charged.
    [[nodiscard]] std::map<std::string, int> charges() const;

private:
    std::filesystem::path folder_;
    Honours honours_;
};

}  // namespace semel::test
