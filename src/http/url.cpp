#include "http/url.hpp"

#include <fmt/format.h>

#include "base/quote.hpp"
#include "http/fields.hpp"
#include "http/target.hpp"

namespace semel::http {

Result<Url> Url::parse(std::string_view text) {
    const auto refuse = [&](std::string_view why) {
        const bool may_hold_password = text.find('@') != std::string_view::npos;
        return Failure{Code::invalid,
                       fmt::format("URL {}: {}; write it as in http://127.0.0.1:8080/v1/payments",
                                   may_hold_password ? "\"…@…\"" : in_quotes(text.substr(0, text.find('?'))), why)};
    };
    Url url;
    url.tls = name_starts_with(text, "https://");
    if (!url.tls && !name_starts_with(text, "http://")) return refuse("it begins with neither http:// nor https://");
    const std::size_t host_end = text.find_first_of("/?", std::string_view("https://").size());
    if (text.substr(0, host_end).find('@') != std::string_view::npos)
        return refuse("a user name has no place in it: give -H 'Authorization: …'");
    Target target;
    if (const auto fault = read_target(text, Method::post, target); fault != Fault::none) return refuse(message(fault));
    url.authority = target.authority;
    url.target = origin_form(target);
    // read_target has checked its form: name, address or [address], each with or without :port.
    const std::size_t colon = url.authority.rfind(':');
    const bool has_port = colon != std::string::npos && !url.authority.ends_with(']');
    url.host = url.authority.substr(0, has_port ? colon : std::string::npos);
    if (url.host.starts_with('[')) url.host = url.host.substr(1, url.host.size() - 2);
    url.port = has_port ? url.authority.substr(colon + 1) : "";
    if (url.port.empty()) url.port = url.tls ? "443" : "80";
    if (url.host.empty()) return refuse("it has no host");
    if (url.port.find_first_not_of('0') == std::string::npos) return refuse("port 0 cannot be connected to");
    return url;
}

}  // namespace semel::http
