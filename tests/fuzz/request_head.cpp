// Any bytes as requests on a connection. The verdict must not depend on how they are split; what is accepted must be
// within the limits, and written anew it must be read as the same.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "http/request.hpp"
#include "http/writer.hpp"

namespace {

using namespace semel::http;  // NOLINT(google-build-using-namespace): one subject, one file

const HeadLimits limits{.head_bytes_max = 600, .target_bytes_max = 100, .field_bytes_max = 120, .fields_max = 10};

struct Verdict {
    Progress progress;
    Fault fault;
    std::size_t used;
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

Verdict read(RequestReader& reader, std::string_view bytes, std::size_t piece) {
    std::size_t used = 0;
    while (reader.progress() == Progress::more && used < bytes.size()) {
        const std::string own(bytes.substr(used, piece));  // gone after feed(): no view may point there
        used += reader.feed(own).used;
    }
    return {reader.progress(), reader.fault(), used};
}

void check_within_limits(const RequestHead& head) {
    SEMEL_ASSERT(!head.method_text.empty() && head.method_text.size() <= method_bytes_max, "method");
    SEMEL_ASSERT(!head.target_text.empty() && head.target_text.size() <= limits.target_bytes_max, "target");
    SEMEL_ASSERT(head.fields.size() <= limits.fields_max, "fields");
    SEMEL_ASSERT(head.fields.count("content-length") + head.fields.count("transfer-encoding") <= 1, "one framing");
    SEMEL_ASSERT(head.fields.count("host") <= 1, "one host");
    SEMEL_ASSERT(head.framing.kind != Framing::Kind::until_close, "a request has no body until close");
    for (const Field& field : head.fields) {
        SEMEL_ASSERT(!field.name.empty() && all_of(field.name, token_char), "name");
        SEMEL_ASSERT(all_of(field.value, value_char) && trimmed(field.value) == field.value, "value");
    }
}

void check_written_anew(const RequestHead& head) {
    if (head.host.empty() || head.method == Method::connect) return;
    std::string out;
    HeadWriter writer(out);
    const std::string target = origin_form(head.target);
    writer.request_line(head.method_text, target);
    if (head.fields.count("host") == 0) writer.field("Host", head.host);
    writer.forward(head.fields, head.connection);
    SEMEL_ASSERT(writer.end(head.framing) == Fault::none, "what was read can be written");
    RequestReader again;
    SEMEL_ASSERT(again.feed(out).used == out.size(), "all of it is one head");
    SEMEL_ASSERT(again.progress() == Progress::done, "what was written can be read");
    const RequestHead& second = again.head();
    SEMEL_ASSERT(second.method_text == head.method_text && second.target_text == target, "the same request line");
    SEMEL_ASSERT(second.host == head.host && second.framing == head.framing, "the same host and framing");
    SEMEL_ASSERT(!second.upgrade && second.connection.close() == false, "nothing of the last hop");
    for (const Field& field : head.fields)
        if (goes_on(field, head.connection))
            SEMEL_ASSERT(second.fields.count(field.name) == head.fields.count(field.name), "the same fields");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string_view bytes(reinterpret_cast<const char*>(data), size);
    RequestReader whole(limits);
    while (!bytes.empty()) {
        const Verdict verdict = read(whole, bytes, bytes.size());
        for (const std::size_t piece :
             {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{17}, size / 2 + 1}) {
            RequestReader split(limits);
            SEMEL_ASSERT(read(split, bytes, piece) == verdict, "the verdict depends on the bytes alone");
        }
        if (verdict.progress != Progress::done) break;
        check_within_limits(whole.head());
        check_written_anew(whole.head());
        bytes.remove_prefix(verdict.used);
        whole.reset();
    }
    return 0;
}
