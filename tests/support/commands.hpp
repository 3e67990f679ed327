// Short ways to say what tests say often.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/bytes.hpp"
#include "semel/keys.hpp"
#include "semel/ledger.hpp"
#include "semel/store.hpp"

namespace semel::test {

inline Operation operation(const std::string& key, const std::string& scope = "acme/payments") {
    return {Scope::parse(scope).value(), Key::parse(key).value()};
}

inline Fingerprint fingerprint(const std::string& body) { return {first_half(sha256(body)), 1}; }

inline Claim claim(const std::string& key, const std::string& body = "body") {
    return {.operation = operation(key),
            .fingerprint = fingerprint(body),
            .attempt = mint_attempt(),
            .policy = {},
            .key_time = {},
            .correlation = {},
            .not_after = never,
            .in_transaction = false};
}

inline Holder holder(const Claim& claim, const Claimed& claimed) {
    return {claim.operation.id(), claimed.token, claimed.attempt};
}

inline Group lone(Command command, bool again = false) {
    Group group;
    group.commands.push_back(std::move(command));
    group.again = again;
    return group;
}

/// Executes one command by itself and returns its answer; a failure fails the test and throws.
inline Answer execute(Session& session, Command command, bool again = false) {
    const Group group = lone(std::move(command), again);
    auto executed = session.execute(std::span(&group, 1));
    if (!executed) throw std::runtime_error("execute: " + executed.failure().message);
    if (!executed->answers[0]) throw std::runtime_error("execute: " + executed->answers[0].failure().message);
    return executed->answers[0]->front();
}

/// The answer as T; anything else fails the test and throws.
template <class T>
T as(const Answer& answer) {
    const T* wanted = std::get_if<T>(&answer);
    if (wanted == nullptr)
        throw std::runtime_error("another answer than expected: alternative " + std::to_string(answer.index()));
    return *wanted;
}

template <class T>
bool is(const Answer& answer) {
    return std::holds_alternative<T>(answer);
}

}  // namespace semel::test
