// Any bytes as a JSON body. Its canonical form is JSON that is its own canonical form, white space makes no difference, and
// leaving parts out gives the same before and after.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "ledger/canonical_json.hpp"
#include "ledger/json_document.hpp"

namespace {

using namespace semel;  // NOLINT(google-build-using-namespace): one subject, one file

JsonSelection parts(std::string_view included, std::string_view excluded) {
    JsonSelection selection;
    if (!included.empty()) selection.include.push_back(JsonPointer::parse(included).value());
    if (!excluded.empty()) selection.exclude.push_back(JsonPointer::parse(excluded).value());
    return selection;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const JsonSelection selections[] = {parts("", "/a"), parts("", "/0"), parts("/a", ""), parts("/a", "/a/0"),
                                               parts("/0", "/0/a")};
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto canonical = canonical_json(text);
    if (!canonical) {
        for (const JsonSelection& selection : selections)
            SEMEL_ASSERT(JsonDocument::parse(text) || !canonical_json(text, selection), "a part of what is no JSON");
        return 0;
    }
    SEMEL_ASSERT(JsonDocument::parse(*canonical).has_value(), "it is JSON");
    SEMEL_ASSERT(canonical_json(*canonical) == canonical, "it is its own canonical form");
    SEMEL_ASSERT(canonical_json(" \n" + std::string(text) + "\t\r ") == canonical, "white space makes no difference");
    for (const JsonSelection& selection : selections)
        SEMEL_ASSERT(canonical_json(text, selection) == canonical_json(*canonical, selection), "the same parts");
    return 0;
}
