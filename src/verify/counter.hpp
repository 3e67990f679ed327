// How many effects there really are. Status codes can lie; whoever is tested names a place that cannot.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ledger/json_pointer.hpp"
#include "semel/result.hpp"
#include "semel/time.hpp"
#include "verify/client.hpp"
#include "verify/intent.hpp"

namespace semel::verify {

/// Counts all effects, or only those of an intent if what it was made of has placeholders. Used by one thread at a time.
class Counter {
public:
    virtual ~Counter() = default;

    /// How many there are now. A failure says what was asked and what came back.
    virtual Result<std::int64_t> count(const Intent& intent) = 0;

    /// Whether it counts the effects of the given intent only.
    [[nodiscard]] virtual bool per_intent() const = 0;
};

/// `sh -c command`, which prints a whole number and ends with 0 within the time.
std::unique_ptr<Counter> count_by_command(std::string command, Duration timeout);

/// One row whose first column is a whole number. `store` is sqlite:PATH or postgres://…; it is only ever read. `invalid`:
/// another scheme, or a file that is not there.
Result<std::unique_ptr<Counter>> count_by_sql(std::string store, std::string query, Duration timeout);

/// GET, whose answer has a whole number at the pointer. `url` is a template of a URL. `tls` has to outlive the counter.
std::unique_ptr<Counter> count_by_url(std::string url, std::vector<Header> headers, JsonPointer pointer,
                                      Duration timeout, const Tls& tls);

/// A whole number in decimal digits with white space around it; nothing for anything else.
std::optional<std::int64_t> whole_number(std::string_view text);

}  // namespace semel::verify
