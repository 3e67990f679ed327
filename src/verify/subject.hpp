// What is tested, and how patiently.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "semel/operation.hpp"
#include "semel/time.hpp"
#include "verify/client.hpp"

namespace semel::verify {

/// How the key is written in its header.
enum class KeySpelling : std::uint8_t {
    bare,    ///< 8e03…, as most APIs are called
    quoted,  ///< "8e03…", a Structured Field string, as the draft says
    none,    ///< no header at all
};

/// The API that is tested: a request that has an effect. Texts are templates, filled in per intent.
struct Subject {
    std::string url;
    std::string method = "POST";
    std::vector<Header> headers;
    std::optional<std::string> body;

    std::string key_header = "Idempotency-Key";
    KeyFormat key_format = KeyFormat::uuid;
    KeySpelling key_spelling = KeySpelling::bare;
    bool key_optional = false;  ///< a request without a key is carried out

    std::optional<std::string> other_body;  ///< for the same key; nothing: made from the body if that can be
    std::vector<Header> other_tenant;       ///< instead of the headers of the same names; empty: no other tenant
    std::vector<Header> error_headers;      ///< make the first try of an intent fail with a 5xx
    std::optional<std::string> error_body;  ///< a body whose every try fails with a 5xx

    std::vector<std::string> secret_headers;  ///< further names whose values are never shown
};

/// Every wait has a limit.
struct Patience {
    Duration timeout = std::chrono::seconds(10);             ///< for one answer
    Duration retry_within = std::chrono::seconds(10);        ///< for an answer that is not "try again later"
    Duration count_within = std::chrono::seconds(5);         ///< for effects that are expected
    Duration count_settle = std::chrono::milliseconds(300);  ///< how long a count stands still before it is believed
    std::size_t parallel = 20;
};

}  // namespace semel::verify
