#include "client/request_check.hpp"

#include <fmt/format.h>

#include "base/quote.hpp"
#include "http/url.hpp"
#include "http/writer.hpp"

namespace semel::client {
namespace {

Failure refused(std::string why) { return {Code::invalid, std::move(why)}; }

http::Fault fault_of(std::string_view name, std::string_view value) {
    std::string unused;
    http::HeadWriter head(unused);
    head.status_line(200).field(name, value);
    return head.end(http::Framing::none());
}

Status check_method(const std::string& method) {
    switch (http::method_of(method)) {
        case http::Method::head:
        case http::Method::options:
        case http::Method::connect:
        case http::Method::trace:
            return refused(
                fmt::format("method {}: its answer is no outcome; POST, PUT, PATCH or DELETE is meant for this",
                            in_quotes(method)));
        case http::Method::get:
        case http::Method::post:
        case http::Method::put:
        case http::Method::patch:
        case http::Method::remove:
        case http::Method::other: break;
    }
    if (!method.empty() && method.size() <= http::method_bytes_max && http::all_of(method, http::token_char))
        return Done{};
    return refused(fmt::format("method {}: must be a word such as POST", in_quotes(method)));
}

/// Values may be credentials: they are not shown.
Status check_field(const HttpField& field, std::string_view key_header) {
    const auto refuse = [&](std::string_view why) {
        return refused(fmt::format("header {}: {}", in_quotes(field.name), why));
    };
    if (http::same_name(field.name, "Host")) return refuse("it comes from the URL");
    if (http::same_name(field.name, key_header)) return refuse("the client writes the key itself");
    const http::Fault fault = fault_of(field.name, field.value);
    if (fault == http::Fault::value_not_writable) return refuse("its value has a control character");
    if (fault != http::Fault::none) return refuse("no header that may be given has this name");
    return Done{};
}

}  // namespace

Status check_key_header(std::string_view name) {
    if (!http::same_name(name, "Host") && !http::same_name(name, "Content-Type") &&
        fault_of(name, "k") == http::Fault::none)
        return Done{};
    return refused(
        fmt::format("key header {}: must be the name of a header of its own, such as Idempotency-Key or "
                    "PayPal-Request-Id",
                    in_quotes(name)));
}

Result<HttpRequest> checked_request(const HttpRequest& request, std::string_view key_header) {
    if (auto fine = check_method(request.method); !fine) return fine.failure();
    const auto url = http::Url::parse(request.url);
    if (!url) return url.failure();
    for (const HttpField& field : request.fields)
        if (auto fine = check_field(field, key_header); !fine) return fine.failure();
    HttpRequest checked = request;
    checked.url = url->text();
    return checked;
}

}  // namespace semel::client
