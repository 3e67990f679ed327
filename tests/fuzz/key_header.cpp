// Any bytes as the value of an Idempotency-Key header. What is accepted is a key within its limits, is the same key in both
// spellings, and does not depend on the white space around it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "ledger/key_header.hpp"

namespace {

using namespace semel;  // NOLINT(google-build-using-namespace): one subject, one file

bool can_be_bare(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; }) &&
           text.find_first_of("\",;\\") == std::string_view::npos;
}

void check_again(std::string_view value, const Key& key, std::string_view why) {
    const auto again = key_from_header(value);
    SEMEL_ASSERT(again.ok() && again->text() == key.text(), why.data());
}

void check(std::string_view value, const Key& key) {
    const std::string_view text = key.text();
    SEMEL_ASSERT(!text.empty() && text.size() <= 255, "1 to 255 characters");
    SEMEL_ASSERT(std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; }), "printable ASCII");
    check_again(key_to_header(key), key, "quoted it is the same");
    check_again(" \t" + std::string(value) + "\t ", key, "white space around it does not count");
    if (can_be_bare(text)) check_again(text, key, "bare it is the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view value(reinterpret_cast<const char*>(data), size);
    const auto any = key_from_header(value);
    for (const KeyFormat format : {KeyFormat::uuid, KeyFormat::uuidv7}) {
        const auto strict = key_from_header(value, format);
        SEMEL_ASSERT(!strict.ok() || (any.ok() && strict->text() == any->text()), "a format only refuses more");
        SEMEL_ASSERT(!strict.ok() || strict->text().size() == 36, "a UUID");
    }
    if (any.ok()) {
        check(value, *any);
        return 0;
    }
    const std::string& why = any.failure().message;
    SEMEL_ASSERT(any.failure().code == Code::invalid && !why.empty(), "refused as what it is");
    SEMEL_ASSERT(std::ranges::none_of(why, [](unsigned char c) { return c < 0x20 || c == 0x7f; }), "one line");
    return 0;
}
