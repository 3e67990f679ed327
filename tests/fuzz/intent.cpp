// Any bytes as what a journal holds of an intent, with a checksum that fits: what is read is written and read back as the same,
// what is refused says why, in one line.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "client/intent_text.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string content(reinterpret_cast<const char*>(data), size);
    const auto read =
        semel::client::intent_from_text("semel intent 1 " + semel::to_hex(semel::sha256(content)) + '\n' + content);
    SEMEL_ASSERT(!semel::client::intent_from_text(content).ok() || content.starts_with("semel intent 1 "),
                 "nothing is an intent without its first line");
    if (!read) {
        SEMEL_ASSERT(read.failure().code == semel::Code::corrupt, "it is corrupt");
        SEMEL_ASSERT(!read.failure().message.empty() && read.failure().message.find('\n') == std::string::npos,
                     "why, in one line");
        return 0;
    }
    const auto again = semel::client::intent_from_text(semel::client::to_text(*read));
    SEMEL_ASSERT(again.ok() && *again == *read, "what was read is read again");
    return 0;
}
