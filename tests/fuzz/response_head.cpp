// Any bytes as an upstream's answers, the first byte choosing the method they answer. As request_head.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "http/response.hpp"
#include "http/writer.hpp"

namespace {

using namespace semel::http;  // NOLINT(google-build-using-namespace): one subject, one file

const HeadLimits limits{.head_bytes_max = 600, .target_bytes_max = 40, .field_bytes_max = 120, .fields_max = 10};

struct Verdict {
    Progress progress;
    Fault fault;
    std::size_t used;
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

Verdict read(ResponseReader& reader, std::string_view bytes, std::size_t piece) {
    std::size_t used = 0;
    while (reader.progress() == Progress::more && used < bytes.size()) {
        const std::string own(bytes.substr(used, piece));
        used += reader.feed(own).used;
    }
    return {reader.progress(), reader.fault(), used};
}

void check(const ResponseHead& head, Method method) {
    SEMEL_ASSERT(head.status >= 100 && head.status <= 599, "status");
    SEMEL_ASSERT(head.fields.size() <= limits.fields_max, "fields");
    SEMEL_ASSERT(head.fields.count("content-length") + head.fields.count("transfer-encoding") <= 1, "one framing");
    const bool bodiless = method == Method::head || head.status < 200 || head.status == 204 || head.status == 304;
    SEMEL_ASSERT(!bodiless || head.framing == Framing::none(), "no body");
    SEMEL_ASSERT(bodiless || head.framing.kind != Framing::Kind::none, "a body, if only an empty one");
    SEMEL_ASSERT(!head.keep_alive || head.framing.kind != Framing::Kind::until_close, "the end of the connection");

    std::string out;
    HeadWriter writer(out);
    writer.status_line(head.status, head.reason).forward(head.fields, head.connection);
    SEMEL_ASSERT(writer.end(head.framing) == Fault::none, "what was read can be written");
    ResponseReader again(method);
    SEMEL_ASSERT(again.feed(out).used == out.size(), "all of it is one head");
    SEMEL_ASSERT(again.progress() == Progress::done, "what was written can be read");
    SEMEL_ASSERT(again.head().status == head.status && again.head().framing == head.framing, "the same answer");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const Method method = data[0] % 2 == 0 ? Method::get : Method::head;
    std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    ResponseReader whole(method, limits);
    while (!bytes.empty()) {
        const Verdict verdict = read(whole, bytes, bytes.size());
        for (const std::size_t piece : {std::size_t{1}, std::size_t{2}, std::size_t{13}, size / 2 + 1}) {
            ResponseReader split(method, limits);
            SEMEL_ASSERT(read(split, bytes, piece) == verdict, "the verdict depends on the bytes alone");
        }
        if (verdict.progress != Progress::done) break;
        check(whole.head(), method);
        bytes.remove_prefix(verdict.used);
        whole.reset();
    }
    return 0;
}
